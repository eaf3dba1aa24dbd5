//! README and the five-minute guide on a PostgreSQL like that of managed services: only TLS, a password, and an owner who is
//! not a superuser.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use turno_testkit::{Certificate, PostgresServer, Subject};

use crate::common::{Fixture, Kind, ask_postgres};
use crate::page;

const PASSWORD: &str = "s3cret";

/// Starts a server that accepts only `hostssl` with a password.
fn server(folder: &Path) -> (PostgresServer, Certificate) {
    let authority = Certificate::authority(folder, "authority").unwrap();
    let subject = Subject {
        common_name: "localhost",
        names: "DNS:localhost",
        days: 2,
    };
    let certificate = authority.issue(folder, "server", subject).unwrap();
    let server = PostgresServer::start_hostssl(&certificate, &authority, &[]).unwrap();
    server
        .administer(&format!("create role shop login password '{PASSWORD}'"))
        .unwrap();
    (server, authority)
}

/// Creates a database that belongs to the role `shop`. The password is in a file, and not in the URL.
fn fixture(server: &PostgresServer, authority: &Certificate, database: &str) -> Fixture {
    server
        .administer(&format!("create database {database} owner shop"))
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let passfile = folder.path().join("pgpass");
    fs::write(&passfile, format!("*:*:*:shop:{PASSWORD}\n")).unwrap();
    fs::set_permissions(&passfile, fs::Permissions::from_mode(0o600)).unwrap();
    let store = format!(
        "postgres://shop@localhost:{}/{database}?hostaddr=127.0.0.1&sslmode=verify-full&sslrootcert={}&passfile={}",
        server.port(),
        authority.certificate.display(),
        passfile.display()
    );
    Fixture {
        kind: Kind::Postgres,
        folder,
        store,
    }
}

#[test]
fn readme_and_start_work_for_an_ordinary_owner_over_tls() {
    let folder = tempfile::tempdir().unwrap();
    let (server, authority) = server(folder.path());
    for (database, text) in [
        ("readme", include_str!("../../../../README.md")),
        ("start", include_str!("../../../../docs/start.md")),
    ] {
        let fixture = fixture(&server, &authority, database);
        let store = fixture.store.clone();
        let is_ordinary = "
            select s.ssl and not (r.rolsuper or r.rolcreaterole or r.rolcreatedb)
            from pg_stat_ssl s, pg_roles r
            where s.pid = pg_backend_pid() and r.rolname = current_user";
        assert_eq!(ask_postgres(&store, is_ordinary), "t");
        // The control: the server refuses connections without TLS, so all commands below used it.
        let plain = store.replace("verify-full", "disable");
        let refused = fixture.turno(&["doctor", "--store", &plain]).expect(1);
        assert!(refused.out.contains("no encryption"), "{refused:?}");
        page::follow_at(text, fixture);
    }
}
