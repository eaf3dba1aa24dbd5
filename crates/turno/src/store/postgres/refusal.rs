//! Why a connection was not established, when the reason is not an error of the server: TLS, certificates, passwords.

use std::error::Error as StdError;
use std::io;

use rustls::{AlertDescription, CertificateError};

use crate::error::Kind;

const NO_PASSWORD: &str = "the server asks for a password and none was given: set PGPASSWORD, or write it to a password file (~/.pgpass, mode 0600)";
const NO_TLS: &str = "the server does not support TLS and sslmode demands it: enable ssl on the server, or set sslmode=prefer to connect without encryption";
const NO_CHANNEL_BINDING: &str = "the server did not use channel binding and channel_binding=require demands it: use scram-sha-256 over TLS, or set channel_binding=prefer";
const UNKNOWN_METHOD: &str = "the server asks for an authentication method that Turno does not support: use scram-sha-256, md5, password or a client certificate in pg_hba.conf";

/// What an error without a SQLSTATE means, and what to do.
pub(super) fn explain(error: &(dyn StdError + 'static)) -> (Kind, String) {
    if let Some(error) = tls_error(error) {
        return explain_tls(error);
    }
    let cause = root(error).to_string();
    // The driver has no codes for these.
    let refused = match cause.as_str() {
        "password missing" => NO_PASSWORD,
        "server does not support TLS" => NO_TLS,
        "server did not use channel binding" => NO_CHANNEL_BINDING,
        "unsupported authentication method" | "unsupported SASL mechanism" => UNKNOWN_METHOD,
        _ => {
            return (
                Kind::Unavailable,
                format!(
                    "the database cannot be reached ({cause}): check that it runs and that the URL is right"
                ),
            );
        }
    };
    (Kind::Refused, refused.to_owned())
}

fn explain_tls(error: &rustls::Error) -> (Kind, String) {
    let certificate = |what: &str| (Kind::Refused, format!("the server's certificate {what}"));
    match error {
        rustls::Error::InvalidCertificate(reason) => match reason {
            CertificateError::UnknownIssuer => certificate(
                "is not signed by a trusted authority: set sslrootcert (or PGSSLROOTCERT) to the file of its authority, or to system \
                 if the operating system knows it",
            ),
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                certificate("has expired: install a new one on the server")
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                certificate("is not valid yet: check the clocks of both machines")
            }
            CertificateError::NotValidForName => certificate(
                "is for another host name: connect with the name that is in it, or set sslmode=verify-ca to accept any name",
            ),
            CertificateError::NotValidForNameContext {
                expected,
                presented,
            } => {
                let presented = match presented.as_slice() {
                    [] => "it has no subjectAltName".to_owned(),
                    names => format!("it is for {}", names.join(", ")),
                };
                certificate(&format!(
                    "is not for the host name {:?} ({presented}): connect with the name that is in it, or set sslmode=verify-ca to \
                     accept any name",
                    expected.to_str()
                ))
            }
            other => certificate(&format!(
                "is not accepted ({other}): install another one on the server"
            )),
        },
        rustls::Error::AlertReceived(
            AlertDescription::CertificateRequired
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied,
        ) => (
            Kind::Refused,
            format!(
                "the server rejects the client's certificate ({error}): set sslcert and sslkey to a certificate that the server trusts"
            ),
        ),
        other => (
            Kind::Unavailable,
            format!(
                "the TLS handshake with the database failed ({other}): check that host and port are those of a PostgreSQL server"
            ),
        ),
    }
}

/// The error of rustls somewhere among the causes. An I/O error carries it inside and does not name it as its cause.
fn tls_error<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a rustls::Error> {
    causes(error).find_map(|error| {
        let inside = error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref);
        let inside = inside.and_then(|error| error.downcast_ref());
        inside.or_else(|| error.downcast_ref())
    })
}

/// The innermost cause, which says the most.
fn root<'a>(error: &'a (dyn StdError + 'static)) -> &'a (dyn StdError + 'static) {
    causes(error).last().unwrap_or(error)
}

/// An error, and what caused it, and so on.
fn causes<'a>(
    error: &'a (dyn StdError + 'static),
) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    let mut next = Some(error);
    std::iter::from_fn(move || {
        let error = next?;
        next = error.source();
        Some(error)
    })
}
