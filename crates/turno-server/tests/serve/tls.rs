//! TLS with certificate files.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, Version};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tokio_util::sync::CancellationToken;
use turno::Turno;
use turno_server::{Options, Server, TlsFiles};

use crate::common::LONG;
use crate::raw::{Raw, get};

/// Creates a self-signed certificate in `NAME.pem`, and its key in `NAME.key`.
fn make(folder: &Path, name: &str) -> TlsFiles {
    let files = TlsFiles {
        cert: folder.join(format!("{name}.pem")),
        key: folder.join(format!("{name}.key")),
    };
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
        ])
        .args(["-nodes", "-days", "2", "-subj", "/CN=localhost"])
        .args(["-addext", "subjectAltName=DNS:localhost"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .arg("-out")
        .arg(&files.cert)
        .arg("-keyout")
        .arg(&files.key)
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    files
}

struct Secure {
    server: Arc<Server>,
    address: SocketAddr,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

async fn start(files: TlsFiles) -> Secure {
    let options = Options {
        tls: Some(files),
        ..Options::default()
    };
    serve(options).await
}

async fn serve(options: Options) -> Secure {
    let turno = Turno::connect("sqlite::memory:").await.unwrap();
    let server = Arc::new(Server::new(turno, options));
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    // The files have been read after this.
    server.check(address).await.unwrap();
    let stop = CancellationToken::new();
    let (serving, stopped) = (server.clone(), stop.clone());
    let task = tokio::spawn(async move {
        serving
            .run(listener, stopped.cancelled_owned())
            .await
            .unwrap()
    });
    Secure {
        server,
        address,
        stop,
        task,
    }
}

impl Secure {
    /// Connects as a client that trusts only this certificate.
    async fn connect(
        &self,
        trusted: &Path,
        protocol: &[u8],
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_file(trusted).unwrap())
            .unwrap();
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![protocol.to_vec()];
        let stream = TcpStream::connect(self.address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let connecting = TlsConnector::from(Arc::new(config)).connect(name, stream);
        tokio::time::timeout(LONG, connecting).await.unwrap()
    }

    async fn trusts(&self, trusted: &Path) -> bool {
        self.connect(trusted, b"http/1.1").await.is_ok()
    }

    async fn end(self) {
        self.stop.cancel();
        tokio::time::timeout(LONG, self.task)
            .await
            .unwrap()
            .unwrap();
    }
}

fn request(version: Version) -> Request<Empty<Bytes>> {
    let request = match version {
        Version::HTTP_2 => Request::get("https://localhost/v1/locks"),
        _ => Request::get("/v1/locks").header("host", "localhost"),
    };
    request.body(Empty::new()).unwrap()
}

async fn ask_1(stream: TlsStream<TcpStream>) -> Response<Incoming> {
    let (mut send, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .unwrap();
    tokio::spawn(connection);
    send.send_request(request(Version::HTTP_11)).await.unwrap()
}

async fn ask_2(stream: TlsStream<TcpStream>) -> Response<Incoming> {
    let executor = TokioExecutor::new();
    let (mut send, connection) =
        hyper::client::conn::http2::handshake(executor, TokioIo::new(stream))
            .await
            .unwrap();
    tokio::spawn(connection);
    send.send_request(request(Version::HTTP_2)).await.unwrap()
}

#[tokio::test]
async fn both_versions_of_http_are_spoken_and_nothing_without_tls() {
    let folder = TempDir::new().unwrap();
    let files = make(folder.path(), "own");
    let other = make(folder.path(), "other");
    let server = start(files.clone()).await;
    let one = server.connect(&files.cert, b"http/1.1").await.unwrap();
    assert_eq!(ask_1(one).await.status(), 200);
    let two = server.connect(&files.cert, b"h2").await.unwrap();
    let answer = ask_2(two).await;
    assert_eq!(
        (answer.status().as_u16(), answer.version()),
        (200, Version::HTTP_2)
    );
    assert!(
        !server.trusts(&other.cert).await,
        "another certificate is not this one"
    );

    let mut plain = Raw::saying(server.address, &get("/v1/locks")).await;
    let response = plain.until_closed().await;
    assert!(!response.contains("HTTP"), "{response}");
    server.end().await;
}

/// The control: a server without a certificate responds to the plain requests that were closed without a response above, and a
/// TLS handshake with it fails.
#[tokio::test]
async fn without_a_certificate_all_is_spoken_in_the_clear() {
    let folder = TempDir::new().unwrap();
    let files = make(folder.path(), "own");
    let server = serve(Options::default()).await;
    let mut plain = Raw::saying(server.address, &get("/v1/locks")).await;
    assert!(plain.head().await.starts_with("HTTP/1.1 200"));
    assert!(!server.trusts(&files.cert).await);
    server.end().await;
}

#[tokio::test]
async fn a_certificate_is_renewed_while_the_server_runs() {
    let folder = TempDir::new().unwrap();
    let files = make(folder.path(), "own");
    let server = start(files.clone()).await;
    let before = folder.path().join("before.pem");
    std::fs::copy(&files.cert, &before).unwrap();
    let new = make(folder.path(), "new");

    // The certificate without its key: the old pair stays in use.
    std::fs::copy(&new.cert, &files.cert).unwrap();
    let refused = server.server.reload().await.unwrap_err();
    assert_eq!(refused.field(), Some("tls_key"));
    assert!(server.trusts(&before).await);

    std::fs::copy(&new.key, &files.key).unwrap();
    server.server.reload().await.unwrap();
    assert!(server.trusts(&new.cert).await);
    assert!(!server.trusts(&before).await);
    server.end().await;
}

#[tokio::test]
async fn files_that_cannot_be_used_are_named() {
    let folder = TempDir::new().unwrap();
    let (one, other) = (make(folder.path(), "one"), make(folder.path(), "other"));
    let missing = folder.path().join("missing");
    for (cert, key, field) in [
        (&missing, &one.key, "tls_cert"),
        (&one.cert, &missing, "tls_key"),
        (&one.key, &one.key, "tls_cert"),
        (&one.cert, &one.cert, "tls_key"),
        (&one.cert, &other.key, "tls_key"),
    ] {
        let turno = Turno::connect("sqlite::memory:").await.unwrap();
        let files = TlsFiles {
            cert: cert.clone(),
            key: key.clone(),
        };
        let options = Options {
            tls: Some(files),
            ..Options::default()
        };
        let server = Server::new(turno, options);
        let checked = server.check("127.0.0.1:0".parse().unwrap()).await;
        assert_eq!(checked.unwrap_err().field(), Some(field));
    }
}
