//! Conversion of a response to its stored form and back.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use serde::{Deserialize, Serialize};

use super::Carried;
use crate::error::{Error, Kind, Result};

/// A stored response: status, selected headers, and body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredResponse {
    /// Status code.
    pub status: u16,
    /// Names and values, in order.
    #[serde(default)]
    pub headers: Vec<(String, String)>,
    /// Body, if it is UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// Body in base64, if it is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
}

impl StoredResponse {
    /// Creates it from a response, with the headers in `kept`.
    pub fn new(status: StatusCode, headers: &HeaderMap, kept: &[HeaderName], body: &[u8]) -> Self {
        let headers = kept
            .iter()
            .flat_map(|name| {
                headers.get_all(name).iter().filter_map(|value| {
                    // A value that is not text cannot be stored as JSON. Such values do not occur in practice.
                    Some((name.to_string(), value.to_str().ok()?.to_owned()))
                })
            })
            .collect();
        let (body, base64) = match std::str::from_utf8(body) {
            Ok(text) => (Some(text.to_owned()), None),
            Err(_) => (None, Some(BASE64.encode(body))),
        };
        StoredResponse {
            status: status.as_u16(),
            headers,
            body,
            base64,
        }
    }

    /// Converts it to a response. Public for the fuzz targets.
    #[doc(hidden)]
    pub fn into_response<B>(self) -> Result<Response<Carried<B>>> {
        let damaged = |what: &str| {
            Error::new(
                Kind::Broken,
                format!("a stored answer has {what} that cannot be sent: forget its key"),
            )
        };
        let body = match (self.body, self.base64) {
            (Some(text), _) => Bytes::from(text),
            (None, Some(encoded)) => BASE64
                .decode(encoded)
                .map_err(|_| damaged("a body"))?
                .into(),
            (None, None) => Bytes::new(),
        };
        let mut response = Response::new(Carried::whole(body));
        *response.status_mut() =
            StatusCode::from_u16(self.status).map_err(|_| damaged("a status"))?;
        for (name, value) in self.headers {
            let name: HeaderName = name.parse().map_err(|_| damaged("a header"))?;
            let value: HeaderValue = value.parse().map_err(|_| damaged("a header"))?;
            response.headers_mut().append(name, value);
        }
        Ok(response)
    }
}
