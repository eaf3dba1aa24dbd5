//! Precedence of `turno.toml`, the environment and the options.

use std::fs;

use crate::common::{Done, Kind, Place, text};

fn place() -> Place {
    Place::new(Kind::Sqlite)
}

/// Runs `turno --json lock acquire` without a store from an option or the environment, with these arguments.
fn acquire(place: &Place, arguments: &[&str], environment: &[(&str, &str)]) -> Done {
    let mut command = place.command(["--json", "lock", "acquire", "it"]);
    command
        .args(arguments)
        .env_remove("TURNO_STORE")
        .envs(environment.iter().copied());
    Done::of(command.output().unwrap())
}

/// Options, environment, and who then holds the lock for how many seconds.
type Row<'a> = (&'a [&'a str], &'a [(&'a str, &'a str)], [&'a str; 2], i64);

fn made(place: &Place) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(place.folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".db"))
        .collect();
    names.sort();
    names
}

#[test]
fn the_store_is_of_the_option_then_the_environment_then_the_file_then_the_default() {
    let place = place();
    acquire(&place, &[], &[]).expect(0);
    assert_eq!(made(&place), ["turno.db"]);
    fs::write(place.path("turno.toml"), "store = 'sqlite:file.db'").unwrap();
    acquire(&place, &[], &[]).expect(0);
    assert_eq!(made(&place), ["file.db", "turno.db"]);
    let environment = [("TURNO_STORE", "sqlite:environment.db")];
    acquire(&place, &[], &environment).expect(0);
    assert_eq!(made(&place), ["environment.db", "file.db", "turno.db"]);
    acquire(&place, &["--store", "sqlite:option.db"], &environment).expect(0);
    assert_eq!(
        made(&place),
        ["environment.db", "file.db", "option.db", "turno.db"]
    );
}

#[test]
fn the_same_holds_for_every_setting() {
    let place = place();
    let file = "
        store = 'sqlite:store.db'
        [lock]
        timeout = '10m'
        max_ttl = '1h'
        [application]
        user = 'file'
        service = 'CERT_AFORE'
    ";
    fs::write(place.path("turno.toml"), file).unwrap();
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
        let lease = acquire(&place, options, environment).expect(0).json();
        let holder = place.json(0, &["lock", "status", "it"])["holder"].clone();
        assert_eq!([text(&holder, "user"), text(&holder, "service")], who);
        let left = holder["remaining_ms"].as_i64().unwrap();
        assert!(
            (seconds * 1000 - 60_000..=seconds * 1000).contains(&left),
            "{left} ms of {seconds} s"
        );
        place.json(0, &["lock", "release", "it", "--lease", text(&lease, "id")]);
    }
    // The file's limit applies, unless an option or a variable overrides it.
    assert_eq!(
        text(
            &acquire(&place, &["--ttl", "2h"], &[]).expect(2).error(),
            "field"
        ),
        "ttl"
    );
    acquire(
        &place,
        &["--ttl", "2h", "--max-ttl", "3h", "--owner", "me"],
        &[],
    )
    .expect(0);
    acquire(
        &place,
        &["--ttl", "2h", "--owner", "me"],
        &[("TURNO_MAX_TTL", "3h")],
    )
    .expect(0);
}

#[test]
fn retries_are_as_configured() {
    let place = place();
    fs::write(
        place.path("turno.toml"),
        "[lock]\ntimeout = '1s'\nretry.max = 2\nretry.delay = '1100ms'\n",
    )
    .unwrap();
    place.json(0, &["lock", "acquire", "it"]);
    place.json(0, &["lock", "acquire", "it", "--ttl", "60s"]);
    place.json(75, &["lock", "acquire", "it", "--retry-delay", "1ms"]);
}

#[test]
fn another_file_can_be_named() {
    let place = place();
    fs::write(place.path("turno.toml"), "nonsense").unwrap();
    fs::write(place.path("other.toml"), "[application]\nuser = 'other'").unwrap();
    place.json(0, &["--config", "other.toml", "lock", "acquire", "it"]);
    let mut command = place.command(["--json", "lock", "status", "it"]);
    let status = Done::of(command.env("TURNO_CONFIG", "other.toml").output().unwrap())
        .expect(0)
        .json();
    assert_eq!(text(&status["holder"], "user"), "other");
}

#[test]
fn a_file_that_is_wrong_is_refused_with_the_key_and_the_line() {
    let place = place();
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
        fs::write(place.path("turno.toml"), file).unwrap();
        let refused = place.turno(&["--json", "lock", "acquire", "it"]).expect(2);
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
        let told = place.turno(&["lock", "acquire", "it"]).expect(2);
        assert!(told.err.starts_with("error: turno.toml, line "), "{told:?}");
    }
    fs::remove_file(place.path("turno.toml")).unwrap();
    for missing in [&["--config", "missing.toml"][..], &["--config", "."]] {
        let refused = place
            .turno(&[&["--json"], missing, &["lock", "list"]].concat())
            .expect(2);
        assert_eq!(text(&refused.error(), "field"), "config", "{refused:?}");
    }
    assert!(
        made(&place).is_empty(),
        "nothing is stored: {:?}",
        made(&place)
    );
}

#[test]
fn a_password_in_a_wrong_file_is_not_shown() {
    let place = place();
    for file in [
        "store = 'postgres://ana:s3cret@db/app",
        "store = 'postgres://ana:s3cret@db/app' x",
    ] {
        fs::write(place.path("turno.toml"), file).unwrap();
        let refused = place.turno(&["lock", "list"]).expect(2);
        assert!(!refused.err.contains("s3cret"), "{refused:?}");
    }
}
