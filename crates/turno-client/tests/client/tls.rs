//! Over TLS: who is trusted, and who is not.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use turno_client::{Client, Error};
use turno_server::{Options, TlsFiles};

use crate::common::Running;

/// An authority: its certificate, and its key.
struct Authority {
    cert: PathBuf,
    key: PathBuf,
}

/// What all certificates are made with.
const REQ: [&str; 9] = [
    "req",
    "-x509",
    "-newkey",
    "ec",
    "-pkeyopt",
    "ec_paramgen_curve:prime256v1",
    "-nodes",
    "-days",
    "2",
];

fn openssl(arguments: &[&str], files: &[(&str, &Path)]) {
    let mut command = Command::new("openssl");
    command.args(REQ).args(arguments);
    for (option, file) in files {
        command.arg(option).arg(file);
    }
    let made = command.output().unwrap();
    assert!(made.status.success(), "{made:?}");
}

impl Authority {
    /// All have the same name: it is the key that makes the difference.
    fn new(folder: &Path, file: &str) -> Self {
        let authority = Authority {
            cert: folder.join(format!("{file}.pem")),
            key: folder.join(format!("{file}.key")),
        };
        let usage = "keyUsage=critical,keyCertSign";
        openssl(
            &["-subj", "/CN=Authority", "-addext", usage],
            &[("-out", &authority.cert), ("-keyout", &authority.key)],
        );
        authority
    }

    /// A certificate of this machine's, signed by this authority.
    fn sign(&self, folder: &Path) -> TlsFiles {
        let files = TlsFiles {
            cert: folder.join("server.pem"),
            key: folder.join("server.key"),
        };
        openssl(
            &[
                "-subj",
                "/CN=localhost",
                "-addext",
                "subjectAltName=DNS:localhost",
                "-addext",
                "basicConstraints=critical,CA:FALSE",
            ],
            &[
                ("-CA", &self.cert),
                ("-CAkey", &self.key),
                ("-out", &files.cert),
                ("-keyout", &files.key),
            ],
        );
        files
    }
}

async fn refused(client: &Client) -> Error {
    let error = client.health().await.unwrap_err();
    assert!(
        error.is_unavailable() && error.problem().is_none(),
        "{error:?}"
    );
    error
}

#[tokio::test]
async fn an_authority_of_a_file_is_trusted_and_no_other() {
    let folder = TempDir::new().unwrap();
    let (own, other) = (
        Authority::new(folder.path(), "own"),
        Authority::new(folder.path(), "other"),
    );
    let server = Running::start_with(Options {
        tls: Some(own.sign(folder.path())),
        ..Options::default()
    })
    .await;
    let port = server.address.port();
    let at = |url: String| Client::new(&url).unwrap();

    let client = at(format!("https://localhost:{port}")).ca_file(&own.cert);
    assert_eq!(client.unwrap().health().await.unwrap().status, "ok");
    // Without the file, with another one, under another name: it is not that server. And nothing is said in the clear.
    let strange = [
        at(format!("https://localhost:{port}")),
        at(format!("https://localhost:{port}"))
            .ca_file(&other.cert)
            .unwrap(),
        at(format!("https://127.0.0.1:{port}"))
            .ca_file(&own.cert)
            .unwrap(),
    ];
    for client in &strange {
        let error = refused(client).await;
        let said = error.to_string();
        assert!(
            said.contains("certificate") && said.contains("ca_file"),
            "{said}"
        );
    }
    refused(&at(format!("http://localhost:{port}"))).await;
    server.end().await;

    let missing = folder.path().join("missing");
    for file in [&missing, &own.key] {
        let error = at("https://localhost".into()).ca_file(file).unwrap_err();
        assert_eq!(error.field(), Some("ca_file"), "{error:?}");
    }
}
