//! Policies in shadow mode or off, and the contract of a legacy service.

use turno::once::http::{InFlight, Routes, Switch, Template, Unknown};
use turno::once::{OnceList, OnceState};
use turno_testkit::eventually_async;

use crate::common::{LONG, Running, by_content, send};
use crate::service::{Service, whole};

fn routes(switch: Switch) -> Routes {
    Routes::new()
        .add("/certificacion", by_content().switch(switch))
        .unwrap()
}

#[tokio::test]
async fn in_shadow_it_counts_and_changes_nothing() {
    let (service, mut heard) = Service::counting().await;
    let gate = Running::start(service.address, routes(Switch::Shadow)).await;
    for n in 1..=3 {
        let response = gate.post("/certificacion", "any").await;
        assert_eq!(
            (response.status.as_u16(), &response.json()["n"]),
            (200, &n.into())
        );
        assert!(response.headers.get("idempotency-replayed").is_none());
        let request = heard.recv().await.unwrap();
        assert!(request.headers().get("turno-fence").is_none());
        // Shadow mode works in the background, and the next request must find what this one left.
        eventually_async(LONG, "the shadow to have looked", async || {
            let counts = gate.gate.counts();
            (counts.fresh + counts.shadowed == n).then_some(())
        })
        .await;
    }
    let counts = gate.gate.counts();
    assert_eq!((counts.fresh, counts.shadowed), (1, 2));
    assert_eq!(counts.in_flight + counts.replayed, 2);
}

/// After a change from shadow to on, a request is not treated as a repetition of work whose answer was not stored.
#[tokio::test]
async fn what_a_shadow_saw_does_not_count_when_the_policy_is_on() {
    let (service, _heard) = Service::counting().await;
    let shadow = Running::start(service.address, routes(Switch::Shadow)).await;
    let response = shadow.post("/certificacion", "any").await;
    assert_eq!(response.json()["n"], 1);
    let turno = shadow.turno.clone();
    eventually_async(LONG, "the shadow to have ended", async || {
        let keys = turno.once_list(OnceList::default()).await.unwrap();
        (keys.first()?.state == OnceState::Done).then_some(())
    })
    .await;
    let on = Running::start_on(turno, service.address, routes(Switch::On)).await;
    assert_eq!(on.post("/certificacion", "any").await.json()["n"], 2);
    assert_eq!(
        on.post("/certificacion", "any").await.json()["n"],
        2,
        "and now it counts"
    );
}

#[tokio::test]
async fn off_is_as_if_it_were_not_there() {
    let (service, _heard) = Service::counting().await;
    let gate = Running::start(service.address, routes(Switch::Off)).await;
    for n in 1..=2 {
        assert_eq!(gate.post("/certificacion", "any").await.json()["n"], n);
    }
    assert_eq!(gate.gate.counts(), Default::default());
}

#[tokio::test]
async fn a_request_without_identity_does_not_pass() {
    let (service, mut heard) = Service::counting().await;
    let policy = by_content()
        .max_body(100)
        .unknown(Unknown::Rerun)
        .in_flight(InFlight::Template(Template::new(200, "{}").unwrap()));
    let routes = Routes::new().add("/certificacion", policy).unwrap();
    let gate = Running::start(service.address, routes).await;
    let deep = "[".repeat(70);
    for (body, status, code) in [
        ("{", 400, "unidentified"),
        (r#"{"a": 1, "a": 2}"#, 400, "unidentified"),
        (deep.as_str(), 400, "unidentified"),
        (&" ".repeat(101), 413, "too_large"),
    ] {
        for language in ["en", "es"] {
            let request = gate
                .keyed("/certificacion", "any")
                .header("content-type", "application/json; charset=utf-8")
                .header("accept-language", language);
            let response = send(request.body(whole(body.to_owned())).unwrap()).await;
            let problem = response.problem(status, code);
            assert_eq!(response.headers["content-language"], language);
            let detail = problem["detail"].as_str().unwrap();
            let is_spanish = detail.starts_with("Envíe");
            assert_eq!(is_spanish, language == "es", "{problem}");
        }
    }
    assert!(heard.try_recv().is_err(), "nothing reached the service");
}
