//! Problem responses (RFC 9457) with a stable code.

use std::time::Duration;

use bytes::Bytes;
use http::header::{
    ACCEPT_LANGUAGE, CONTENT_LANGUAGE, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER,
};
use http::{Response, StatusCode};
use serde_json::json;

use super::Carried;
use crate::lock::Language;

/// Problem code: why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Code {
    /// The request is being processed.
    InFlight,
    /// The key belongs to a request with different content.
    Mismatch,
    /// An earlier run ended without an answer.
    Unknown,
    /// The work is done, and its answer was not stored.
    NotStored,
    /// The answer came too late: another run has taken over.
    Stale,
    /// Too many live keys.
    OverQuota,
    /// The request cannot be identified: no key, or a body that does not match its content type.
    Unidentified,
    /// The body is too large.
    TooLarge,
    /// The body did not arrive in time.
    TooSlow,
    /// The store is unavailable.
    StoreDown,
    /// The handler failed.
    Failed,
}

impl Code {
    /// Returns the code as text.
    pub fn as_str(self) -> &'static str {
        match self {
            Code::InFlight => "in_flight",
            Code::Mismatch => "mismatch",
            Code::Unknown => "unknown",
            Code::NotStored => "answer_not_stored",
            Code::Stale => "stale",
            Code::OverQuota => "over_quota",
            Code::Unidentified => "unidentified",
            Code::TooLarge => "too_large",
            Code::TooSlow => "timeout",
            Code::StoreDown => "store_unavailable",
            Code::Failed => "failed",
        }
    }

    /// Returns the status of the response.
    pub fn status(self) -> StatusCode {
        match self {
            Code::InFlight | Code::Unknown | Code::NotStored | Code::Stale => StatusCode::CONFLICT,
            Code::Mismatch => StatusCode::UNPROCESSABLE_ENTITY,
            Code::OverQuota => StatusCode::TOO_MANY_REQUESTS,
            Code::Unidentified => StatusCode::BAD_REQUEST,
            Code::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Code::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Code::StoreDown => StatusCode::SERVICE_UNAVAILABLE,
            Code::Failed => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// Returns what happened, and what to do next.
    fn words(self, language: Language) -> (&'static str, &'static str) {
        match (self, language) {
            (Code::InFlight, Language::English) => (
                "The request is being processed",
                "The same request has come before, and its work is not done yet. Repeat it in a moment to get its answer.",
            ),
            (Code::InFlight, Language::Spanish) => (
                "La petición se está procesando",
                "Ya llegó la misma petición y su trabajo no ha terminado. Repítala en un momento para obtener su respuesta.",
            ),
            (Code::Mismatch, Language::English) => (
                "The key belongs to another request",
                "This key was used with other content, and nothing was done. Use a new key for a new request.",
            ),
            (Code::Mismatch, Language::Spanish) => (
                "La clave pertenece a otra petición",
                "Esta clave se usó con otro contenido, y no se hizo nada. Use una clave nueva para una petición nueva.",
            ),
            (Code::Unknown, Language::English) => (
                "It is not known whether the request was carried out",
                "An earlier run of this request vanished half-way. Look for its effects before it is sent with a new key.",
            ),
            (Code::Unknown, Language::Spanish) => (
                "No se sabe si la petición se llevó a cabo",
                "Una ejecución anterior de esta petición se interrumpió a medias. Compruebe sus efectos antes de enviarla con una clave nueva.",
            ),
            (Code::NotStored, Language::English) => (
                "The request was carried out before",
                "Its answer was not stored and cannot be repeated. Look for its effects.",
            ),
            (Code::NotStored, Language::Spanish) => (
                "La petición ya se llevó a cabo",
                "Su respuesta no se guardó y no puede repetirse. Compruebe sus efectos.",
            ),
            (Code::Stale, Language::English) => (
                "The answer came too late",
                "Another run of the same request counts. Repeat it to get its answer.",
            ),
            (Code::Stale, Language::Spanish) => (
                "La respuesta llegó demasiado tarde",
                "Cuenta otra ejecución de la misma petición. Repítala para obtener su respuesta.",
            ),
            (Code::OverQuota, Language::English) => (
                "Too many live keys",
                "You have as many live keys as you may. Wait until some of them are over.",
            ),
            (Code::OverQuota, Language::Spanish) => (
                "Demasiadas claves vivas",
                "Tiene tantas claves vivas como se permiten. Espere a que venzan algunas.",
            ),
            (Code::Unidentified, Language::English) => (
                "The request cannot be told from others",
                "Send the key, and a body that is what its content type says and can be read in one way only.",
            ),
            (Code::Unidentified, Language::Spanish) => (
                "La petición no puede distinguirse de otras",
                "Envíe la clave, y un cuerpo que sea lo que dice su tipo de contenido y que solo pueda leerse de una manera.",
            ),
            (Code::TooLarge, Language::English) => {
                ("The body is too large", "Send less at a time.")
            }
            (Code::TooLarge, Language::Spanish) => {
                ("El cuerpo es demasiado grande", "Envíe menos de una vez.")
            }
            (Code::TooSlow, Language::English) => (
                "The request came too slowly",
                "Nothing was done. Send it again, whole.",
            ),
            (Code::TooSlow, Language::Spanish) => (
                "La petición llegó demasiado despacio",
                "No se hizo nada. Envíela de nuevo, entera.",
            ),
            (Code::StoreDown, Language::English) => (
                "Duplicates cannot be told apart right now",
                "The store does not answer, and nothing was done. Repeat the request in a moment.",
            ),
            (Code::StoreDown, Language::Spanish) => (
                "Ahora no pueden distinguirse los duplicados",
                "El almacén no responde, y no se hizo nada. Repita la petición en un momento.",
            ),
            (Code::Failed, Language::English) => (
                "The request failed",
                "It is not known what was done. Look for its effects.",
            ),
            (Code::Failed, Language::Spanish) => (
                "La petición falló",
                "No se sabe qué se hizo. Compruebe sus efectos.",
            ),
        }
    }
}

/// Returns the client's preferred language among the supported ones.
pub fn language(headers: &HeaderMap) -> Language {
    // The first supported one: `q` weights are ignored.
    let wanted = headers
        .get(ACCEPT_LANGUAGE)
        .and_then(|value| value.to_str().ok());
    for one in wanted.unwrap_or_default().split(',') {
        let tag = one.split([';', '-']).next().unwrap_or_default().trim();
        if tag.eq_ignore_ascii_case("es") {
            return Language::Spanish;
        }
        if tag.eq_ignore_ascii_case("en") {
            return Language::English;
        }
    }
    Language::English
}

/// A problem response.
pub(super) struct Problem {
    pub(super) code: Code,
    pub(super) language: Language,
    /// Specific reason, if it says more than the code; in English.
    pub(super) reason: Option<String>,
    pub(super) field: Option<String>,
    pub(super) retry_after: Option<Duration>,
    /// Key of the request in the store, by which an operator finds it.
    pub(super) key: Option<String>,
}

impl Problem {
    pub(super) fn new(code: Code, language: Language) -> Self {
        Problem {
            code,
            language,
            reason: None,
            field: None,
            retry_after: None,
            key: None,
        }
    }

    pub(super) fn into_response<B>(self) -> Response<Carried<B>> {
        let (title, next) = self.code.words(self.language);
        let status = self.code.status();
        // Reasons are in English only. A Spanish response has the translated detail, and the reason in a field of its own.
        let (detail, reason) = match (self.reason, self.language) {
            (Some(reason), Language::English) => (reason, None),
            (reason, _) => (next.to_owned(), reason),
        };
        let mut body = json!({
            "type": "about:blank",
            "title": title,
            "status": status.as_u16(),
            "code": self.code.as_str(),
            "detail": detail,
        });
        if let Some(reason) = reason {
            body["reason"] = reason.into();
        }
        if let Some(field) = &self.field {
            body["field"] = field.as_str().into();
        }
        if let Some(key) = &self.key {
            body["key"] = key.as_str().into();
        }
        if let Some(retry_after) = self.retry_after {
            body["retry_after_ms"] = (retry_after.as_millis() as u64).into();
        }
        let mut response = Response::new(Carried::whole(Bytes::from(body.to_string())));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(
            CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        headers.insert(
            CONTENT_LANGUAGE,
            HeaderValue::from_static(match self.language {
                Language::English => "en",
                Language::Spanish => "es",
            }),
        );
        if let Some(retry_after) = self.retry_after {
            // Whole seconds, rounded up, at least 1.
            let seconds = retry_after.as_secs() + u64::from(retry_after.subsec_nanos() > 0);
            headers.insert(RETRY_AFTER, seconds.max(1).into());
        }
        response
    }
}
