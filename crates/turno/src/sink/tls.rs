//! Whom sinks trust: the system's authorities, and those that they are told of.

use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls_platform_verifier::Verifier;

/// A client's side of TLS. Its cryptography is named here: what the process would choose by itself depends on what else
/// is linked into it.
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

/// TLS that trusts nobody, for addresses without TLS: a machine without certificates may still speak plainly.
#[cfg(feature = "webhook")]
pub(super) fn none() -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    Ok(ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS cannot be set up: {error}"))?
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth())
}
