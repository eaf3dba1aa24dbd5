//! Precedence of `turno.toml`, the environment and the options.

use std::fs;

use crate::common::{Done, Fixture, Kind, text};

fn fixture() -> Fixture {
    Fixture::new(Kind::Sqlite)
}

/// Runs `turno --json lock acquire` without a store from an option or the environment, with these arguments.
fn acquire(fixture: &Fixture, arguments: &[&str], environment: &[(&str, &str)]) -> Done {
    let mut command = fixture.command("--json lock acquire it");
    command
        .args(arguments)
        .env_remove("TURNO_STORE")
        .envs(environment.iter().copied());
    Done::of(command.output().unwrap())
}

/// Options, environment, and who then holds the lock for how many seconds.
type Row<'a> = (&'a [&'a str], &'a [(&'a str, &'a str)], [&'a str; 2], i64);

fn made(fixture: &Fixture) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(fixture.folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".db"))
        .collect();
    names.sort();
    names
}

#[test]
fn the_store_is_of_the_option_then_the_environment_then_the_file_then_the_default() {
    let fixture = fixture();
    acquire(&fixture, &[], &[]).expect(0);
    assert_eq!(made(&fixture), ["turno.db"]);
    fs::write(fixture.path("turno.toml"), "store = 'sqlite:file.db'").unwrap();
    acquire(&fixture, &[], &[]).expect(0);
    assert_eq!(made(&fixture), ["file.db", "turno.db"]);
    let environment = [("TURNO_STORE", "sqlite:environment.db")];
    acquire(&fixture, &[], &environment).expect(0);
    assert_eq!(made(&fixture), ["environment.db", "file.db", "turno.db"]);
    acquire(&fixture, &["--store", "sqlite:option.db"], &environment).expect(0);
    assert_eq!(
        made(&fixture),
        ["environment.db", "file.db", "option.db", "turno.db"]
    );
}

#[test]
fn the_same_holds_for_every_setting() {
    let fixture = fixture();
    let file = "
        store = 'sqlite:store.db'
        [lock]
        timeout = '10m'
        max_ttl = '1h'
        [application]
        user = 'file'
        service = 'CERT_AFORE'
    ";
    fs::write(fixture.path("turno.toml"), file).unwrap();
    let environment = [
        ("TURNO_USER", "environment"),
        ("TURNO_SERVICE", "env"),
        ("TURNO_TTL", "20m"),
    ];
    let (some, all) = (&environment[..1], &environment[..]);
    let rows: [Row; 4] = [
        (&[], &[], ["file", "CERT_AFORE"], 600),
        (&[], some, ["environment", "CERT_AFORE"], 600),
        (&[], all, ["environment", "env"], 1200),
        (
            &["--user", "option", "--service", "opt", "--ttl", "1800000ms"],
            all,
            ["option", "opt"],
            1800,
        ),
    ];
    for (options, environment, who, seconds) in rows {
        let lease = acquire(&fixture, options, environment).expect(0).json();
        let holder = fixture.json(0, "lock status it")["holder"].clone();
        assert_eq!([text(&holder, "user"), text(&holder, "service")], who);
        let left = holder["remaining_ms"].as_i64().unwrap();
        assert!(
            (seconds * 1000 - 60_000..=seconds * 1000).contains(&left),
            "{left} ms of {seconds} s"
        );
        fixture.json(0, &["lock", "release", "it", "--lease", text(&lease, "id")]);
    }
    // The file's limit applies, unless an option or a variable overrides it.
    assert_eq!(
        text(
            &acquire(&fixture, &["--ttl", "2h"], &[]).expect(2).error(),
            "field"
        ),
        "ttl"
    );
    acquire(
        &fixture,
        &["--ttl", "2h", "--max-ttl", "3h", "--owner", "me"],
        &[],
    )
    .expect(0);
    acquire(
        &fixture,
        &["--ttl", "2h", "--owner", "me"],
        &[("TURNO_MAX_TTL", "3h")],
    )
    .expect(0);
}

#[test]
fn retries_are_as_configured() {
    let fixture = fixture();
    fs::write(
        fixture.path("turno.toml"),
        "[lock]\ntimeout = '1s'\nretry.max = 2\nretry.delay = '1100ms'\n",
    )
    .unwrap();
    fixture.json(0, "lock acquire it");
    fixture.json(0, "lock acquire it --ttl 60s");
    fixture.json(75, "lock acquire it --retry-delay 1ms");
}

#[test]
fn another_file_can_be_named() {
    let fixture = fixture();
    fs::write(fixture.path("turno.toml"), "nonsense").unwrap();
    fs::write(fixture.path("other.toml"), "[application]\nuser = 'other'").unwrap();
    fixture.json(0, "--config other.toml lock acquire it");
    let mut command = fixture.command("--json lock status it");
    let status = Done::of(command.env("TURNO_CONFIG", "other.toml").output().unwrap())
        .expect(0)
        .json();
    assert_eq!(text(&status["holder"], "user"), "other");
}

#[test]
fn a_file_that_is_wrong_is_refused_with_the_key_and_the_line() {
    let fixture = fixture();
    for (file, field, line) in [
        ("[lock]\n\ntimeuot = '30s'", "lock.timeuot", "line 3"),
        ("[lock]\ntimeout = '0s'", "lock.timeout", "line 2"),
        ("[lock]\ntimeout = 'soon'", "lock.timeout", "line 2"),
        ("[lock]\ntimeout = '25h'", "lock.timeout", "line 2"),
        ("store = 7", "store", "line 1"),
        ("[inbox]\nlease = '25h'", "inbox.lease", "line 2"),
        ("[inbox]\nmax_payload = 0", "inbox.max_payload", "line 2"),
        (
            "[cleanup]\nenabled = true\ninterval = false",
            "cleanup.interval",
            "line 3",
        ),
        ("nonsense", "config", "line 1"),
    ] {
        fs::write(fixture.path("turno.toml"), file).unwrap();
        let refused = fixture.turno("--json lock acquire it").expect(2);
        let error = refused.error();
        assert_eq!(
            (text(&error, "code"), text(&error, "field")),
            ("invalid", field),
            "{refused:?}"
        );
        assert!(
            text(&error, "detail").contains("turno.toml") && text(&error, "detail").contains(line),
            "{refused:?}"
        );
        let output = fixture.turno("lock acquire it").expect(2);
        assert!(
            output.err.starts_with("error: turno.toml, line "),
            "{output:?}"
        );
    }
    fs::remove_file(fixture.path("turno.toml")).unwrap();
    for missing in [&["--config", "missing.toml"][..], &["--config", "."]] {
        let refused = fixture
            .turno(&[&["--json"], missing, &["lock", "list"]].concat())
            .expect(2);
        assert_eq!(text(&refused.error(), "field"), "config", "{refused:?}");
    }
    assert!(
        made(&fixture).is_empty(),
        "nothing is stored: {:?}",
        made(&fixture)
    );
}

#[test]
fn a_password_in_a_wrong_file_is_not_shown() {
    let fixture = fixture();
    for file in [
        "store = 'postgres://ana:s3cret@db/app",
        "store = 'postgres://ana:s3cret@db/app' x",
    ] {
        fs::write(fixture.path("turno.toml"), file).unwrap();
        let refused = fixture.turno("lock list").expect(2);
        assert!(!refused.err.contains("s3cret"), "{refused:?}");
    }
}
