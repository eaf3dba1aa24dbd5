//! Where the store's URL and its password come from.

use std::fs;

use crate::common::{Done, Kind, Place};

const SHOWN: &str = "visible to every user";

/// `turno lock list`, without the variable that names the place's store.
fn list(place: &Place, options: &[&str], variables: &[(&str, &str)]) -> Done {
    let mut command = place.command([options, &["lock", "list"]].concat());
    command.env_remove("TURNO_STORE");
    Done::of(command.envs(variables.iter().copied()).output().unwrap())
}

#[test]
fn a_password_on_the_command_line_is_warned_about() {
    let place = Place::new(Kind::Postgres);
    place.turno(&["migrate"]).expect(0);
    let with_password = place.store.replace("owner@", "owner:s3cret@");
    let done = list(&place, &["--store", &with_password], &[]).expect(0);
    assert!(
        done.err.contains(SHOWN) && !done.err.contains("s3cret"),
        "{done:?}"
    );
    let done = list(&place, &["--store", &place.store], &[]).expect(0);
    assert_eq!(done.err, "", "no password, no warning");
    let done = list(&place, &[], &[("TURNO_STORE", &with_password)]).expect(0);
    assert_eq!(done.err, "", "the environment is not shown to others");
}

#[test]
fn the_url_can_be_in_a_file() {
    let place = Place::new(Kind::Postgres);
    place.turno(&["migrate"]).expect(0);
    place.json(0, &["lock", "acquire", "loan/1"]);
    let file = place.path("store");
    fs::write(&file, format!("{}\n", place.store)).unwrap();
    let variable = [("TURNO_STORE_FILE", file.to_str().unwrap())];
    let done = list(&place, &[], &variable).expect(0);
    assert!(done.out.contains("loan/1"), "{done:?}");

    fs::write(place.path("turno.toml"), "store_file = \"store\"\n").unwrap();
    let done = list(&place, &[], &[]).expect(0);
    assert!(done.out.contains("loan/1"), "{done:?}");
    let both = "store = \"sqlite:a.db\"\nstore_file = \"store\"\n";
    fs::write(place.path("turno.toml"), both).unwrap();
    assert!(list(&place, &[], &[]).expect(2).err.contains("both"));
    fs::remove_file(place.path("turno.toml")).unwrap();

    fs::write(&file, "\n").unwrap();
    assert!(list(&place, &[], &variable).expect(2).err.contains("empty"));
    let missing = [("TURNO_STORE_FILE", "missing")];
    let done = list(&place, &[], &missing).expect(2);
    assert!(done.err.contains("TURNO_STORE_FILE"), "{done:?}");
}

#[test]
fn everything_can_come_from_the_variables_of_libpq() {
    let place = Place::new(Kind::Postgres);
    place.turno(&["migrate"]).expect(0);
    place.json(0, &["lock", "acquire", "loan/1"]);
    let address = place
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
    let done = list(&place, &["--store", "postgres://"], &variables).expect(0);
    assert!(done.out.contains("loan/1"), "{done:?}");
    let string = format!("host=127.0.0.1 port={port} user=owner dbname={database}");
    let done = list(&place, &["--store", &string], &[]).expect(0);
    assert!(done.out.contains("loan/1"), "{done:?}");
}

#[test]
fn an_unknown_parameter_is_bad_usage() {
    let place = Place::new(Kind::Sqlite);
    let store = "postgres://ana:s3cret@db/app?sslmod=require";
    let done = list(&place, &[], &[("TURNO_STORE", store)]).expect(2);
    assert!(
        done.err.contains("\"sslmod\"") && !done.err.contains("s3cret"),
        "{done:?}"
    );
}
