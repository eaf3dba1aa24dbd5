//! TLS to PostgreSQL: which certificates are trusted, and the client's own. rustls, with ring.

use std::fmt;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};
use tokio_postgres::Socket;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::error::{Error, Kind, Result};

/// The name of PostgreSQL's protocol in a TLS handshake. Servers need it with `sslnegotiation=direct`.
const PROTOCOL: &[u8] = b"postgresql";

/// `sslmode`: whether to encrypt, and what to verify.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// Never encrypt.
    Disable,
    /// Encrypt if the server can.
    Prefer,
    /// Encrypt; verify the authority if one is named.
    Require,
    /// Encrypt, and verify the authority.
    VerifyCa,
    /// Encrypt, and verify the authority and the host's name.
    VerifyFull,
}

/// `sslrootcert`: the authorities that are trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Roots {
    /// Those of the operating system.
    System,
    /// Those of a file in PEM.
    File(PathBuf),
}

/// `sslcert` and `sslkey`: what the client shows to the server.
#[derive(Debug, Clone)]
pub(super) struct ClientFiles {
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
}

/// What the parameters say about TLS.
#[derive(Debug, Clone)]
pub(super) struct TlsOptions {
    pub(super) mode: Mode,
    pub(super) roots: Option<Roots>,
    pub(super) client: Option<ClientFiles>,
    pub(super) is_tls13_only: bool,
    pub(super) sends_host_name: bool,
}

/// A TLS connector for tokio-postgres; made by [`Target::tls`](super::Target::tls).
#[derive(Clone)]
pub struct Tls(MakeRustlsConnect);

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

/// An encrypted connection.
pub type TlsStream = <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream;

impl<S> MakeTlsConnect<S> for Tls
where
    MakeRustlsConnect: MakeTlsConnect<S>,
{
    type Stream = <MakeRustlsConnect as MakeTlsConnect<S>>::Stream;
    type TlsConnect = <MakeRustlsConnect as MakeTlsConnect<S>>::TlsConnect;
    type Error = <MakeRustlsConnect as MakeTlsConnect<S>>::Error;

    fn make_tls_connect(&mut self, domain: &str) -> Result<Self::TlsConnect, Self::Error> {
        self.0.make_tls_connect(domain)
    }
}

impl TlsOptions {
    /// The connector that does what the options say.
    ///
    /// # Errors
    /// If a file cannot be used, or `sslmode` verifies and there is nothing to verify with.
    pub(super) fn connector(&self) -> Result<Tls> {
        // Named here: what rustls would choose by itself depends on what else is linked into the process.
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let versions: &[&rustls::SupportedProtocolVersion] = if self.is_tls13_only {
            &[&rustls::version::TLS13]
        } else {
            rustls::DEFAULT_VERSIONS
        };
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(versions)
            .map_err(broken)?
            .dangerous()
            .with_custom_certificate_verifier(self.verifier(provider)?);
        let mut config = match &self.client {
            Some(files) if self.mode != Mode::Disable => {
                let (certificates, key) = files.read()?;
                builder
                    .with_client_auth_cert(certificates, key)
                    .map_err(|error| {
                        unusable(
                            "sslcert",
                            &files.certificate,
                            &format!("or its key: {error}"),
                        )
                    })?
            }
            _ => builder.with_no_client_auth(),
        };
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        config.enable_sni = self.sends_host_name;
        Ok(Tls(MakeRustlsConnect::new(config)))
    }

    fn verifier(&self, provider: Arc<CryptoProvider>) -> Result<Arc<dyn ServerCertVerifier>> {
        let trusted = match (self.mode, &self.roots) {
            (Mode::Disable, _) | (Mode::Prefer | Mode::Require, None) => None,
            (Mode::VerifyCa | Mode::VerifyFull, None) => {
                return Err(Error::invalid(
                    "store",
                    "sslmode verifies the server's certificate, and no authority is named: set sslrootcert (or PGSSLROOTCERT) to the \
                     authority's file, or to system for the authorities of the operating system",
                ));
            }
            (_, Some(Roots::System)) => {
                let verifier = rustls_platform_verifier::Verifier::new(provider).map_err(broken)?;
                return Ok(Arc::new(verifier));
            }
            (mode, Some(Roots::File(file))) => Some(Trusted::read(file, mode == Mode::VerifyFull)?),
        };
        Ok(Arc::new(Verifier { provider, trusted }))
    }
}

impl Trusted {
    fn read(file: &Path, checks_name: bool) -> Result<Self> {
        let certificates = certificates("sslrootcert", file)?;
        let mut roots = RootCertStore::empty();
        for certificate in &certificates {
            roots
                .add(certificate.clone())
                .map_err(|error| unusable("sslrootcert", file, &error.to_string()))?;
        }
        Ok(Trusted {
            roots,
            certificates,
            checks_name,
        })
    }
}

impl ClientFiles {
    fn read(&self) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)> {
        let chain = certificates("sslcert", &self.certificate)?;
        let wrong = |reason: &str| unusable("sslkey", &self.key, reason);
        let metadata = std::fs::metadata(&self.key).map_err(|error| wrong(&error.to_string()))?;
        // As libpq has it: the owner alone, or the group too if the file is root's.
        let own = rustix::process::geteuid().as_raw();
        let shared = if metadata.uid() == 0 && own != 0 {
            0o037
        } else {
            0o077
        };
        if metadata.mode() & shared != 0 {
            return Err(wrong("others can read it: run chmod 600"));
        }
        let key = PrivateKeyDer::from_pem_file(&self.key).map_err(|error| {
            wrong(&format!(
                "{error}; it has to be a private key in PEM without a password"
            ))
        })?;
        Ok((chain, key))
    }
}

/// All certificates of a file in PEM.
fn certificates(parameter: &str, file: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let certificates = CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| unusable(parameter, file, &error.to_string()))?;
    if certificates.is_empty() {
        return Err(unusable(parameter, file, "it has no certificate in PEM"));
    }
    Ok(certificates)
}

fn unusable(parameter: &str, file: &Path, reason: &str) -> Error {
    Error::invalid(
        "store",
        format!("{parameter}: {} cannot be used ({reason})", file.display()),
    )
}

fn broken(error: rustls::Error) -> Error {
    Error::caused(
        Kind::Broken,
        format!("TLS cannot be set up ({error})"),
        error,
    )
}

/// Decides whether the server's certificate is accepted.
#[derive(Debug)]
struct Verifier {
    provider: Arc<CryptoProvider>,
    /// What is trusted; `None` accepts every certificate, as libpq does with `sslmode=require` and no authority.
    trusted: Option<Trusted>,
}

/// Authorities, and whether the certificate has to be of the host that is connected to.
#[derive(Debug)]
struct Trusted {
    roots: RootCertStore,
    /// The same as in `roots`.
    certificates: Vec<CertificateDer<'static>>,
    checks_name: bool,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        host: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(trusted) = &self.trusted else {
            return Ok(ServerCertVerified::assertion());
        };
        let parsed = ParsedCertificate::try_from(certificate)?;
        let algorithms = self.provider.signature_verification_algorithms.all;
        let chain = verify_server_cert_signed_by_trust_anchor(
            &parsed,
            &trusted.roots,
            intermediates,
            now,
            algorithms,
        );
        // The server's own certificate may be in the file, as PostgreSQL's manual suggests for a self-signed one.
        let is_listed = || trusted.certificates.contains(certificate);
        if let Err(error) = chain
            && !(is_authority(&error) && is_listed())
        {
            return Err(error);
        }
        if trusted.checks_name {
            verify_server_name(&parsed, host)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

/// Whether a certificate was rejected because it is an authority's. Its time is checked before that.
fn is_authority(error: &rustls::Error) -> bool {
    match error {
        rustls::Error::InvalidCertificate(CertificateError::Other(other)) => {
            other.0.downcast_ref::<webpki::Error>() == Some(&webpki::Error::CaUsedAsEndEntity)
        }
        _ => false,
    }
}
