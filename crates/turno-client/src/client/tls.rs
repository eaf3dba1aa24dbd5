//! TLS: the client trusts the system's certificate authorities and those that the caller adds.

use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls_platform_verifier::Verifier;

use super::error::{Error, Result};

/// Builds the TLS configuration. Names the crypto provider, because the process default depends on the other linked crates.
pub(super) fn client(authorities: Option<&str>) -> Result<ClientConfig> {
    let extra = authorities.map(certificates).transpose()?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = Verifier::new_with_extra_roots(extra.unwrap_or_default(), provider.clone())
        .map_err(wrong)?;
    Ok(ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(wrong)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth())
}

/// A TLS configuration without roots, for `http` addresses: a machine without certificates can still use plain HTTP.
pub(super) fn none() -> Result<ClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    Ok(ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(wrong)?
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth())
}

fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>> {
    let found: std::result::Result<Vec<_>, _> =
        CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        _ => Err(Error::invalid(
            "ca_file",
            "the authorities are no certificates in PEM: they begin with -----BEGIN CERTIFICATE-----",
        )),
    }
}

fn wrong(error: rustls::Error) -> Error {
    Error::broken(format!("TLS cannot be set up: {error}"))
}
