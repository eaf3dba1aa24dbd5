//! Expired, self-signed and client certificates.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use turno_testkit::{Certificate, Subject};

use crate::fixture::{LOCALHOST, PASSWORD, TlsFixture, is_encrypted, refusal};

#[tokio::test]
async fn an_expired_certificate_is_rejected_where_certificates_are_verified() {
    let fixture = TlsFixture::start(|folder, authority| {
        let expired = Subject {
            days: -1,
            ..LOCALHOST
        };
        authority.issue(folder, "server", expired).unwrap()
    });
    let root = fixture.root();
    let with = |more: &str| fixture.string("owner", &format!("password={PASSWORD} {more}"));
    for mode in ["verify-ca", "verify-full"] {
        let message = refusal(&with(&format!("sslmode={mode} {root}"))).await;
        assert!(message.contains("has expired"), "{message}");
    }
    // The control: without verification, the certificate is not checked.
    assert!(is_encrypted(&with("sslmode=require")).await);
}

#[tokio::test]
async fn a_self_signed_certificate_is_trusted_if_it_is_in_the_file() {
    let fixture = TlsFixture::start(|folder, _| {
        Certificate::self_signed_localhost(folder, "server").unwrap()
    });
    let own = fixture.folder.path().join("server.crt");
    let with = |more: String| fixture.string("owner", &format!("password={PASSWORD} {more}"));
    let listed = with(format!("sslmode=verify-full sslrootcert={}", own.display()));
    assert!(is_encrypted(&listed).await);
    let message = refusal(&with(format!("sslmode=verify-full {}", fixture.root()))).await;
    assert!(message.contains("certificate"), "{message}");
}

#[tokio::test]
async fn a_client_shows_its_certificate() {
    let fixture = TlsFixture::shared();
    let folder = tempfile::tempdir().unwrap();
    let subject = |common_name| Subject {
        common_name,
        names: "",
        days: 2,
    };
    let issue = |name| {
        fixture
            .authority
            .issue(folder.path(), name, subject(name))
            .unwrap()
    };
    let (own, other) = (issue("certified"), issue("stranger"));
    let shown = |files: &Certificate| {
        format!(
            "password={PASSWORD} sslmode=verify-full {} sslcert={} sslkey={}",
            fixture.root(),
            files.certificate.display(),
            files.key.display()
        )
    };
    assert!(is_encrypted(&fixture.string("certified", &shown(&own))).await);
    let none = format!("password={PASSWORD}");
    let message = refusal(&fixture.string("certified", &none)).await;
    assert!(message.contains("set sslcert and sslkey"), "{message}");
    // If the certificate is of another role, the server gives no more detail.
    let message = refusal(&fixture.string("certified", &shown(&other))).await;
    assert!(message.contains("authentication failed"), "{message}");

    fs::set_permissions(&own.key, fs::Permissions::from_mode(0o640)).unwrap();
    let message = refusal(&fixture.string("certified", &shown(&own))).await;
    assert!(message.contains("chmod 600"), "{message}");
}
