//! Every `sslmode`, on a server that accepts only TLS and on one without TLS.

use turno::store::postgres::{Environment, Target};
use turno_testkit::PostgresServer;

use crate::fixture::{PASSWORD, TlsFixture, is_encrypted, refusal, tried};

#[tokio::test]
async fn encrypted_connections_are_made_as_each_mode_says() {
    let fixture = TlsFixture::shared();
    let root = fixture.root();
    let with = |more: &str| fixture.string("owner", &format!("password={PASSWORD} {more}"));
    assert!(is_encrypted(&with("")).await, "prefer is the default");
    for more in [
        "sslmode=prefer".to_owned(),
        format!("sslmode=prefer {root}"),
        "sslmode=require".to_owned(),
        format!("sslmode=require {root}"),
        format!("sslmode=verify-ca {root}"),
        format!("sslmode=verify-full {root}"),
        format!("sslmode=verify-full {root} ssl_min_protocol_version=TLSv1.3"),
        format!("sslmode=verify-full {root} channel_binding=require"),
    ] {
        assert!(is_encrypted(&with(&more)).await, "{more}");
    }
    let plain = refusal(&with("sslmode=disable")).await;
    assert!(plain.contains("sslmode=require"), "{plain}");
}

#[tokio::test]
async fn a_certificate_of_another_authority_is_rejected_and_never_answered_in_the_clear() {
    let fixture = TlsFixture::shared();
    let other = fixture.other_root();
    let with = |more: &str| fixture.string("owner", &format!("password={PASSWORD} {more}"));
    for mode in ["prefer", "require", "verify-ca", "verify-full"] {
        let more = format!("sslmode={mode} sslrootcert={}", other.display());
        let message = refusal(&with(&more)).await;
        assert!(
            message.contains("trusted authority") && message.contains("sslrootcert"),
            "{mode}: {message}"
        );
    }
    let message = refusal(&with("sslrootcert=system")).await;
    assert!(message.contains("trusted authority"), "{message}");
}

#[tokio::test]
async fn only_verify_full_checks_the_host_name() {
    let fixture = TlsFixture::shared();
    let root = fixture.root();
    let port = fixture.server.port();
    let by_address = |mode: &str| {
        format!(
            "host=127.0.0.1 port={port} user=owner password={PASSWORD} dbname=postgres sslmode={mode} {root}"
        )
    };
    assert!(is_encrypted(&by_address("verify-ca")).await);
    let message = refusal(&by_address("verify-full")).await;
    for word in ["127.0.0.1", "localhost", "verify-ca"] {
        assert!(message.contains(word), "{message}");
    }
}

#[tokio::test]
async fn a_server_without_tls_is_for_prefer_only() {
    let server = PostgresServer::shared();
    let url = server.url("postgres");
    assert!(!is_encrypted(&url).await);
    assert!(!is_encrypted(&format!("{url}?sslmode=prefer")).await);
    assert!(!is_encrypted(&format!("{url}?sslmode=disable")).await);
    let root = TlsFixture::shared().root();
    for more in ["require".to_owned(), format!("verify-full&{root}")] {
        let message = refusal(&format!("{url}?sslmode={more}")).await;
        assert!(message.contains("does not support TLS"), "{message}");
    }
    let message = refusal(&format!("{url}?channel_binding=require")).await;
    assert!(message.contains("channel_binding"), "{message}");
}

#[tokio::test]
async fn the_files_in_the_home_folder_are_used() {
    let fixture = TlsFixture::shared();
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join(".postgresql");
    std::fs::create_dir(&folder).unwrap();
    let environment = Environment::from_iter([
        ("HOME", home.path().to_str().unwrap()),
        ("PGPASSWORD", PASSWORD),
    ]);
    let full = fixture.string("owner", "sslmode=verify-full");
    let error = tried(&full, &environment).await.unwrap_err().to_string();
    assert!(error.contains("sslrootcert"), "{error}");
    std::fs::copy(&fixture.authority.certificate, folder.join("root.crt")).unwrap();
    assert!(tried(&full, &environment).await.unwrap());
    // As in libpq, `require` also uses the file if it exists.
    std::fs::copy(fixture.other_root(), folder.join("root.crt")).unwrap();
    let require = fixture.string("owner", "sslmode=require");
    let error = tried(&require, &environment).await.unwrap_err().to_string();
    assert!(error.contains("trusted authority"), "{error}");
    assert!(
        tried(&fixture.string("owner", ""), &environment)
            .await
            .unwrap()
    );
}

/// TLS from the first byte: supported by PostgreSQL 17 and later; older servers close the connection.
#[tokio::test]
async fn direct_negotiation_is_for_servers_that_know_it() {
    let fixture = TlsFixture::shared();
    let usual = fixture.string("owner", &format!("sslmode=require password={PASSWORD}"));
    let target = Target::parse_with(&usual, &Environment::default()).unwrap();
    let (client, connection) = target.connect().await.unwrap();
    tokio::spawn(connection);
    let version = "select current_setting('server_version_num')::integer";
    let version: i32 = client.query_one(version, &[]).await.unwrap().get(0);
    let direct = format!("{usual} sslnegotiation=direct");
    let tried = tried(&direct, &Environment::default()).await;
    if version >= 170_000 {
        assert!(tried.unwrap());
    } else {
        tried.unwrap_err();
    }
}
