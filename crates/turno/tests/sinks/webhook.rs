//! Webhooks: what is posted, in which order, and to which addresses.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use tokio::sync::Semaphore;
use turno::sink::{Outgoing, PublishResult, Sink, SinkOptions, Webhook, from_url};

use crate::hook::{Hook, Reply, Request};
use crate::{LONG, event};

pub const OK: Reply = Reply::Answer("204 No Content", "");
pub const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const OTHER: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

pub fn to(hook: &Hook) -> Webhook {
    Webhook::new(&hook.url()).unwrap().allow_private(true)
}

fn full() -> Outgoing {
    Outgoing {
        key: Some("zürich 7".to_owned()),
        correlation_id: Some("a1b2".to_owned()),
        traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned()),
        tracestate: Some("congo=t61rcWkgMzE".to_owned()),
        headers: BTreeMap::from([("tenant".to_owned(), "7".to_owned())]),
        emitted_at: "2026-02-03T04:05:06.789Z".parse().unwrap(),
        payload: r#"{"price": 1.10}"#.to_owned(),
        possible_duplicate: true,
        ..event("TicketCreatedEvent")
    }
}

/// Returns the signature that a receiver computes from the received request.
fn signature(request: &Request, secret: &str) -> String {
    let key = STANDARD
        .decode(secret.strip_prefix("whsec_").unwrap())
        .unwrap();
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).unwrap();
    let (id, at) = (
        request.header("webhook-id"),
        request.header("webhook-timestamp"),
    );
    mac.update(format!("{id}.{at}.").as_bytes());
    mac.update(&request.body);
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

#[tokio::test]
async fn an_event_is_a_signed_cloud_event() {
    let hook = Hook::always(OK).await;
    let sink = to(&hook)
        .secret(SECRET)
        .unwrap()
        .secret(OTHER)
        .unwrap()
        .source("https://tickets.example");
    sink.ready().await.unwrap();
    let event = full();
    assert_eq!(
        sink.publish(std::slice::from_ref(&event)).await,
        [PublishResult::Sent]
    );

    let seen = hook.seen();
    let [request] = &seen[..] else {
        panic!("{seen:?}");
    };
    assert_eq!(
        request.line,
        "POST /hooks/s3cret-path?token=s3cret-query HTTP/1.1"
    );
    let id = event.id.to_string();
    assert_eq!(
        String::from_utf8_lossy(&request.body),
        format!(
            r#"{{"specversion":"1.0","id":"{id}","source":"https://tickets.example","type":"TicketCreatedEvent","time":"2026-02-03T04:05:06.789Z","subject":"zürich 7","datacontenttype":"application/json","correlationid":"a1b2","traceparent":"{}","tracestate":"congo=t61rcWkgMzE","data":{{"price": 1.10}}}}"#,
            event.traceparent.as_ref().unwrap()
        )
    );
    assert_eq!(
        request.header("content-type"),
        "application/cloudevents+json; charset=UTF-8"
    );
    assert_eq!(request.header("idempotency-key"), id);
    assert_eq!(request.header("webhook-id"), id);
    assert_eq!(request.header("x-event-tenant"), "7");
    assert_eq!(request.header("x-possible-duplicate"), "true");
    assert_eq!(
        request.header("traceparent"),
        event.traceparent.as_ref().unwrap()
    );
    let at: i64 = request.header("webhook-timestamp").parse().unwrap();
    assert!((turno::clock::machine().as_second() - at).abs() < 60);
    // Two secrets, two signatures: a receiver that has either secret accepts the request.
    let both = format!(
        "{} {}",
        signature(request, SECRET),
        signature(request, OTHER)
    );
    assert_eq!(request.header("webhook-signature"), both);
}

#[tokio::test]
async fn attributes_can_be_headers() {
    let hook = Hook::always(OK).await;
    let sink = to(&hook).secret(SECRET).unwrap().binary();
    let event = full();
    let bare = crate::event("ThingEvent");
    let results = sink.publish(std::slice::from_ref(&event)).await;
    assert_eq!(results, [PublishResult::Sent]);
    assert_eq!(sink.publish(&[bare]).await, [PublishResult::Sent]);
    let seen = hook.seen();
    let request = &seen[0];
    assert_eq!(request.body, event.payload.as_bytes());
    for (name, value) in [
        ("content-type", "application/json"),
        ("ce-specversion", "1.0"),
        ("ce-id", &event.id.to_string()),
        ("ce-source", "turno"),
        ("ce-type", "TicketCreatedEvent"),
        ("ce-time", "2026-02-03T04:05:06.789Z"),
        ("ce-subject", "z%C3%BCrich%207"),
        ("ce-correlationid", "a1b2"),
        ("webhook-signature", &signature(request, SECRET)),
    ] {
        assert_eq!(request.header(name), value, "{name}");
    }
    assert!(!seen[1].headers.contains_key("ce-subject"));
    assert!(!seen[1].headers.contains_key("x-possible-duplicate"));
}

#[tokio::test]
async fn private_addresses_are_not_called() {
    let hook = Hook::always(OK).await;
    let port = hook.port();
    for host in [
        "127.0.0.1",
        "localhost",
        "2130706433",
        "[::ffff:127.0.0.1]",
        "0.0.0.0",
    ] {
        let url = format!("http://{host}:{port}/");
        let sink = from_url(&url, &SinkOptions::default()).unwrap();
        let said = sink.ready().await.unwrap_err().to_string();
        assert!(said.contains("not a public one"), "{said}");
        let results = sink.publish(&[event("ThingEvent")]).await;
        let PublishResult::Unsent(outage) = &results[0] else {
            panic!("{results:?}");
        };
        assert!(outage.to_string().contains("not a public one"), "{outage}");
    }
    assert_eq!(hook.seen().len(), 0);
    // The control: the same name is called if private addresses are allowed.
    let mut options = SinkOptions::default();
    options.allow_private = true;
    let sink = from_url(&format!("http://localhost:{port}/"), &options).unwrap();
    sink.ready().await.unwrap();
    assert_eq!(
        sink.publish(&[event("ThingEvent")]).await,
        [PublishResult::Sent]
    );
}

#[tokio::test]
async fn events_of_one_key_go_one_after_the_other_and_others_at_the_same_time() {
    // No response is sent before four requests have arrived concurrently, one per key.
    let crowd = Arc::new(Semaphore::new(0));
    let inside = Arc::new(Mutex::new((0, HashSet::new())));
    let hook = Hook::start({
        let (crowd, inside) = (crowd.clone(), inside.clone());
        move |request: Request| {
            let (crowd, inside) = (crowd.clone(), inside.clone());
            async move {
                let key = request.header("ce-subject").to_owned();
                {
                    let (arrived, keys) = &mut *inside.lock().unwrap();
                    assert!(keys.insert(key.clone()), "two of one key");
                    *arrived += 1;
                    if *arrived == 4 {
                        crowd.add_permits(1_000);
                    }
                }
                crowd.acquire().await.unwrap().forget();
                inside.lock().unwrap().1.remove(&key);
                OK
            }
        }
    })
    .await;
    let sink = to(&hook).binary();
    let events: Vec<_> = (0..100)
        .map(|place| Outgoing {
            key: Some(format!("key-{}", place % 4)),
            ..event("ThingEvent")
        })
        .collect();
    let publishing = tokio::time::timeout(LONG, sink.publish(&events));
    let results = publishing.await.expect("four at the same time");
    assert!(
        results.iter().all(|result| *result == PublishResult::Sent),
        "{results:?}"
    );
    for key in 0..4 {
        let key = format!("key-{key}");
        let of_key = |name: &str| name == key;
        let sent = events
            .iter()
            .filter(|event| of_key(event.key.as_ref().unwrap()));
        let sent: Vec<_> = sent.map(|event| event.id.to_string()).collect();
        let seen = hook.seen();
        let arrived = seen
            .iter()
            .filter(|request| of_key(request.header("ce-subject")));
        let arrived: Vec<_> = arrived.map(|request| request.header("ce-id")).collect();
        assert_eq!(arrived, sent);
    }
}

#[tokio::test]
async fn what_http_cannot_say_is_refused_alone() {
    let hook = Hook::always(OK).await;
    let odd = Outgoing {
        headers: BTreeMap::from([("two words".to_owned(), String::new())]),
        ..event("ThingEvent")
    };
    let broken = Outgoing {
        payload: "{".to_owned(),
        ..event("ThingEvent")
    };
    let results = to(&hook).publish(&[odd, broken, event("ThingEvent")]).await;
    assert!(
        matches!(&results[0], PublishResult::Refused(said) if said.contains("two words")),
        "{results:?}"
    );
    assert!(
        matches!(&results[1], PublishResult::Refused(said) if said.contains("no JSON")),
        "{results:?}"
    );
    assert_eq!(results[2], PublishResult::Sent);
    assert_eq!(hook.seen().len(), 1);
}
