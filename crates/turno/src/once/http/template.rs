//! A configured response with values of the request.

use std::ops::Range;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Response, StatusCode};

use super::Carried;
use crate::error::{Error, Result};
use crate::once::json::{Node, Value, parse};
use crate::once::pointer::pointer;

/// Key of an object that is replaced by a value of the request.
const REQUEST: &str = "$request";

/// A response whose body is JSON, in which `{"$request": "/tipoPrestacion"}` is replaced by the value that this JSON pointer
/// refers to in the request's body, or by `null` if there is none.
///
/// ```
/// use turno::once::http::Template;
///
/// let template = Template::new(200, r#"{"resultadoOperacion": "02", "tipoPrestacion": {"$request": "/tipoPrestacion"}}"#)?;
/// # Ok::<_, turno::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Template {
    status: StatusCode,
    headers: Vec<(HeaderName, HeaderValue)>,
    text: String,
    /// Ranges of the placeholders, and their pointers.
    holes: Vec<(Range<usize>, String)>,
}

impl Template {
    /// Creates a template with this status and this body.
    ///
    /// # Errors
    /// Returns an error if the status is invalid, the body is not JSON, or a pointer is invalid.
    ///
    /// ```
    /// use turno::once::http::{InFlight, Policy, Template};
    ///
    /// let busy = Template::new(200, r#"{"result": "in progress", "loan": {"$request": "/loan"}}"#)?;
    /// let policy = Policy::new("pagos").in_flight(InFlight::Template(busy));
    /// assert!(Template::new(200, "in progress").is_err()); // not JSON
    /// # Ok::<_, turno::Error>(())
    /// ```
    pub fn new(status: u16, body: impl Into<String>) -> Result<Self> {
        let text = body.into();
        let wrong = |error: Error| Error::invalid("template", format!("template: {error}"));
        // A status below 200 is not a final response.
        let known = StatusCode::from_u16(status).ok();
        let known = known.filter(|known| (200..600).contains(&known.as_u16()));
        let status = known.ok_or_else(|| {
            Error::invalid(
                "template",
                format!("template has the status {status}, and must have one between 200 and 599"),
            )
        })?;
        let root = parse(text.as_bytes()).map_err(wrong)?;
        let mut holes = Vec::new();
        find(&text, &root, &mut holes);
        holes.sort_by_key(|(range, _)| range.start);
        for (_, path) in &holes {
            pointer(b"null", path).map_err(wrong)?;
        }
        Ok(Template {
            status,
            headers: vec![(CONTENT_TYPE, HeaderValue::from_static("application/json"))],
            text,
            holes,
        })
    }

    /// Sets a header. A content type replaces `application/json`.
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.retain(|(known, _)| *known != name);
        self.headers.push((name, value));
        self
    }

    /// Returns the response to a request with this body.
    pub(super) fn fill<B>(&self, body: &[u8]) -> Response<Carried<B>> {
        let mut filled = String::with_capacity(self.text.len());
        let mut from = 0;
        for (hole, path) in &self.holes {
            filled.push_str(&self.text[from..hole.start]);
            // A body that is not JSON has no values.
            let value = pointer(body, path).ok().flatten();
            let value = value.and_then(|value| std::str::from_utf8(value).ok());
            filled.push_str(value.unwrap_or("null"));
            from = hole.end;
        }
        filled.push_str(&self.text[from..]);
        let mut response = Response::new(Carried::whole(Bytes::from(filled)));
        *response.status_mut() = self.status;
        response.headers_mut().extend(self.headers.iter().cloned());
        response
    }
}

/// Finds the placeholders.
fn find(text: &str, node: &Node, holes: &mut Vec<(Range<usize>, String)>) {
    match &node.value {
        Value::Array(nodes) => nodes.iter().for_each(|node| find(text, node, holes)),
        Value::Object(members) => {
            if let [member] = members.as_slice()
                && member.key == REQUEST
                && let Ok(pointer) = serde_json::from_str(&text[member.node.range.clone()])
            {
                holes.push((node.range.clone(), pointer));
                return;
            }
            members
                .iter()
                .for_each(|member| find(text, &member.node, holes));
        }
        Value::Plain | Value::Escaped(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use http_body::Body as _;
    use http_body_util::{BodyExt, Full};

    use super::*;

    fn filled(template: &str, body: &str) -> String {
        let template = Template::new(200, template).unwrap();
        let response: Response<Carried<Full<Bytes>>> = template.fill(body.as_bytes());
        assert_eq!(response.headers()["content-type"], "application/json");
        let length = response.body().size_hint().exact().unwrap();
        let body = futures_util::FutureExt::now_or_never(response.into_body().collect());
        let body = body.unwrap().unwrap().to_bytes();
        assert_eq!(length, body.len() as u64);
        String::from_utf8(body.to_vec()).unwrap()
    }

    #[test]
    fn values_of_the_request_are_copied_as_they_are_written() {
        let template = r#"{"a": "02", "b": {"$request": "/x/1"}, "c": [{"$request": "/none"}, {"$request": ""}]}"#;
        assert_eq!(
            filled(template, r#"{"x": [0, 1.00e2]}"#),
            r#"{"a": "02", "b": 1.00e2, "c": [null, {"x": [0, 1.00e2]}]}"#
        );
        assert_eq!(
            filled(r#"{"a": {"$request": "/s"}}"#, r#"{"s": "\",\"x\":\"y"}"#),
            r#"{"a": "\",\"x\":\"y"}"#,
            "a value stays a value"
        );
        assert_eq!(
            filled(r#"{"a": {"$request": "/s"}}"#, "no json"),
            r#"{"a": null}"#
        );
        assert_eq!(
            filled(r#"{"a": {"$request": "/s", "b": 1}, "$request": 1}"#, "{}"),
            r#"{"a": {"$request": "/s", "b": 1}, "$request": 1}"#,
            "other objects are as they are"
        );
    }

    #[test]
    fn a_bad_template_is_refused() {
        for (status, body) in [
            (20, "{}"),
            (101, "{}"),
            (600, "{}"),
            (200, "{"),
            (200, r#"{"$request": "no-slash"}"#),
        ] {
            let error = Template::new(status, body).unwrap_err();
            assert_eq!(error.field(), Some("template"), "{body}");
        }
    }
}
