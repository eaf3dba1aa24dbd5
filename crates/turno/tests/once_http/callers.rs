//! Callers of requests: a caller never gets the answer of another, and a request without a caller is rejected.

use axum::body::Body;
use axum::extract::Request;
use axum::http::request::Builder;
use axum::http::{HeaderName, HeaderValue, header};
use turno::once::http::{Fails, KeyFrom, Policy};

use crate::kit::{Site, problem, run_number};

const USER: HeaderName = HeaderName::from_static("x-user");

fn by_key() -> Policy {
    Policy::new("pagos")
}

fn by_content() -> Policy {
    Policy::new("pagos").key(KeyFrom::Content)
}

fn whole(request: Builder) -> Request {
    let request = request.header("idempotency-key", "77");
    request.body(Body::from("the same")).unwrap()
}

fn from(name: &'static str, value: &'static str) -> Builder {
    Request::post("/pagos").header(name, value)
}

/// Checks that each of these callers gets its own answer, with a key and by content.
async fn each_has_its_own(policy: impl Fn() -> Policy, callers: &[fn() -> Builder]) {
    for key in [
        KeyFrom::Content,
        KeyFrom::Header("idempotency-key".parse().unwrap()),
    ] {
        let site = Site::new(policy().key(key), run_number).await;
        for (place, caller) in callers.iter().enumerate() {
            let response = site.send(whole(caller())).await;
            response.assert_fresh(&format!("run {}", place + 1));
        }
        for (place, caller) in callers.iter().enumerate() {
            let response = site.send(whole(caller())).await;
            response.assert_replayed(&format!("run {}", place + 1));
        }
    }
}

#[tokio::test]
async fn a_request_that_does_not_say_who_sends_it_is_refused() {
    let plain = || Request::post("/pagos");
    let cookie = || from("cookie", "session=ana");
    for (number, (policy, request, field)) in [
        (by_content(), plain(), "principal"),
        (by_content(), cookie(), "principal"),
        (by_content(), from("authorization", ""), "principal"),
        // Its users differ by their cookies, and no cookie is configured as the principal.
        (by_key(), cookie(), "principal"),
        (by_key().principal([USER]), plain(), "principal"),
        (by_key().principal([USER]), from("x-user", " "), "principal"),
        (by_key().principal([]), from("x-user", "ana"), "principal"),
        (
            by_key().principal([USER, header::AUTHORIZATION]),
            from("x-user", "ana"),
            "principal",
        ),
        (by_key().principal_cookie("sid"), cookie(), "principal"),
        (by_key().principal_from(|_| None), plain(), "principal"),
        (by_key().tenant([USER]), plain(), "tenant"),
        (by_key().tenant([header::HOST]), plain(), "tenant"),
    ]
    .into_iter()
    .enumerate()
    {
        let site = Site::new(policy, run_number).await;
        let response = site.send(whole(request)).await;
        assert_eq!(response.problem(), problem(400, "unidentified"), "{number}");
        assert_eq!(response.json()["field"], field, "{number}: {response:?}");
        assert_eq!((site.runs(), site.counts().unidentified), (0, 1));
    }
}

#[tokio::test]
async fn a_policy_can_do_without_a_principal() {
    for policy in [
        by_key(),
        by_key().no_principal(),
        by_content().no_principal(),
    ] {
        let site = Site::new(policy, run_number).await;
        let request = || whole(Request::post("/pagos"));
        site.send(request()).await.assert_fresh("run 1");
        site.send(request()).await.assert_replayed("run 1");
    }
    let site = Site::new(by_content().no_principal(), run_number).await;
    site.send(whole(from("cookie", "session=ana")))
        .await
        .assert_fresh("run 1");
    // This is the effect of `no_principal`, and why it must be configured explicitly.
    site.send(whole(from("cookie", "session=eva")))
        .await
        .assert_replayed("run 1");
}

/// A request that passes although it is unidentified is processed each time, and gets no answer of another caller.
#[tokio::test]
async fn what_is_let_through_meets_nothing() {
    let site = Site::new(by_content().unidentified(Fails::Open), run_number).await;
    for run in 1..=2 {
        let response = site.send(whole(from("cookie", "session=ana"))).await;
        response.assert_fresh(&format!("run {run}"));
    }
}

#[tokio::test]
async fn users_that_differ_by_their_cookie_do_not_meet() {
    each_has_its_own(
        || Policy::new("pagos").principal_cookie("session"),
        &[
            || from("cookie", "theme=dark; session=ana"),
            || from("cookie", "theme=dark; session=eva"),
        ],
    )
    .await;
}

/// The effective host is that of the target, in HTTP/2 and in the absolute form; the header `Host` is used only without it.
#[tokio::test]
async fn hosts_do_not_meet() {
    let policy = || Policy::new("pagos").no_principal().tenant([header::HOST]);
    each_has_its_own(
        policy,
        &[
            || from("host", "acme.example"),
            || Request::post("http://other.example/pagos").header("host", "acme.example"),
            || Request::post("http://third.example/pagos"),
        ],
    )
    .await;
    let site = Site::new(policy(), run_number).await;
    site.send(whole(from("host", "acme.example")))
        .await
        .assert_fresh("run 1");
    let absolute = Request::post("http://ACME.example/pagos").header("host", "x");
    site.send(whole(absolute)).await.assert_replayed("run 1");
}

/// Values that are not UTF-8 are compared as bytes.
#[tokio::test]
async fn values_that_are_no_text_do_not_meet() {
    fn from(user: &'static [u8]) -> Builder {
        Request::post("/pagos").header(USER, HeaderValue::from_bytes(user).unwrap())
    }
    let [one, other] = [b"Jos\xe9", b"Jos\xe8"].map(|user| String::from_utf8_lossy(user));
    assert_eq!(one, other, "the control: decoded, they are the same");
    let callers: [fn() -> Builder; 2] = [|| from(b"Jos\xe9"), || from(b"Jos\xe8")];
    each_has_its_own(|| Policy::new("pagos").principal([USER]), &callers).await;
    each_has_its_own(
        || Policy::new("pagos").no_principal().tenant([USER]),
        &callers,
    )
    .await;
}
