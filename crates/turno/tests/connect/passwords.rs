//! Sources of a password, and the messages if there is none or a wrong one.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use turno::store::postgres::Environment;

use crate::fixture::{PASSWORD, TlsFixture, refusal, tried};

#[tokio::test]
async fn a_missing_and_a_wrong_password_read_as_that() {
    let fixture = TlsFixture::shared();
    let message = refusal(&fixture.string("owner", "")).await;
    assert!(
        message.contains("asks for a password") && message.contains("PGPASSWORD"),
        "{message}"
    );
    let message = refusal(&fixture.string("owner", "password=wr0ng")).await;
    assert!(
        message.contains("password authentication failed") && message.contains("PGPASSWORD"),
        "{message}"
    );
    assert!(!message.contains("wr0ng"), "{message}");
}

#[tokio::test]
async fn a_password_comes_from_the_environment_or_a_file() {
    let fixture = TlsFixture::shared();
    let home = tempfile::tempdir().unwrap();
    let port = fixture.server.port();
    let write = |name: &str, text: String| {
        let file = home.path().join(name);
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        file
    };
    write(
        ".pgpass",
        format!("localhost:{port}:postgres:owner:{PASSWORD}\n"),
    );
    let service = format!(
        "[turno]\nhost=localhost\nhostaddr=127.0.0.1\nport={port}\nuser=owner\ndbname=postgres\nsslmode=verify-full\n{}\n",
        fixture.root()
    );
    write(".pg_service.conf", service);
    let home = home.path().to_str().unwrap();
    let environment = Environment::from_iter([("HOME", home), ("PGSERVICE", "turno")]);
    assert!(tried("postgres://", &environment).await.unwrap());
    let wrong = [
        ("HOME", home),
        ("PGSERVICE", "turno"),
        ("PGPASSWORD", "wrong"),
    ];
    let error = tried("postgres://", &wrong.into_iter().collect()).await;
    let error = error.unwrap_err().to_string();
    assert!(error.contains("password authentication failed"), "{error}");

    let port = port.to_string();
    let all = Environment::from_iter([
        ("PGHOST", "localhost"),
        ("PGHOSTADDR", "127.0.0.1"),
        ("PGPORT", &port),
        ("PGUSER", "owner"),
        ("PGDATABASE", "postgres"),
        ("PGPASSWORD", PASSWORD),
        ("PGSSLMODE", "verify-full"),
        (
            "PGSSLROOTCERT",
            fixture.authority.certificate.to_str().unwrap(),
        ),
    ]);
    assert!(tried("postgres://", &all).await.unwrap());
}
