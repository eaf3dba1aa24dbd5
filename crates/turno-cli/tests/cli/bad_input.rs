//! Invalid arguments, and stores that cannot be used: the exit code, the field, the remedy, and
//! that nothing was stored.

use std::process::Command;

use turno_testkit::PostgresServer;

use crate::common::{Done, Fixture, Kind, TURNO, text};

on_each_store!(
    bad_arguments_are_refused,
    a_newer_schema_is_refused,
    read_only_is_refused
);

fn bad_arguments_are_refused(fixture: Fixture) {
    fixture.turno("migrate").expect(0);
    let long = "x".repeat(256);
    let long_text = "x".repeat(1001);
    let rows: [(&str, &[&str]); 23] = [
        ("resource", &["acquire", ""]),
        ("resource", &["acquire", &long]),
        ("resource", &["acquire", "a\nb"]),
        ("resource", &["acquire", "a\u{7f}b"]),
        ("ttl", &["acquire", "it", "--ttl", "0s"]),
        ("ttl", &["acquire", "it", "--ttl", "-5s"]),
        ("ttl", &["acquire", "it", "--ttl=-5s"]),
        ("ttl", &["acquire", "it", "--ttl", "24h1s"]),
        ("ttl", &["acquire", "it", "--ttl", "soon"]),
        ("owner", &["acquire", "it", "--owner", ""]),
        ("user", &["acquire", "it", "--user", &long]),
        ("service", &["acquire", "it", "--service", "a\tb"]),
        (
            "description",
            &["acquire", "it", "--description", &long_text],
        ),
        ("wait", &["acquire", "it", "--wait", "25h"]),
        ("permits", &["acquire", "it", "--permits", "0"]),
        ("min_hold", &["acquire", "it", "--min-hold", "1h"]),
        ("max_hold", &["acquire", "it", "--max-hold", "0s"]),
        ("retry_max", &["acquire", "it", "--retry-max", "0"]),
        ("ttl", &["renew", "it", "--lease", "7", "--ttl", "0s"]),
        ("resource", &["release", "", "--lease", "7"]),
        ("resource", &["status", "a\nb"]),
        ("token", &["break", "it", "--token", "x", "--reason", "r"]),
        ("reason", &["break", "it", "--token", "7", "--reason", ""]),
    ];
    for (field, arguments) in rows {
        let refused = fixture
            .turno(&[&["--json", "lock"], arguments].concat())
            .expect(2);
        let error = refused.error();
        assert_eq!(
            (text(&error, "code"), text(&error, "field")),
            ("invalid", field),
            "{arguments:?}: {error}"
        );
        assert!(
            refused.out.is_empty() && !text(&error, "detail").is_empty(),
            "{refused:?}"
        );
        let output = fixture.turno(&[&["lock"], arguments].concat()).expect(2);
        assert!(output.err.starts_with("error: "), "{output:?}");
    }
    // The same rules apply to `turno run`; and its command has not run.
    for (field, options) in [
        ("resource", ["--lock", "", "--ttl", "1s"]),
        ("ttl", ["--lock", "it", "--ttl", "0s"]),
    ] {
        let words = [&["--json", "run"], &options[..], &["--", "touch", "ran"]].concat();
        assert_eq!(
            text(&fixture.turno(&words).expect(2).error(), "field"),
            field
        );
    }
    assert!(!fixture.path("ran").exists());
    nothing_is_stored(&fixture);
}

fn nothing_is_stored(fixture: &Fixture) {
    for table in ["{lock}", "{lock_hold}", "{lock_history}", "{lock_waiter}"] {
        assert_eq!(
            fixture.ask(&format!("select count(*) from {table}")),
            "0",
            "{table}"
        );
    }
}

fn a_newer_schema_is_refused(fixture: Fixture) {
    fixture.turno("migrate").expect(0);
    fixture.tell(match fixture.kind {
        Kind::Sqlite => {
            "insert into {migration} (version, name, applied_at) values (99, 'future', 0)"
        }
        Kind::Postgres => "insert into {migration} (version, name) values (99, 'future')",
    });
    for words in [
        &["lock", "acquire", "it"][..],
        &["migrate"],
        &["run", "--lock", "it", "--", "touch", "ran"],
    ] {
        let error = fixture
            .turno(&[&["--json"], words].concat())
            .expect(1)
            .error();
        assert_eq!(text(&error, "code"), "schema", "{words:?}");
        assert!(
            text(&error, "detail").contains("99") && text(&error, "detail").contains("upgrade"),
            "{error}"
        );
    }
    assert!(!fixture.path("ran").exists());
    nothing_is_stored(&fixture);
    let findings = fixture.json(1, "doctor");
    assert!(
        findings.to_string().contains("upgrade this program"),
        "{findings}"
    );
}

fn read_only_is_refused(fixture: Fixture) {
    fixture.turno("migrate").expect(0);
    let refused = match fixture.kind {
        Kind::Postgres => {
            let name = fixture.store.rsplit('/').next().unwrap();
            fixture.tell(&format!(
                "alter database {name} set default_transaction_read_only = on"
            ));
            fixture.turno("--json lock acquire it")
        }
        Kind::Sqlite => as_a_read_only_user(&fixture),
    };
    let error = refused.expect(1).error();
    assert_eq!(text(&error, "code"), "refused", "{error}");
    assert!(
        text(&error, "detail").contains("read-only") || text(&error, "detail").contains("written"),
        "{error}"
    );
    if fixture.kind == Kind::Postgres {
        assert!(fixture.json(1, "doctor").to_string().contains("read-only"));
    }
    nothing_is_stored(&fixture);
}

/// File modes do not apply to root, so the program runs as an unprivileged user, in a folder and on a file of other owners.
fn as_a_read_only_user(fixture: &Fixture) -> Done {
    let program = fixture.path("turno");
    std::fs::copy(TURNO, &program).unwrap();
    let modes = Command::new("chmod")
        .args(["a-w,a+rX", "."])
        .arg("store.db")
        .current_dir(&fixture.folder)
        .status();
    assert!(modes.unwrap().success());
    let root = rustix::process::geteuid().is_root();
    let mut command = if root {
        fixture.program("setpriv")
    } else {
        fixture.program(&program)
    };
    if root {
        command
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(&program);
    }
    let done = Done::of(
        command
            .args(["--json", "lock", "acquire", "it"])
            .output()
            .unwrap(),
    );
    let modes = Command::new("chmod")
        .args(["u+w", "."])
        .arg("store.db")
        .current_dir(&fixture.folder)
        .status();
    assert!(modes.unwrap().success());
    done
}

#[test]
fn a_store_that_is_not_known_is_refused() {
    let fixture = Fixture::new(Kind::Sqlite);
    for store in [
        "redis://ana:s3cret@db/0",
        "turno.db",
        "",
        "mysql:",
        "http://x",
    ] {
        for words in [
            &["lock", "acquire", "it"][..],
            &["doctor"],
            &["migrate"],
            &["migrate", "--print"],
        ] {
            let refused = fixture
                .turno(&[&["--json", "--store", store], words].concat())
                .expect(2);
            assert_eq!(
                text(&refused.error(), "field"),
                "store",
                "{store} {words:?}"
            );
            assert!(!refused.err.contains("s3cret"), "{refused:?}");
        }
    }
    for malformed in [
        "postgres://ana:s3cret@db:port/app",
        "postgres://ana:s3cret@db/app?nonsense=1",
        "sqlite:",
    ] {
        let refused = fixture
            .turno(&["--json", "--store", malformed, "lock", "list"])
            .expect(2);
        assert_eq!(
            text(&refused.error(), "field"),
            "store",
            "{malformed}: {refused:?}"
        );
        assert!(!refused.err.contains("s3cret"), "{refused:?}");
    }
    assert_eq!(
        std::fs::read_dir(&fixture.folder).unwrap().count(),
        0,
        "nothing is stored"
    );
}

#[test]
fn a_store_that_cannot_be_reached_says_so_and_keeps_its_password() {
    let fixture = Fixture::new(Kind::Sqlite);
    let rows = [
        // No process listens on this port: only root may bind it.
        ("postgres://ana:s3cret@127.0.0.1:1/app", "unavailable"),
        ("sqlite:missing/folder/turno.db", "refused"),
        ("sqlite:.", "refused"),
    ];
    for (store, code) in rows {
        let failed = fixture
            .turno(&["--json", "-vv", "--store", store, "lock", "acquire", "it"])
            .expect(1);
        let last = failed.err.lines().last().unwrap();
        let error: serde_json::Value = serde_json::from_str(last).unwrap();
        assert_eq!(text(&error, "code"), code, "{store}: {failed:?}");
        assert!(!failed.err.contains("s3cret"), "{failed:?}");
        // `turno doctor` reports it as a finding.
        let findings = fixture
            .turno(&["--json", "--store", store, "doctor"])
            .expect(1);
        assert_eq!(text(&findings.json()["findings"][0], "severity"), "problem");
        assert!(!findings.out.contains("s3cret"), "{findings:?}");
        assert!(
            fixture
                .turno(&["--store", store, "doctor"])
                .expect(1)
                .out
                .contains("problem")
        );
    }
    assert_eq!(
        std::fs::read_dir(&fixture.folder).unwrap().count(),
        0,
        "nothing is stored"
    );
}

#[test]
fn a_missing_database_is_reported() {
    let fixture = Fixture::new(Kind::Sqlite);
    let store = PostgresServer::shared().url("nowhere");
    let error = fixture
        .turno(&["--json", "--store", &store, "lock", "acquire", "it"])
        .expect(1)
        .error();
    assert_eq!(text(&error, "code"), "refused");
    assert!(
        text(&error, "detail").contains("create the database"),
        "{error}"
    );
}

#[test]
fn a_role_that_may_only_call_needs_no_more_once_the_schema_is_there() {
    let fixture = Fixture::new(Kind::Postgres);
    fixture.turno("migrate").expect(0);
    let store = fixture.store.replace("owner@", "app@");
    let done = fixture
        .turno(&["--json", "--store", &store, "lock", "acquire", "it"])
        .expect(0);
    assert_eq!(text(&done.json(), "resource"), "it");
    fixture.json(
        0,
        &format!(
            "--store {store} lock release it --lease {}",
            text(&done.json(), "id")
        ),
    );
}

#[test]
fn what_clap_refuses_is_json_too() {
    let fixture = Fixture::new(Kind::Sqlite);
    for words in [
        &["--json", "lock"][..],
        &["--json", "nonsense"],
        &["lock", "acquire", "--json"],
        &["run", "--json", "--lock", "x"],
    ] {
        let refused = fixture.turno(words).expect(2);
        assert_eq!(text(&refused.error(), "code"), "invalid", "{refused:?}");
    }
    // After -- it belongs to the command.
    let refused = fixture.turno("run -- x --json").expect(2);
    assert!(refused.err.starts_with("error: "), "{refused:?}");
}
