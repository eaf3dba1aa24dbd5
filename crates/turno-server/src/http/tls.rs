//! TLS with certificate files that may be replaced while the server runs.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use turno::Error;

/// How often the files are checked.
const RELOAD_INTERVAL: Duration = Duration::from_secs(60);

/// The files of a certificate and its private key.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// Certificate chain in PEM: the server's own certificate first, then those that signed it.
    pub cert: PathBuf,
    /// Private key in PEM.
    pub key: PathBuf,
}

/// The current certificate.
pub(crate) struct Tls {
    files: TlsFiles,
    current: RwLock<Certificate>,
}

/// A certificate that was read, and a hash of its files.
#[derive(Clone)]
struct Certificate {
    acceptor: TlsAcceptor,
    hash: [u8; 32],
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls")
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

impl Tls {
    pub(crate) async fn load(files: TlsFiles) -> turno::Result<Arc<Self>> {
        let current = RwLock::new(read(&files).await?);
        Ok(Arc::new(Tls { files, current }))
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        self.current().acceptor
    }

    fn current(&self) -> Certificate {
        self.current
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Reads the files again. If they are invalid, the current certificate stays in use: the two files are replaced one after the
    /// other, and may not match for a moment.
    pub(crate) async fn reload(&self) -> turno::Result<()> {
        let read = read(&self.files).await?;
        if read.hash != self.current().hash {
            tracing::info!(cert = %self.files.cert.display(), "the certificate has changed; using the new one");
            *self.current.write().unwrap_or_else(PoisonError::into_inner) = read;
        }
        Ok(())
    }

    /// Reloads the files every [`RELOAD_INTERVAL`], until the future is dropped.
    pub(crate) async fn watch(&self) -> std::convert::Infallible {
        loop {
            tokio::time::sleep(RELOAD_INTERVAL).await;
            if let Err(error) = self.reload().await {
                tracing::warn!(%error, "could not reload the certificate; keeping the current one");
            }
        }
    }
}

async fn read(files: &TlsFiles) -> turno::Result<Certificate> {
    let files = files.clone();
    let read = tokio::task::spawn_blocking(move || {
        let cert = bytes("tls_cert", &files.cert)?;
        let key = bytes("tls_key", &files.key)?;
        parse(&files, &cert, &key)
    });
    read.await
        .unwrap_or_else(|_| Err(Error::unavailable("the program is shutting down")))
}

fn bytes(field: &'static str, path: &Path) -> turno::Result<Vec<u8>> {
    std::fs::read(path).map_err(|error| {
        let path = path.display();
        Error::invalid(
            field,
            format!("{path} cannot be read ({error}): name a file in PEM"),
        )
    })
}

fn parse(files: &TlsFiles, cert: &[u8], key: &[u8]) -> turno::Result<Certificate> {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(cert)
        .collect::<Result<_, _>>()
        .ok()
        .filter(|chain: &Vec<_>| !chain.is_empty())
        .ok_or_else(|| unusable("tls_cert", &files.cert, "there is no certificate in it"))?;
    let private = PrivateKeyDer::from_pem_slice(key)
        .map_err(|_| unusable("tls_key", &files.key, "there is no private key in it"))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable("tls_cert", &files.cert, &error.to_string()))?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(|error| unusable("tls_key", &files.key, &error.to_string()))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let hash = Sha256::new()
        .chain_update(cert)
        .chain_update(key)
        .finalize();
    Ok(Certificate {
        acceptor: TlsAcceptor::from(Arc::new(config)),
        hash: hash.into(),
    })
}

fn unusable(field: &'static str, path: &Path, why: &str) -> Error {
    let path = path.display();
    Error::invalid(
        field,
        format!("{path} cannot be used ({why}): name a certificate and its own key, in PEM"),
    )
}
