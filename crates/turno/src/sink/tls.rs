//! Trust of sinks: the system's certificate authorities, and those that were configured.

use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls_platform_verifier::Verifier;

/// Returns a TLS client configuration. It names its crypto provider, because the process's default depends on the other
/// libraries that are linked.
pub(super) fn client(authorities: Option<&str>) -> Result<ClientConfig, String> {
    let wrong = |error: rustls::Error| format!("TLS cannot be set up: {error}");
    let extra = CertificateDer::pem_slice_iter(authorities.unwrap_or_default().as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .map_err(|_| {
            "TLS cannot be set up: the authorities are no certificates in PEM".to_owned()
        })?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = Verifier::new_with_extra_roots(extra, provider.clone()).map_err(wrong)?;
    Ok(ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(wrong)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth())
}

/// Returns a configuration that trusts no certificate, for addresses without TLS: these must work on a machine that has
/// no certificates.
#[cfg(feature = "webhook")]
pub(super) fn none() -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    Ok(ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS cannot be set up: {error}"))?
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth())
}
