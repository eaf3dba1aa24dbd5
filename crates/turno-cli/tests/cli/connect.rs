//! Sources of the store's URL and its password.

use std::fs;
use std::io::{BufRead as _, BufReader};

use turno_testkit::Process;

use crate::common::{Done, Fixture, Kind, LONG};

const SHOWN: &str = "visible to all users";

/// Runs `turno lock list`, without the variable for the test's store.
fn list(fixture: &Fixture, options: &[&str], variables: &[(&str, &str)]) -> Done {
    let mut command = fixture.command(&[options, &["lock", "list"]].concat());
    command.env_remove("TURNO_STORE");
    Done::of(command.envs(variables.iter().copied()).output().unwrap())
}

#[test]
fn a_password_on_the_command_line_is_warned_about() {
    let fixture = Fixture::new(Kind::Postgres);
    fixture.turno("migrate").expect(0);
    let with_password = fixture.store.replace("owner@", "owner:s3cret@");
    let done = list(&fixture, &["--store", &with_password], &[]).expect(0);
    assert!(
        done.err.contains(SHOWN) && !done.err.contains("s3cret"),
        "{done:?}"
    );
    let done = list(&fixture, &["--store", &fixture.store], &[]).expect(0);
    assert_eq!(done.err, "", "no password, no warning");
    let done = list(&fixture, &[], &[("TURNO_STORE", &with_password)]).expect(0);
    assert_eq!(done.err, "", "the environment is not shown to others");
}

#[test]
fn the_url_can_be_in_a_file() {
    let fixture = Fixture::new(Kind::Postgres);
    fixture.turno("migrate").expect(0);
    fixture.json(0, "lock acquire loan/1");
    let file = fixture.path("store");
    fs::write(&file, format!("{}\n", fixture.store)).unwrap();
    let variable = [("TURNO_STORE_FILE", file.to_str().unwrap())];
    let done = list(&fixture, &[], &variable).expect(0);
    assert!(done.out.contains("loan/1"), "{done:?}");

    fs::write(fixture.path("turno.toml"), "store_file = \"store\"\n").unwrap();
    let done = list(&fixture, &[], &[]).expect(0);
    assert!(done.out.contains("loan/1"), "{done:?}");
    let both = "store = \"sqlite:a.db\"\nstore_file = \"store\"\n";
    fs::write(fixture.path("turno.toml"), both).unwrap();
    assert!(list(&fixture, &[], &[]).expect(2).err.contains("both"));
    fs::remove_file(fixture.path("turno.toml")).unwrap();

    fs::write(&file, "\n").unwrap();
    assert!(
        list(&fixture, &[], &variable)
            .expect(2)
            .err
            .contains("empty")
    );
    let missing = [("TURNO_STORE_FILE", "missing")];
    let done = list(&fixture, &[], &missing).expect(2);
    assert!(done.err.contains("TURNO_STORE_FILE"), "{done:?}");
}

#[test]
fn everything_can_come_from_the_variables_of_libpq() {
    let fixture = Fixture::new(Kind::Postgres);
    fixture.turno("migrate").expect(0);
    fixture.json(0, "lock acquire loan/1");
    let address = fixture
        .store
        .strip_prefix("postgres://owner@127.0.0.1:")
        .unwrap();
    let (port, database) = address.split_once('/').unwrap();
    let variables = [
        ("PGHOST", "127.0.0.1"),
        ("PGPORT", port),
        ("PGUSER", "owner"),
        ("PGDATABASE", database),
    ];
    let done = list(&fixture, &["--store", "postgres://"], &variables).expect(0);
    assert!(done.out.contains("loan/1"), "{done:?}");
    let string = format!("host=127.0.0.1 port={port} user=owner dbname={database}");
    let done = list(&fixture, &["--store", &string], &[]).expect(0);
    assert!(done.out.contains("loan/1"), "{done:?}");
}

#[test]
fn an_unknown_parameter_is_bad_usage() {
    let fixture = Fixture::new(Kind::Sqlite);
    let store = "postgres://ana:s3cret@db/app?sslmod=require";
    let done = list(&fixture, &[], &[("TURNO_STORE", store)]).expect(2);
    assert!(
        done.err.contains("\"sslmod\"") && !done.err.contains("s3cret"),
        "{done:?}"
    );
}

/// Returns the arguments of a process, as every user of the machine can see them.
fn shown_words(pid: u32) -> String {
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap();
    String::from_utf8_lossy(&words).replace('\0', " ")
}

/// Starts a relay with these options and variables. Returns its arguments and its standard error.
fn relay(fixture: &Fixture, options: &[&str], variables: &[(&str, &str)]) -> (String, String) {
    let mut command = fixture.command(&[&["outbox", "relay"], options].concat());
    let (reader, writer) = std::io::pipe().unwrap();
    command
        .envs(variables.iter().copied())
        .env("TURNO_LOG", "info")
        .stderr(writer);
    let process = Process::spawn(&mut command).unwrap();
    // From now on only the process holds the other end.
    drop(command);
    let mut lines = BufReader::new(reader).lines().map_while(Result::ok);
    let mut said = String::new();
    for line in lines.by_ref() {
        said.push_str(&line);
        said.push('\n');
        if line.contains("relaying") {
            break;
        }
    }
    let words = shown_words(process.id());
    process.term();
    process.wait_timeout(LONG).unwrap();
    said.extend(lines.map(|line| line + "\n"));
    (words, said)
}

#[test]
fn a_secret_of_a_sink_is_shown_to_others_only_as_an_option() {
    let fixture = Fixture::new(Kind::Sqlite);
    fixture.turno("migrate").expect(0);
    let sink = "amqp://turno:s3cret@127.0.0.1:1/";
    let secret = "whsec_czNjcmV0czNjcmV0czNjcmV0czNjcmV0";
    fs::write(fixture.path("sink"), format!("{sink}\n")).unwrap();
    fs::write(fixture.path("secret"), format!("{secret}\n")).unwrap();
    let hook = ["--sink", "http://127.0.0.1:1/", "--allow-private"];
    // The control: if they are options, they are in the process list, and there is one warning.
    for (options, hidden) in [
        (vec!["--sink", sink], "s3cret"),
        ([&hook[..], &["--secret", secret]].concat(), secret),
    ] {
        let (words, said) = relay(&fixture, &options, &[]);
        assert!(words.contains(hidden), "{words}");
        assert_eq!(said.matches(SHOWN).count(), 1, "{said}");
        assert!(!said.contains(hidden), "{said}");
    }
    let file = "[outbox]\nsink_file = 'sink'\n";
    for (options, variables, toml) in [
        (vec![], vec![("TURNO_SINK", sink)], ""),
        (vec![], vec![("TURNO_SINK_FILE", "sink")], ""),
        (vec!["--sink-file", "sink"], vec![], ""),
        (vec![], vec![], file),
        (hook.to_vec(), vec![("TURNO_WEBHOOK_SECRET", secret)], ""),
        (
            hook.to_vec(),
            vec![("TURNO_WEBHOOK_SECRET_FILE", "secret")],
            "",
        ),
        (
            [&hook[..], &["--secret-file", "secret"]].concat(),
            vec![],
            "",
        ),
        (hook.to_vec(), vec![], "[outbox]\nsecret_file = 'secret'\n"),
    ] {
        fs::write(fixture.path("turno.toml"), toml).unwrap();
        let (words, said) = relay(&fixture, &options, &variables);
        for hidden in ["s3cret", secret] {
            assert!(
                !words.contains(hidden) && !said.contains(hidden),
                "{words}\n{said}"
            );
        }
        assert!(!said.contains(SHOWN), "{said}");
        assert!(
            !said.contains("without a signature"),
            "the secret was read: {said}"
        );
    }
    let both = "[outbox]\nsink = 'stdout:'\nsink_file = 'sink'\n";
    fs::write(fixture.path("turno.toml"), both).unwrap();
    let refused = fixture.turno("outbox relay").expect(2);
    assert!(
        refused.err.contains("both sink and sink_file"),
        "{refused:?}"
    );
    fs::write(fixture.path("turno.toml"), "").unwrap();
    let missing = fixture.turno("outbox relay --sink-file missing");
    let missing = missing.expect(2);
    assert!(
        missing.err.contains("sink_file names missing"),
        "{missing:?}"
    );
}
