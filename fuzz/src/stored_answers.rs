//! Stored answers, as a damaged or changed database may contain them.

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::header::HeaderName;
use http_body_util::{BodyExt as _, Full};
use turno::once::AnswerKeys;
use turno::once::http::{Carried, StoredResponse};

/// What must hold for any bytes.
pub fn check(bytes: &[u8]) {
    response(bytes);
    if let Ok(text) = std::str::from_utf8(bytes) {
        sealed(text);
    }
}

/// An answer that can be sent is the same after it was stored again.
fn response(bytes: &[u8]) {
    let Ok(stored) = serde_json::from_slice::<StoredResponse>(bytes) else {
        return;
    };
    let Ok(response) = stored.into_response::<Full<Bytes>>() else {
        return;
    };
    let (head, body) = response.into_parts();
    let body = collect(body);
    let kept: Vec<HeaderName> = head.headers.keys().cloned().collect();
    let again = StoredResponse::new(head.status, &head.headers, &kept, &body);
    let text = serde_json::to_string(&again).expect("it can be written");
    let again: StoredResponse = serde_json::from_str(&text).expect("its own text");
    let (again, again_body) = again
        .into_response::<Full<Bytes>>()
        .expect("it was sent before")
        .into_parts();
    assert_eq!(again.status, head.status);
    assert_eq!(collect(again_body), body);
    for (name, value) in &head.headers {
        // A value with bytes above ASCII is not stored.
        if value.to_str().is_ok() {
            assert!(again.headers.get_all(name).iter().any(|kept| kept == value));
        }
    }
}

fn collect(body: Carried<Full<Bytes>>) -> Bytes {
    let collected = body
        .collect()
        .now_or_never()
        .expect("a stored body is there at once");
    collected.expect("it cannot fail").to_bytes()
}

/// An answer opens with its key, under its name, and unchanged; nothing else does.
fn sealed(text: &str) {
    let keys = AnswerKeys::new("a", [7; 32]).expect("a key");
    match keys.open("name", text.to_owned()) {
        Ok(opened) => assert_eq!(opened, text, "it was not sealed"),
        Err(error) => assert!(error.is_refused(), "{error}"),
    }
    let sealed = keys.seal("name", text).expect("it can be sealed");
    assert_eq!(keys.open("name", sealed.clone()).expect("its key"), text);
    assert!(keys.open("other", sealed).is_err());
}
