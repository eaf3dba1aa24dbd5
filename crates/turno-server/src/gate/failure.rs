//! Failures between the gate and the service, and what they mean for a request.

use std::error::Error;

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::Full;
use hyper_util::client::legacy;
use turno::lock::Language;
use turno::once::http::Fate;

use super::problem::Problem;
use super::sending::SilentClient;

/// Kind of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failure {
    /// Nothing of the request was processed: there was no connection, or it closed before anything was written.
    Unsent,
    /// The connection broke after a part of the request may have been sent.
    Broken,
    /// The response did not begin in time.
    Late,
    /// The client sent nothing of its body for too long.
    Silent,
    /// The gate does not support the request.
    Unsupported,
}

impl Failure {
    /// Classifies an error of the HTTP client. It is [`Failure::Broken`] unless it is certain that nothing was processed.
    pub(super) fn of(error: &legacy::Error) -> Self {
        if error.is_connect() {
            return Failure::Unsent;
        }
        let mut cause = error.source();
        while let Some(error) = cause {
            if error.is::<SilentClient>() {
                return Failure::Silent;
            }
            // The request was cancelled before its first byte was written.
            let is_canceled = error
                .downcast_ref::<hyper::Error>()
                .is_some_and(hyper::Error::is_canceled);
            // RFC 9113, section 8.7: REFUSED_STREAM means that nothing was processed.
            let is_refused = error
                .downcast_ref::<h2::Error>()
                .is_some_and(|error| error.reason() == Some(h2::Reason::REFUSED_STREAM));
            if is_canceled || is_refused {
                return Failure::Unsent;
            }
            cause = error.source();
        }
        Failure::Broken
    }

    fn fate(self) -> Fate {
        match self {
            Failure::Unsent | Failure::Unsupported => Fate::Undone,
            Failure::Broken | Failure::Late | Failure::Silent => Fate::Unknown,
        }
    }

    fn problem(self) -> Problem {
        match self {
            Failure::Unsent => Problem {
                status: StatusCode::BAD_GATEWAY,
                code: "upstream_unreachable",
                english: (
                    "The service cannot be reached",
                    "Nothing was sent to it, and nothing was done. Repeat the request in a moment.",
                ),
                spanish: (
                    "No se puede contactar con el servicio",
                    "No se le envió nada, y no se hizo nada. Repita la petición en un momento.",
                ),
            },
            Failure::Broken => Problem {
                status: StatusCode::BAD_GATEWAY,
                code: "upstream_broken",
                english: (
                    "The connection to the service broke",
                    "It is not known whether the request was carried out. Look for its effects.",
                ),
                spanish: (
                    "Se interrumpió la conexión con el servicio",
                    "No se sabe si la petición se llevó a cabo. Compruebe sus efectos.",
                ),
            },
            Failure::Late => Problem {
                status: StatusCode::GATEWAY_TIMEOUT,
                code: "upstream_late",
                english: (
                    "The service did not answer in time",
                    "It is not known whether the request was carried out. Look for its effects.",
                ),
                spanish: (
                    "El servicio no respondió a tiempo",
                    "No se sabe si la petición se llevó a cabo. Compruebe sus efectos.",
                ),
            },
            Failure::Silent => Problem {
                status: StatusCode::REQUEST_TIMEOUT,
                code: "timeout",
                english: (
                    "The request came too slowly",
                    "The service may have got a part of it. Send it again, whole.",
                ),
                spanish: (
                    "La petición llegó demasiado despacio",
                    "El servicio puede haber recibido una parte. Envíela de nuevo, entera.",
                ),
            },
            Failure::Unsupported => Problem {
                status: StatusCode::NOT_IMPLEMENTED,
                code: "not_supported",
                english: (
                    "The gate does not pass this on",
                    "It answers neither CONNECT nor addresses that are no path. Send it to the service itself.",
                ),
                spanish: (
                    "La pasarela no transmite esto",
                    "No atiende CONNECT ni direcciones que no sean una ruta. Envíelo al servicio mismo.",
                ),
            },
        }
    }

    /// Returns the response to the client. Its extension tells the once layer whether the outcome is known.
    pub(super) fn response(self, language: Language) -> Response<Full<Bytes>> {
        let mut response = self.problem().response(language);
        response.extensions_mut().insert(self.fate());
        response
    }
}
