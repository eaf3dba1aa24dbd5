//! Webhooks: what a response means, and what no response means.

use std::time::Duration;

use turno::sink::{PublishResult, Sink};

use crate::hook::{Hook, Reply, Request};
use crate::webhook::{OK, SECRET, to};
use crate::{LONG, event, outage};

async fn result_of(reply: Reply) -> PublishResult {
    let hook = Hook::always(reply).await;
    let sink = to(&hook).timeout(Duration::from_secs(5));
    let mut results = sink.publish(&[event("ThingEvent")]).await;
    results.remove(0)
}

#[tokio::test]
async fn answers_mean_what_they_say() {
    for status in ["200 OK", "201 Created", "202 Accepted", "204 No Content"] {
        assert_eq!(
            result_of(Reply::Answer(status, "")).await,
            PublishResult::Sent
        );
    }
    for status in [
        "408 Request Timeout",
        "425 Too Early",
        "429 Too Many Requests\r\nretry-after: 120",
        "502 Bad Gateway",
        "503 Service Unavailable",
        "504 Gateway Timeout",
    ] {
        let result = result_of(Reply::Answer(status, "later")).await;
        let PublishResult::Doubtful(outage) = &result else {
            panic!("{status}: {result:?}");
        };
        assert!(outage.to_string().contains(&status[..3]), "{outage}");
        let asked = outage.to_string().contains("Retry-After: 120");
        assert_eq!(asked, status.starts_with("429"), "{outage}");
    }
    for (status, body, said) in [
        (
            "400 Bad Request",
            "no\n  such   thing",
            "answered 400 Bad Request: no such thing",
        ),
        ("404 Not Found", "", "answered 404 Not Found"),
        ("410 Gone", "", "answered 410 Gone"),
        (
            "500 Internal Server Error",
            "oops",
            "answered 500 Internal Server Error: oops",
        ),
        ("501 Not Implemented", "", "answered 501 Not Implemented"),
    ] {
        let result = result_of(Reply::Answer(status, body)).await;
        assert_eq!(result, PublishResult::Refused(said.to_owned()));
    }
}

#[tokio::test]
async fn an_answer_without_an_end_is_not_read_to_its_end() {
    let PublishResult::Refused(said) = result_of(Reply::Endless("500 Internal Server Error")).await
    else {
        panic!("it was refused");
    };
    assert!(said.contains("xxx") && said.chars().count() < 400, "{said}");
    assert_eq!(
        result_of(Reply::Endless("200 OK")).await,
        PublishResult::Sent
    );
}

#[tokio::test]
async fn redirects_are_refused_and_not_followed() {
    let hook = Hook::start(
        async |request: Request| match request.line.contains("elsewhere") {
            true => OK,
            false => Reply::Answer("307 Temporary Redirect\r\nlocation: /elsewhere", ""),
        },
    )
    .await;
    let results = to(&hook).publish(&[event("ThingEvent")]).await;
    let PublishResult::Refused(said) = &results[0] else {
        panic!("{results:?}");
    };
    assert!(
        said.contains("307") && said.contains("redirects are not followed"),
        "{said}"
    );
    assert_eq!(hook.seen().len(), 1);
}

#[tokio::test]
async fn silence_is_doubtful_and_spares_the_others_the_wait() {
    let hook = Hook::always(Reply::Hang).await;
    let sink = to(&hook).timeout(Duration::from_millis(300)).concurrency(4);
    let events: Vec<_> = (0..50).map(|_| event("ThingEvent")).collect();
    let results = sink.publish(&events).await;
    let doubtful = results
        .iter()
        .filter(|result| matches!(result, PublishResult::Doubtful(_)));
    assert!((1..=8).contains(&doubtful.count()), "{results:?}");
    assert!(
        results.iter().all(|result| outage(result).is_some()),
        "{results:?}"
    );
    let said = outage(&results[0]).unwrap();
    assert!(said.contains("does not answer within 300ms"), "{said}");

    let hook = Hook::always(Reply::Close).await;
    let results = to(&hook).publish(&[event("ThingEvent")]).await;
    assert!(
        matches!(results[..], [PublishResult::Doubtful(_)]),
        "{results:?}"
    );
}

#[tokio::test]
async fn an_absent_receiver_is_unsent_and_secrets_are_not_shown() {
    let hook = Hook::always(OK).await;
    let sink = to(&hook).secret(SECRET).unwrap();
    let port = hook.port().to_string();
    drop(hook);
    let said = turno_testkit::eventually_async(LONG, "the server to go", async || {
        sink.ready().await.err()
    })
    .await;
    let results = sink.publish(&[event("ThingEvent")]).await;
    assert!(
        matches!(results[..], [PublishResult::Unsent(_)]),
        "{results:?}"
    );
    let outage_text = outage(&results[0]).unwrap();
    let shown = format!("{said} {outage_text} {sink:?} {}", sink.name());
    assert!(shown.contains(&port), "{shown}");
    assert!(
        !shown.contains("s3cret") && !shown.contains("MfKQ"),
        "{shown}"
    );
    assert_eq!(sink.name(), format!("webhook at http://127.0.0.1:{port}"));
}
