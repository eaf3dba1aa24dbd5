//! `turno adopt`: a user's own table, before and after.

use serde_json::json;

use crate::common::{Fixture, Kind, text};

on_each_store!(
    a_table_is_adopted_once_and_let_go,
    what_would_be_done_is_printed_and_can_be_run,
    a_flag_is_all_that_some_tables_need,
    an_error_names_its_field,
    undoing_refuses_while_something_depends_on_it,
    an_outbox_table_is_adopted_relayed_and_let_go,
    an_outbox_table_is_paged_and_its_events_are_discarded,
    an_event_that_cannot_be_published_is_listed_and_requeued,
);

const COLUMNS: [&str; 5] = [
    "processing_started_at",
    "processed_at",
    "processing_attempts",
    "error_message",
    "processing_token",
];

/// Creates a store with a table.
fn with_notes(fixture: &Fixture) {
    fixture.turno("migrate").expect(0);
    fixture.tell("create table notes (id integer primary key, user_id integer, body text)");
    fixture.tell("insert into notes (id, body) values (1, 'one'), (2, 'two')");
}

/// Returns the names of a table's columns, in order.
fn columns(fixture: &Fixture, table: &str) -> String {
    match fixture.kind {
        Kind::Sqlite => fixture.ask(&format!(
            "select group_concat(name) from pragma_table_info('{table}')"
        )),
        Kind::Postgres => fixture.ask(&format!(
            "select string_agg(attname, ',' order by attnum) from pg_attribute where attrelid = '{table}'::regclass and attnum > 0 and not attisdropped"
        )),
    }
}

fn a_table_is_adopted_once_and_let_go(fixture: Fixture) {
    with_notes(&fixture);
    let adopted = fixture.json(0, "adopt notes --id id");
    assert_eq!(adopted["columns"], json!(COLUMNS));
    assert_eq!(text(&adopted, "user"), "user_id");
    assert_eq!(text(&adopted, "shape"), "processing");
    assert!(columns(&fixture, "notes").ends_with("processing_token"));
    let again = fixture.json(0, "adopt notes --id id");
    assert_eq!(
        (&again["functions"], &again["indexes"]),
        (&adopted["functions"], &adopted["indexes"])
    );
    let shown = fixture.turno("adopt notes --id id").expect(0);
    assert!(
        shown.out.contains("adopted") && shown.out.contains("notes_turno_waiting"),
        "{shown:?}"
    );
    if fixture.kind == Kind::Postgres {
        assert_eq!(fixture.ask("select acquire_processing_lock(1)"), "t");
        assert_eq!(fixture.ask("select acquire_processing_lock(1)"), "f");
    }
    let gone = fixture.json(0, "adopt notes --undo");
    assert_eq!(gone["columns"].as_array().unwrap().len(), COLUMNS.len());
    assert_eq!(columns(&fixture, "notes"), "id,user_id,body");
    let refused = fixture.turno("--json adopt notes --undo").expect(2);
    assert_eq!(text(&refused.error(), "field"), "table");
}

fn what_would_be_done_is_printed_and_can_be_run(fixture: Fixture) {
    with_notes(&fixture);
    let script = fixture.turno("adopt notes --id id --print").expect(0).out;
    assert!(
        script.starts_with("begin") && script.ends_with("commit;\n"),
        "{script}"
    );
    assert_eq!(columns(&fixture, "notes"), "id,user_id,body");
    let wrapped = fixture.json(0, "adopt notes --id id --print");
    assert_eq!(text(&wrapped, "sql"), script);
    match fixture.kind {
        Kind::Sqlite => rusqlite::Connection::open(fixture.path("store.db"))
            .unwrap()
            .execute_batch(&script)
            .unwrap(),
        Kind::Postgres => drop(crate::common::ask_postgres(&fixture.store, &script)),
    }
    let after = columns(&fixture, "notes");
    assert!(after.contains("processing_token"), "{after}");
    // The added columns are recorded, even if the script was not run by the program.
    fixture.json(0, "adopt notes --undo");
    assert_eq!(columns(&fixture, "notes"), "id,user_id,body");
}

fn a_flag_is_all_that_some_tables_need(fixture: Fixture) {
    fixture.turno("migrate").expect(0);
    fixture.tell("create table presentations (id varchar(36) primary key, processed boolean not null default false)");
    let adopted = fixture.json(0, "adopt presentations --id id --shape processed");
    assert_eq!(adopted["columns"], json!(["processed_at"]));
    fixture.json(0, "adopt presentations --undo");
    assert_eq!(columns(&fixture, "presentations"), "id,processed");
}

fn an_error_names_its_field(fixture: Fixture) {
    with_notes(&fixture);
    for (arguments, field) in [
        (vec!["adopt", "nowhere", "--id", "id"], "table"),
        (vec!["adopt", "notes", "--id", "nothing"], "id"),
        (vec!["adopt", "notes", "--id", "body"], "id"),
        (vec!["adopt", "notes"], "id"),
        (
            vec!["adopt", "notes", "--id", "id", "--user", "missing"],
            "user",
        ),
        (
            vec!["adopt", "notes", "--id", "id", "--shape", "round"],
            "shape",
        ),
        (
            vec!["adopt", "notes", "--id", "id", "--max-attempts", "0"],
            "max_attempts",
        ),
    ] {
        let refused = fixture
            .turno(&[&["--json"], &*arguments].concat())
            .expect(2)
            .error();
        assert_eq!(text(&refused, "field"), field, "{arguments:?}: {refused}");
    }
    assert_eq!(columns(&fixture, "notes"), "id,user_id,body");
    fixture.turno("adopt notes --undo --print").expect(2);
}

fn undoing_refuses_while_something_depends_on_it(fixture: Fixture) {
    with_notes(&fixture);
    fixture.json(0, "adopt notes --id id");
    fixture.tell("create view done as select processed_at from notes");
    let refused = fixture.turno("--json adopt notes --undo").expect(1).error();
    assert_eq!(text(&refused, "code"), "refused");
    assert!(text(&refused, "detail").contains("done"), "{refused}");
    assert!(columns(&fixture, "notes").contains("processing_token"));
    fixture.tell("drop view done");
    fixture.json(0, "adopt notes --undo");
    assert_eq!(columns(&fixture, "notes"), "id,user_id,body");
}

/// The functions of two tables would have the same names.
#[test]
fn a_second_table_needs_a_suffix() {
    let fixture = Fixture::new(Kind::Postgres);
    with_notes(&fixture);
    fixture.tell("create table tasks (id bigint primary key)");
    fixture.json(0, "adopt notes --id id");
    let refused = fixture
        .turno("--json adopt tasks --id id")
        .expect(2)
        .error();
    assert_eq!(text(&refused, "field"), "suffix");
    assert!(
        text(&refused, "detail").contains("public.notes"),
        "{refused}"
    );
    fixture.json(0, "adopt tasks --id id --suffix tasks");
    assert_eq!(fixture.ask("select acquire_processing_lock_tasks(1)"), "f");
}

/// The functions of the notes application, written before it used Turno.
#[test]
fn functions_in_the_way_are_shown_and_replaced() {
    let fixture = Fixture::new(Kind::Postgres);
    with_notes(&fixture);
    fixture.tell("create function acquire_processing_lock(p_note_id integer) returns text language sql as $$ select 'mine' $$");
    let adopt = ["adopt", "notes", "--id", "id"];
    let refused = fixture
        .turno(&[&["--json"], &adopt[..]].concat())
        .expect(2)
        .error();
    assert_eq!(text(&refused, "field"), "suffix");
    assert!(text(&refused, "detail").contains("--replace"), "{refused}");
    let shown = fixture.turno(&[&adopt[..], &["--diff"]].concat()).expect(0);
    assert!(
        shown
            .out
            .contains("drop public.acquire_processing_lock(integer)")
            && shown
                .out
                .contains("create public.acquire_processing_lock(integer, integer)"),
        "{shown:?}"
    );
    let difference = fixture.json(0, &[&adopt[..], &["--diff"]].concat());
    assert!(shown.out.starts_with(text(&difference, "difference")));
    assert_eq!(fixture.ask("select acquire_processing_lock(1)"), "mine");
    let done = fixture
        .turno(&[&adopt[..], &["--replace"]].concat())
        .expect(0);
    assert!(
        done.out.contains("select 'mine'") && done.out.contains("replaced"),
        "{done:?}"
    );
    assert_eq!(fixture.ask("select acquire_processing_lock(1)"), "t");
    let again = fixture.turno(&[&adopt[..], &["--diff"]].concat()).expect(0);
    assert!(
        again.out.contains("there are no functions to replace"),
        "{again:?}"
    );
    let gone = fixture.json(0, "adopt notes --undo");
    assert_eq!(
        gone["replaced"],
        json!(["public.acquire_processing_lock(integer)"])
    );
    assert_eq!(fixture.ask("select acquire_processing_lock(1)"), "mine");
    fixture
        .turno(&[&adopt[..], &["--diff", "--replace"]].concat())
        .expect(2);
}

const OUTBOX: &str = r#""OutboxMessages""#;
const RELAY: &str = r#"outbox relay --table "OutboxMessages" --sink stdout: --until-empty"#;
const FIRST: &str = "0190f1f4-2b3c-7d4e-8f50-112233445566";
const SECOND: &str = "0190f1f4-2b3c-7d4e-8f50-112233445577";

/// Creates a store with a table of events, as Entity Framework does.
fn with_outbox(fixture: &Fixture) {
    fixture.turno("migrate").expect(0);
    fixture.tell(r#"create table "OutboxMessages" ("Id" varchar(36) not null primary key, "Type" varchar(200) not null, "PayloadJson" text not null, "CorrelationId" text, "OccurredAt" text not null, "Attempts" integer not null default 0, "Error" text, "Topic" text)"#);
    fixture.tell(&format!(
        r#"insert into "OutboxMessages" ("Id", "Type", "PayloadJson", "CorrelationId", "OccurredAt", "Topic") values ('{FIRST}', 'TicketCreatedEvent', '["ticket 7"]', 'a1b2', '2026-11-17 04:00:00', 'k')"#
    ));
}

fn an_outbox_table_is_adopted_relayed_and_let_go(fixture: Fixture) {
    with_outbox(&fixture);
    let adopt = ["adopt", "--as", "outbox", OUTBOX, "--key", "Topic"];
    let script = fixture
        .turno(&[&adopt[..], &["--print"]].concat())
        .expect(0);
    assert!(
        script.out.starts_with("begin") && script.out.contains("relay_token"),
        "{script:?}"
    );
    let adopted = fixture.json(0, &adopt);
    assert_eq!(
        (text(&adopted, "payload"), text(&adopted, "key")),
        ("PayloadJson", "Topic")
    );
    assert_eq!(text(&adopted, "processed"), "processed_at");
    let shown = fixture.turno(&adopt).expect(0);
    assert!(
        shown.out.contains("OutboxMessages_turno_pending"),
        "{shown:?}"
    );
    let stats = fixture.json(0, &["outbox", "stats", "--table", OUTBOX]);
    assert_eq!(stats["pending"], json!(1));
    assert_eq!(stats["unprocessed"], json!(1));
    let relayed = fixture.turno(RELAY).expect(0);
    let event: serde_json::Value = serde_json::from_str(relayed.out.trim()).unwrap();
    assert_eq!((text(&event, "id"), text(&event, "key")), (FIRST, "k"));
    assert_eq!(
        (text(&event, "type"), text(&event, "correlation_id")),
        ("TicketCreatedEvent", "a1b2")
    );
    let done = r#"select count(*) from "OutboxMessages" where processed_at is not null"#;
    assert_eq!(fixture.ask(done), "1");
    // Nothing is left for a second relay, nor in Turno's own outbox.
    assert_eq!(fixture.turno(RELAY).expect(0).out, "");
    assert_eq!(fixture.json(0, "outbox stats")["total"], json!(0));
    let gone = fixture.json(0, &["adopt", OUTBOX, "--undo"]);
    assert_eq!(gone["columns"].as_array().unwrap().len(), 8);
    let refused = fixture.turno(&format!("--json {RELAY}")).expect(2);
    // The relay writes its log to the same place, before the error.
    assert!(refused.err.contains(r#""field":"table""#), "{refused:?}");
}

fn an_event_that_cannot_be_published_is_listed_and_requeued(fixture: Fixture) {
    with_outbox(&fixture);
    fixture.tell(r#"update "OutboxMessages" set "PayloadJson" = 'not JSON'"#);
    fixture
        .turno(&["adopt", "--as", "outbox", OUTBOX])
        .expect(0);
    assert_eq!(fixture.turno(RELAY).expect(0).out, "");
    let list = ["outbox", "list", "--table", OUTBOX, "--state", "dead"];
    let dead = fixture.json(0, &list);
    assert_eq!(text(&dead["events"][0], "id"), FIRST);
    fixture.tell(r#"update "OutboxMessages" set "PayloadJson" = '[]'"#);
    let requeued = fixture.json(0, &["outbox", "requeue", FIRST, "--table", OUTBOX]);
    assert_eq!(requeued["requeued"], json!(1));
    assert!(fixture.turno(RELAY).expect(0).out.contains(FIRST));
    let history = fixture.json(0, &["history", "--part", "outbox"]);
    assert_eq!(text(&history["history"][0], "event"), "requeued");
}

fn an_outbox_table_is_paged_and_its_events_are_discarded(fixture: Fixture) {
    with_outbox(&fixture);
    fixture.tell(&format!(
        r#"insert into "OutboxMessages" ("Id", "Type", "PayloadJson", "OccurredAt") values ('{SECOND}', 'TicketClosedEvent', '[]', '2026-11-17 05:00:00')"#
    ));
    fixture
        .turno(&["adopt", "--as", "outbox", OUTBOX])
        .expect(0);
    let list = ["outbox", "list", "--table", OUTBOX, "--limit", "1"];
    let page = fixture.json(0, &list);
    assert_eq!(text(&page["events"][0], "id"), FIRST);
    let next = text(&page, "next").to_owned();
    let shown = fixture.turno(&list).expect(0);
    assert!(shown.out.contains(&format!("--after {next}")), "{shown:?}");
    let page = fixture.json(0, &[&list[..], &["--after", &next]].concat());
    assert_eq!(text(&page["events"][0], "id"), SECOND);
    fixture
        .turno(&[&list[..], &["--after", "7"]].concat())
        .expect(2);
    fixture.turno(&["outbox", "list", "--after", "x"]).expect(2);
    let discard = [
        "outbox", "discard", FIRST, "--table", OUTBOX, "--user", "ana", "--reason", "a test",
    ];
    assert_eq!(fixture.json(0, &discard)["discarded"], json!(1));
    let history = fixture.json(0, &["history", "--part", "outbox"]);
    let entry = &history["history"][0];
    assert_eq!(
        (text(entry, "event"), text(entry, "actor")),
        ("discarded", "ana")
    );
    assert!(text(entry, "resource").ends_with("OutboxMessages"));
    let error = r#"select "Error" from "OutboxMessages" where processed_at is not null"#;
    assert_eq!(fixture.ask(error), "discarded by ana: a test");
}
