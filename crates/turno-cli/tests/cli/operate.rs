//! `turno migrate`, `sweep`, `doctor` and `demo`.

use std::fs;

use serde_json::json;
use turno_testkit::{PgBouncer, PoolMode, PostgresServer};

use crate::common::{Done, Fixture, Kind, LONG, text};

on_each_store!(
    the_schema_is_migrated_once,
    the_printed_schema_is_the_schema,
    a_sweep_closes_what_has_expired,
    a_sweep_goes_on_until_it_is_stopped,
    a_doctor_examines_the_store,
    reading_creates_no_store,
);

/// A command that only reads reports that there is no store, and does not create one: an empty store would show no
/// locks, whatever is locked in the store that was meant.
fn reading_creates_no_store(fixture: Fixture) {
    let fixture = fixture.without_schema();
    for words in [
        &["lock", "list"][..],
        &["lock", "status", "r"],
        &["lock", "history"],
        &["history"],
        &["inbox", "stats"],
        &["inbox", "list", "q"],
        &["outbox", "stats"],
        &["outbox", "list"],
        &["once", "--list"],
        &["once", "k", "--status"],
        &["token", "list"],
    ] {
        let error = fixture
            .turno(&[&["--json"], words].concat())
            .expect(1)
            .error();
        assert_eq!(text(&error, "code"), "schema", "{words:?}: {error}");
        assert!(
            text(&error, "detail").contains("turno migrate"),
            "{words:?}: {error}"
        );
    }
    fixture.turno("doctor").expect(1);
    assert!(!fixture.path("store.db").exists());
    // The control: a command that changes something creates the store.
    fixture.turno("lock acquire r").expect(0);
    fixture.turno("lock list").expect(0);
}

fn the_schema_is_migrated_once(fixture: Fixture) {
    let fixture = fixture.without_schema();
    let report = |from: serde_json::Value| {
        json!({
            "from": from, "to": turno::store::SCHEMA_VERSION, "repaired": false, "missing_functions": [],
            "changed_functions": [], "missing_roles": [], "missing_grants": [], "excess_grants": [],
            "administrator_sql": []
        })
    };
    assert_eq!(fixture.json(0, "migrate"), report(json!(null)));
    let again = report(json!(turno::store::SCHEMA_VERSION));
    assert_eq!(fixture.json(0, "migrate"), again);
    assert_eq!(fixture.json(0, "migrate --repair"), again);
    let output = fixture.turno("migrate").expect(0);
    assert!(
        output.out.contains("→") && output.err.is_empty(),
        "{output:?}"
    );
}

/// Without the right to create roles, migrate prints what an administrator has to run, and `--repair` grants afterwards.
#[test]
fn roles_that_cannot_be_created_are_named_and_granted_later() {
    let server = PostgresServer::start().unwrap();
    let mut fixture = Fixture::new(Kind::Sqlite);
    fixture.store = server.create_database();
    let admin = server.superuser_url(fixture.store.rsplit('/').next().unwrap());
    crate::common::ask_postgres(&admin, "drop role app, operator, turno_app, turno_operator");
    let quiet = fixture.turno("migrate --no-roles").expect(0);
    assert!(quiet.err.is_empty(), "{quiet:?}");
    let output = fixture.turno("migrate").expect(0);
    for part in [
        "create role turno_app nologin;",
        "create role turno_operator nologin;",
        "turno migrate --repair",
        "--no-roles",
    ] {
        assert!(output.err.contains(part), "{output:?}");
    }
    let report = fixture.json(0, "migrate");
    let sql = report["administrator_sql"].as_array().unwrap();
    assert_eq!(sql.len(), 2, "{report}");
    for statement in sql {
        crate::common::ask_postgres(&admin, statement.as_str().unwrap());
    }
    crate::common::ask_postgres(&admin, "create role app login in role turno_app");
    let output = fixture.turno("migrate").expect(0);
    assert!(
        output.err.contains("missing grants") && output.err.contains("--repair"),
        "{output:?}"
    );
    let app = fixture.store.replace("owner@", "app@");
    let acquire = ["--store", &app, "lock", "acquire", "it"];
    fixture.turno(&acquire).expect(1);
    assert_eq!(fixture.json(0, "migrate --repair")["repaired"], json!(true));
    fixture.turno(&acquire).expect(0);
    assert_eq!(
        fixture.json(0, "migrate --repair")["repaired"],
        json!(false)
    );
    // An application may not do what is reserved for operators, and the error names the required role.
    let refused = fixture
        .turno(&["--json", "--store", &app, "sweep"])
        .expect(1)
        .error();
    assert!(
        text(&refused, "detail").contains("grant turno_operator to"),
        "{refused}"
    );
    let script = fixture.turno("migrate --print --no-roles").expect(0).out;
    assert!(!script.contains("-- Rights ") && script.ends_with("commit;\n"));
}

/// Settings of the database are changed, shown, kept and reset. For an unknown one, the error lists the known names.
#[test]
fn settings_of_the_database_are_changed_by_its_owner() {
    let fixture = Fixture::new(Kind::Postgres);
    let set = ["migrate", "--setting", "max_ttl=60 days", "--user", "eva"];
    let output = fixture.turno(&set).expect(0);
    assert!(
        output.out.contains("setting max_ttl: 30 days → 60 days"),
        "{output:?}"
    );
    let report = fixture.json(0, &set);
    assert!(report.get("changed_settings").is_none(), "{report}");
    let report = fixture.json(0, "migrate --setting notify=off --setting max_ttl=");
    let changed = json!([
        {"name": "notify", "before": "on", "value": "off"},
        {"name": "max_ttl", "before": "60 days", "value": "30 days"}
    ]);
    assert_eq!(report["changed_settings"], changed);
    let output = fixture.turno("doctor");
    assert!(
        output.out.contains("notify is off (default on)"),
        "{output:?}"
    );
    let output = fixture.turno("history --part setting").expect(0);
    for part in ["changed", "max_ttl", "eva", "from 30 days to 60 days"] {
        assert!(output.out.contains(part), "{output:?}");
    }
    for bad in ["notfy=off", "notify=perhaps", "notify"] {
        let error = fixture.turno(&["migrate", "--setting", bad]).expect(2);
        assert!(error.err.contains("setting"), "{error:?}");
    }
    let error = fixture.turno("migrate --setting notfy=off").expect(2);
    assert!(
        error
            .err
            .contains("app_role, max_payload, max_ttl, notify, operator_role"),
        "{error:?}"
    );
    let script = fixture.turno("migrate --print --setting 'max_ttl=60 days'");
    let statement = "select turno.setting_set('max_ttl', '60 days');";
    assert!(script.expect(0).out.contains(statement));
    let sqlite = Fixture::new(Kind::Sqlite);
    let error = sqlite.turno("migrate --setting notify=off").expect(2);
    assert!(error.err.contains("PostgreSQL"), "{error:?}");
}

/// Run by hand, the script creates a store that needs no migration.
fn the_printed_schema_is_the_schema(fixture: Fixture) {
    let fixture = fixture.without_schema();
    // Printing does not connect, so the store need not exist.
    let scheme = if fixture.kind == Kind::Sqlite {
        "sqlite:missing/x.db"
    } else {
        "postgres://user@nowhere.invalid/x"
    };
    let script = fixture
        .turno(&["--store", scheme, "migrate", "--print"])
        .expect(0)
        .out;
    assert!(
        script.starts_with("begin") && script.ends_with("commit;\n"),
        "{script}"
    );
    match fixture.kind {
        Kind::Sqlite => rusqlite::Connection::open(fixture.path("store.db"))
            .unwrap()
            .execute_batch(&script)
            .unwrap(),
        Kind::Postgres => drop(crate::common::ask_postgres(&fixture.store, &script)),
    }
    assert_eq!(
        fixture.json(0, "migrate")["from"],
        json!(turno::store::SCHEMA_VERSION)
    );
    fixture.json(0, "lock acquire it");
}

/// It does not depend on the configured store.
#[test]
fn a_migration_file_for_supabase_is_printed() {
    let fixture = Fixture::new(Kind::Sqlite);
    let file = fixture
        .turno("migrate --print --for supabase")
        .expect(0)
        .out;
    assert!(
        file.starts_with("-- Turno's schema") && file.ends_with("notify pgrst, 'reload schema';\n"),
        "{file}"
    );
    fixture.turno("migrate --print --for another").expect(2);
    fixture.turno("migrate --for supabase").expect(2);
}

fn a_sweep_closes_what_has_expired(fixture: Fixture) {
    fixture.json(0, "lock acquire gone --ttl 1ms");
    fixture.json(0, "lock acquire held");
    assert_eq!(fixture.json(0, "sweep")["expired"], json!(1));
    assert_eq!(
        fixture.json(0, "sweep"),
        json!({"expired": 0, "purged": 0, "waiters": 0, "history": 0, "completed": 0, "archived": 0, "seen": 0, "once": 0, "failed": 0})
    );
    assert_eq!(
        text(&fixture.json(0, "lock history gone")["history"][0], "event"),
        "expired"
    );
    // With zero retention, resources that were just used are deleted, and held ones are not.
    let swept = fixture.json(0, "sweep --purge-after 0s --keep-history 0s");
    assert_eq!(
        (&swept["purged"], &swept["history"]),
        (&json!(1), &json!(1))
    );
    assert!(fixture.is_locked("held"));
    assert!(
        fixture
            .turno("sweep")
            .expect(0)
            .out
            .contains("expired leases closed: 0")
    );
    let refused = fixture.turno("--json sweep --purge-after -1s").expect(2);
    assert_eq!(text(&refused.error(), "field"), "purge_after");
}

fn a_sweep_goes_on_until_it_is_stopped(fixture: Fixture) {
    let expire = |name: &str| drop(fixture.json(0, &["lock", "acquire", name, "--ttl", "1ms"]));
    let closes_one = |sweeping: &turno_testkit::Process| {
        turno_testkit::eventually(LONG, "an expired lease to be closed", || {
            let line = sweeping.lines().next(LONG)?;
            let swept: serde_json::Value = serde_json::from_str(&line).unwrap();
            (swept["expired"] == json!(1)).then_some(())
        });
    };
    expire("first");
    let sweeping = fixture.start("--json sweep --every 10ms");
    closes_one(&sweeping);
    expire("second");
    closes_one(&sweeping);
    sweeping.term();
    assert_eq!(sweeping.wait_timeout(LONG).unwrap().code(), Some(0));
    // The same from the file; and a single sweep with the option, or if the file disables the interval.
    fs::write(fixture.path("turno.toml"), "[cleanup]\ninterval = '10ms'\n").unwrap();
    let sweeping = fixture.start("--json sweep");
    expire("third");
    closes_one(&sweeping);
    sweeping.term();
    assert_eq!(sweeping.wait_timeout(LONG).unwrap().code(), Some(0));
    fixture.json(0, "sweep --once");
    fs::write(fixture.path("turno.toml"), "[cleanup]\nenabled = false\n").unwrap();
    fixture.json(0, "sweep");
}

fn a_doctor_examines_the_store(fixture: Fixture) {
    let fixture = fixture.without_schema();
    let sick = fixture.turno("doctor").expect(1);
    assert!(
        sick.out.contains("problem") && sick.out.contains("turno migrate"),
        "{sick:?}"
    );
    fixture.turno("migrate").expect(0);
    // The tests' PostgreSQL server does not flush to the disk, which is a problem; SQLite does.
    let code = i32::from(fixture.kind == Kind::Postgres);
    let report = fixture.json(code, "doctor");
    assert_eq!(text(&report, "store"), fixture.store);
    let checks: Vec<&str> = report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|finding| text(finding, "check"))
        .collect();
    for check in ["store", "schema", "clock", "durability", "pooler", "sweep"] {
        assert!(checks.contains(&check), "{check} is missing: {checks:?}");
    }
    let healthy = fixture.turno("doctor").expect(code);
    assert!(
        healthy.out.contains("CHECK") && healthy.out.contains("schema"),
        "{healthy:?}"
    );
}

#[test]
fn the_demonstration_needs_no_store_and_leaves_none() {
    let fixture = Fixture::new(Kind::Sqlite);
    let done = Done::of(
        fixture
            .command("demo")
            .env_remove("TURNO_STORE")
            .output()
            .unwrap(),
    )
    .expect(0);
    assert!(
        done.out.contains("LOST UPDATES") && done.out.contains("with turno"),
        "{done:?}"
    );
    assert_eq!(fs::read_dir(&fixture.folder).unwrap().count(), 0);
}

#[test]
fn everything_works_behind_a_pooler_and_the_doctor_names_it() {
    let pooler = PgBouncer::start(PostgresServer::shared(), PoolMode::Transaction).unwrap();
    let mut fixture = Fixture::new(Kind::Postgres);
    fixture.store = pooler.url(fixture.store.rsplit('/').next().unwrap());
    let lease = fixture.json(0, "lock acquire it --ttl 60s");
    let waiting = fixture.start("--json lock acquire it --wait 60s");
    turno_testkit::eventually(LONG, "the waiter to sign in", || {
        (fixture.json(0, "lock status it")["waiters"] == json!(1)).then_some(())
    });
    fixture.json(0, &["lock", "release", "it", "--lease", text(&lease, "id")]);
    assert!(waiting.wait_timeout(LONG).unwrap().success());
    // 1: the tests' server does not flush to the disk.
    let report = fixture.json(1, "doctor");
    let pooler = report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .find(|finding| text(finding, "check") == "pooler");
    assert_eq!(text(pooler.unwrap(), "severity"), "warning");
}
