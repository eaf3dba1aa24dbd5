//! The functions of an adopted table on PostgreSQL, called as in the presentations system and the notes application.

use tokio_postgres::Client;
use turno_testkit::Sql as _;
use turno_testkit::conformance::TestStore;

use super::{age, ask, tell};

async fn notes() -> (TestStore, Client) {
    let test_store = TestStore::postgres();
    let turno = test_store.turno().await;
    tell(&test_store, "create table notes (id uuid primary key default gen_random_uuid(), user_id uuid, title text); insert into notes (title) values ('one'), ('two'), ('three')").await;
    turno.adopt("notes").id("id").apply().await.unwrap();
    turno.close().await;
    let client = test_store.postgres_connection().await;
    (test_store, client)
}

/// Returns a value as text.
async fn said(client: &Client, sql: &str) -> String {
    let sql = format!("select ({sql})::text");
    let row = client.query_one(&sql, &[]).await;
    let row = row.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    row.get::<_, Option<String>>(0).unwrap_or_default()
}

const ONE: &str = "(select id from notes where title = 'one')";

#[tokio::test]
async fn the_seed_finds_its_functions_with_their_names_and_answers() {
    let (test_store, client) = notes().await;
    let acquire =
        format!("acquire_processing_lock(p_note_id => {ONE}, p_lock_timeout_minutes => 15)");
    assert_eq!(said(&client, &acquire).await, "true");
    assert_eq!(said(&client, &acquire).await, "false");
    assert_eq!(
        said(&client, &format!("acquire_processing_lock({ONE})")).await,
        "false"
    );
    age(&test_store, "notes").await;
    assert_eq!(
        said(&client, &format!("acquire_processing_lock({ONE}, 61)")).await,
        "false"
    );
    assert_eq!(said(&client, &acquire).await, "true");
    let fail = format!(
        "release_processing_lock_with_error(p_note_id => {ONE}, p_error_message => 'no transcript')"
    );
    assert_eq!(said(&client, &fail).await, "true");
    let row = "select concat_ws(' ', processing_attempts, error_message, processing_started_at, processed_at) from notes where title = 'one'";
    assert_eq!(ask(&test_store, row).await, "2 no transcript");
    assert_eq!(said(&client, &acquire).await, "true");
    let release = format!("release_processing_lock(p_note_id => {ONE})");
    assert_eq!(said(&client, &release).await, "true");
    assert_eq!(said(&client, &release).await, "false");
    assert_eq!(said(&client, &acquire).await, "false");
    let stats = "select concat_ws(' ', total, pending, processing, completed, failed) from get_processing_stats()";
    assert_eq!(said(&client, stats).await, "3 2 0 1 0");
    assert_eq!(
        said(
            &client,
            "select count(*) from get_processing_stats(p_user_id => gen_random_uuid())"
        )
        .await,
        "1"
    );
}

#[tokio::test]
async fn the_next_notes_are_whole_rows_and_locked() {
    let (test_store, client) = notes().await;
    let next = "select * from get_next_notes_for_processing(p_user_id => null, p_limit => 2, p_lock_timeout_minutes => 15)";
    let rows = client.query(next, &[]).await.unwrap();
    assert_eq!(rows.len(), 2);
    assert!(rows[0].get::<_, Option<i64>>("processing_token").is_some());
    assert!(!rows[0].get::<_, String>("title").is_empty());
    assert_eq!(client.query(next, &[]).await.unwrap().len(), 1);
    assert_eq!(client.query(next, &[]).await.unwrap().len(), 0);
    // Drivers that send no types find exactly one function.
    let cleaned = "select cleanup_abandoned_processing_locks(p_timeout_minutes => 15)";
    assert_eq!(
        client
            .query_one(cleaned, &[])
            .await
            .unwrap()
            .get::<_, i32>(0),
        0
    );
    age(&test_store, "notes").await;
    assert_eq!(
        said(&client, "cleanup_abandoned_processing_locks()").await,
        "3"
    );
    assert_eq!(
        said(&client, "select failed from get_processing_stats()").await,
        "3"
    );
    // A column that is added later is returned too, also to a session that has called before.
    client.run("alter table notes add column late text").await;
    let rows = client
        .query("select late from get_next_notes_for_processing()", &[])
        .await;
    assert_eq!(rows.unwrap().len(), 3);
    assert_eq!(said(&client, "reset_stuck_processing()").await, "0");
    assert_eq!(
        said(&client, "reset_stuck_processing(p_all => true)").await,
        "3"
    );
}

/// A limit of the notes application's own functions: without a token, a release cannot detect that it was overtaken.
#[tokio::test]
async fn only_a_token_tells_who_was_overtaken() {
    let (test_store, client) = notes().await;
    let token = said(&client, &format!("acquire_processing_lock_token({ONE})")).await;
    age(&test_store, "notes").await;
    let second = said(
        &client,
        &format!("acquire_processing_lock_token({ONE}, '15 minutes')"),
    )
    .await;
    assert_ne!(token, second);
    let fail = format!("release_processing_lock_with_error({ONE}, 'late', {token})");
    assert_eq!(said(&client, &fail).await, "false");
    let release = format!("release_processing_lock({ONE}, {token})");
    assert_eq!(said(&client, &release).await, "false");
    assert_eq!(
        said(&client, &format!("release_processing_lock({ONE})")).await,
        "true",
        "the control: it ends the other's lock"
    );
}

/// A row that another session is changing counts as locked; one that is only referenced does not.
#[tokio::test]
async fn no_call_waits_for_a_row() {
    let (test_store, client) = notes().await;
    client
        .run("create table comments (note uuid references notes); set statement_timeout = '10s'")
        .await;
    let other = test_store.postgres_connection().await;
    other.run(&format!("begin; insert into comments values ({ONE}); update notes set title = 'TWO' where title = 'two'")).await;
    assert_eq!(
        said(
            &client,
            "select count(*) from get_next_notes_for_processing()"
        )
        .await,
        "2"
    );
    let two = "acquire_processing_lock((select id from notes where title = 'two'))";
    assert_eq!(said(&client, two).await, "false");
    other.run("rollback").await;
    assert_eq!(said(&client, two).await, "true");
}

#[tokio::test]
async fn the_flag_of_seed_000_is_turned_in_its_transaction() {
    let test_store = TestStore::postgres();
    let turno = test_store.turno().await;
    tell(&test_store, "create table inbox (id uuid primary key, processed boolean not null default false); insert into inbox values ('0190f1f4-2b3c-7d4e-8f50-112233445566')").await;
    turno
        .adopt("inbox")
        .shape(turno::adopt::Shape::Processed)
        .apply()
        .await
        .unwrap();
    let (one, other) = (
        test_store.postgres_connection().await,
        test_store.postgres_connection().await,
    );
    let mark = "try_mark_as_processing(p_id => '0190f1f4-2b3c-7d4e-8f50-112233445566')";
    one.run("begin").await;
    assert_eq!(said(&one, mark).await, "1");
    // The plain update of the presentations system would wait here until the web service has responded.
    assert_eq!(said(&other, mark).await, "0");
    one.run("rollback").await;
    assert_eq!(said(&other, mark).await, "1");
    assert_eq!(said(&one, mark).await, "0");
    assert_eq!(
        said(
            &one,
            &mark.replace("try_mark_as_processing", "mark_as_unprocessed")
        )
        .await,
        "1"
    );
    assert_eq!(
        said(&one, "select pending from get_processing_stats()").await,
        "1"
    );
}

/// The functions run with their caller's rights, and only the owner can adopt.
#[tokio::test]
async fn the_callers_own_rights_decide() {
    let (test_store, owner) = notes().await;
    let client = test_store.postgres_connection_as("app").await;
    for refused in [
        "select * from get_next_notes_for_processing()",
        "select * from get_processing_stats()",
        "select turno.adopt('notes', 'id')",
        "select turno.unadopt('notes')",
        "select * from turno.adopted",
    ] {
        let error = client.query(refused, &[]).await.unwrap_err();
        assert_eq!(error.code().unwrap().code(), "42501", "{refused}");
    }
    let calls = client
        .query("select * from turno.adopted_calls('notes')", &[])
        .await;
    assert_eq!(calls.unwrap().len(), 7);
    owner
        .run("grant select, update on notes to turno_app")
        .await;
    assert_eq!(
        said(
            &client,
            "select count(*) from get_next_notes_for_processing()"
        )
        .await,
        "3"
    );
}

/// Neither the caller's search_path nor the function's own affects a trigger or the clock.
#[tokio::test]
async fn triggers_and_a_hostile_search_path_change_nothing() {
    let (test_store, client) = notes().await;
    tell(
        &test_store,
        "create table audit (title text);
         create function audited() returns trigger language plpgsql as $$ begin insert into audit values (new.title); return new; end $$;
         create trigger audited before update on notes for each row execute function audited();
         create schema evil;
         create function evil.clock_timestamp() returns timestamptz language sql as $$ select 'epoch'::timestamptz $$;
         create table evil.notes (id uuid)",
    )
    .await;
    let one = said(&client, ONE).await;
    client.run("set search_path = evil, pg_catalog").await;
    assert_eq!(
        said(&client, &format!("public.acquire_processing_lock('{one}')")).await,
        "true"
    );
    assert_eq!(
        said(&client, &format!("public.acquire_processing_lock('{one}')")).await,
        "false"
    );
    assert_eq!(ask(&test_store, "select count(*) from audit").await, "1");
    assert_eq!(ask(&test_store, "select processing_started_at > now() - interval '1 hour' from notes where title = 'one'").await, "true");
}

#[tokio::test]
async fn a_function_name_that_is_taken_is_not_taken_away() {
    let (test_store, client) = notes().await;
    client.run("create table tasks (id bigint primary key);
             create table jobs (id bigint primary key);
             create function get_processing_stats_mine() returns integer language sql as 'select 1'").await;
    let turno = test_store.turno().await;
    let error = turno.adopt("tasks").apply().await.unwrap_err();
    assert_eq!(error.field(), Some("suffix"), "{error:?}");
    assert!(error.to_string().contains("public.notes"), "{error}");
    let error = turno
        .adopt("tasks")
        .suffix("mine")
        .apply()
        .await
        .unwrap_err();
    assert_eq!(error.field(), Some("suffix"), "{error:?}");
    let error = turno
        .adopt("tasks")
        .suffix("No Good")
        .apply()
        .await
        .unwrap_err();
    assert_eq!(error.field(), Some("suffix"), "{error:?}");
    turno.adopt("tasks").suffix("tasks").apply().await.unwrap();
    // In another schema, the names are free.
    client
        .run("create schema other; create table other.notes (id bigint primary key)")
        .await;
    turno.adopt("other.notes").apply().await.unwrap();
    assert_eq!(
        said(&client, "other.acquire_processing_lock(1)").await,
        "false"
    );
    turno.adopted("other.notes").stats(None).await.unwrap();
    assert_eq!(turno.adopted("notes").stats(None).await.unwrap().total, 3);
    assert_eq!(
        turno.unadopt("other.notes").await.unwrap().table,
        "other.notes"
    );
    assert_eq!(
        said(&client, &format!("acquire_processing_lock({ONE})")).await,
        "true"
    );
}
