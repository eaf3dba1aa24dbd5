//! The sink for NATS JetStream.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use async_nats::jetstream::{self, stream};
use turno::sink::{Nats, Outgoing, PublishResult, Sink, SinkOptions, from_url};
use turno_testkit::{TcpProxy, eventually_async, server};

use crate::{LONG, event, outage, unique};

const PASSWORD: &str = "s3cret-p4ssword";

/// Returns the server that is shared by tests that do not damage it.
fn shared() -> &'static server::Nats {
    static SHARED: LazyLock<server::Nats> = LazyLock::new(|| server::Nats::start().unwrap());
    &SHARED
}

/// Creates a stream, and a subject prefix that it accepts.
async fn stream(url: &str, config: stream::Config) -> (stream::Stream, String) {
    let prefix = unique("shop");
    let context = jetstream::new(async_nats::connect(url).await.unwrap());
    let stream = context
        .create_stream(stream::Config {
            name: prefix.clone(),
            subjects: vec![format!("{prefix}.wanted.>")],
            ..config
        })
        .await
        .unwrap();
    (stream, prefix)
}

async fn count(stream: &mut stream::Stream) -> u64 {
    stream.info().await.unwrap().state.messages
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_has_all_headers_and_comes_once() {
    let (mut stream, prefix) = stream(&shared().url(), Default::default()).await;
    let sink = Nats::new(&shared().url()).unwrap().subject_prefix(&prefix);
    sink.ready().await.unwrap();
    let full = Outgoing {
        key: Some("ticket-7".to_owned()),
        correlation_id: Some("a1b2".to_owned()),
        traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned()),
        tracestate: Some("congo=t61rcWkgMzE".to_owned()),
        headers: BTreeMap::from([("tenant".to_owned(), "zürich".to_owned())]),
        possible_duplicate: true,
        ..event("WantedThingEvent")
    };
    for _ in 0..3 {
        assert_eq!(
            sink.publish(std::slice::from_ref(&full)).await,
            [PublishResult::Sent]
        );
    }
    assert_eq!(count(&mut stream).await, 1);
    let message = stream.get_raw_message(1).await.unwrap();
    assert_eq!(message.subject.as_str(), format!("{prefix}.wanted.thing"));
    assert_eq!(message.payload, full.payload.as_bytes());
    let headers: BTreeMap<_, _> = message
        .headers
        .iter()
        .map(|(name, values)| (name.to_string(), values[0].to_string()))
        .collect();
    let expected = BTreeMap::from(
        [
            ("CorrelationId", "a1b2"),
            ("Key", "ticket-7"),
            ("Nats-Msg-Id", &full.id.to_string()),
            ("Timestamp", &full.emitted_at.as_second().to_string()),
            ("Type", "WantedThingEvent"),
            ("tenant", "zürich"),
            ("traceparent", full.traceparent.as_ref().unwrap()),
            ("tracestate", "congo=t61rcWkgMzE"),
            ("x-possible-duplicate", "true"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned())),
    );
    assert_eq!(headers, expected);
    sink.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn exactly_what_no_stream_takes_is_refused() {
    let (mut stream, prefix) = stream(&shared().url(), Default::default()).await;
    let sink = Nats::new(&shared().url()).unwrap().subject_prefix(&prefix);
    let kind = |place| match place % 3 {
        0 => "LostThingEvent",
        _ => "WantedThingEvent",
    };
    let events: Vec<_> = (0..1_500).map(|place| event(kind(place))).collect();
    let results = sink.publish(&events).await;
    let refused = format!("no stream takes subject {prefix}.lost.thing");
    for (event, result) in events.iter().zip(&results) {
        match event.kind.as_str() {
            "WantedThingEvent" => assert_eq!(*result, PublishResult::Sent),
            _ => assert_eq!(*result, PublishResult::Refused(refused.clone())),
        }
    }
    assert_eq!(count(&mut stream).await, 1_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nats_will_not_have_is_refused_alone() {
    let full_after_two = stream::Config {
        max_messages: 2,
        discard: stream::DiscardPolicy::New,
        ..Default::default()
    };
    let (_, prefix) = stream(&shared().url(), full_after_two).await;
    let sink = Nats::new(&shared().url()).unwrap().subject_prefix(&prefix);
    let large = Outgoing {
        payload: format!("\"{}\"", "x".repeat(2 << 20)),
        ..event("WantedThingEvent")
    };
    let command = Outgoing {
        headers: BTreeMap::from([("Nats-Rollup".to_owned(), "all".to_owned())]),
        ..event("WantedThingEvent")
    };
    let events = [
        event("WantedThingEvent"),
        large,
        command,
        event("two words"),
        event("WantedThingEvent"),
        event("WantedThingEvent"),
    ];
    let results = sink.publish(&events).await;
    let why = |place: usize| match &results[place] {
        PublishResult::Refused(why) => why.clone(),
        other => panic!("{place}: {other:?}"),
    };
    assert_eq!(results[0], PublishResult::Sent);
    assert!(why(1).contains("limit"), "{}", why(1));
    assert!(why(2).contains("Nats-Rollup"));
    assert!(why(3).contains("no subject"));
    assert_eq!(results[4], PublishResult::Sent);
    // The stream is full, so the event is not the cause.
    let PublishResult::Busy(full) = &results[5] else {
        panic!("{:?}", results[5]);
    };
    assert!(full.to_string().contains("maximum messages"), "{full}");
}

async fn eventually_ready(sink: &Nats) {
    eventually_async(LONG, "the sink to be ready", async || {
        sink.ready().await.ok()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_dies_is_an_outage_and_nothing_is_lost() {
    let server = Arc::new(server::Nats::start().unwrap());
    let (_, prefix) = stream(&server.url(), Default::default()).await;
    let sink = Nats::new(&server.url()).unwrap().subject_prefix(&prefix);
    eventually_ready(&sink).await;
    let (stopper, stop) = tokio::sync::oneshot::channel();
    let killed = server.clone();
    let killer = tokio::task::spawn_blocking(move || {
        stop.blocking_recv().unwrap();
        killed.kill_9().unwrap();
    });
    let mut stopper = Some(stopper);
    let mut again = Vec::new();
    let mut sent = 0;
    while again.is_empty() {
        let events: Vec<_> = (0..500).map(|_| event("WantedThingEvent")).collect();
        let results = sink.publish(&events).await;
        stopper.take().map(|stopper| stopper.send(()));
        for (event, result) in events.into_iter().zip(results) {
            match result {
                PublishResult::Sent => sent += 1,
                result => {
                    assert!(outage(&result).is_some(), "{result:?}");
                    again.push(event);
                }
            }
        }
    }
    killer.await.unwrap();
    sink.ready().await.unwrap_err();
    let results = sink.publish(&again[..1]).await;
    assert!(
        matches!(results[..], [PublishResult::Unsent(_)]),
        "{results:?}"
    );

    let restarted = server.clone();
    let restart = tokio::task::spawn_blocking(move || restarted.restart());
    restart.await.unwrap().unwrap();
    eventually_async(LONG, "everything to be published", async || {
        sink.ready().await.ok()?;
        let results = sink.publish(&again).await;
        let mut results = results.into_iter();
        again.retain(|_| match results.next().expect("a result") {
            PublishResult::Sent => {
                sent += 1;
                false
            }
            result => {
                assert!(outage(&result).is_some(), "{result:?}");
                true
            }
        });
        again.is_empty().then_some(())
    })
    .await;
    // Doubtful events that had arrived were de-duplicated by their ids.
    let context = jetstream::new(async_nats::connect(server.url()).await.unwrap());
    let mut stream = context.get_stream(&prefix).await.unwrap();
    assert_eq!(count(&mut stream).await, sent);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_falls_silent_is_given_up_after_a_while() {
    let (_, prefix) = stream(&shared().url(), Default::default()).await;
    let proxy = TcpProxy::start(([127, 0, 0, 1], shared().port()).into())
        .await
        .unwrap();
    let sink = Nats::new(&proxy.url_for(&shared().url()))
        .unwrap()
        .subject_prefix(&prefix)
        .timeout(Duration::from_millis(500));
    eventually_ready(&sink).await;
    proxy.black_hole();
    let events: Vec<_> = (0..100).map(|_| event("WantedThingEvent")).collect();
    let results = sink.publish(&events).await;
    assert!(
        results
            .iter()
            .all(|result| matches!(result, PublishResult::Doubtful(_))),
        "{results:?}"
    );
    sink.ready().await.unwrap_err();
    proxy.restore().await.unwrap();
    eventually_ready(&sink).await;
    let results = sink.publish(&events).await;
    assert!(
        results.iter().all(|result| *result == PublishResult::Sent),
        "{results:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn passwords_are_not_shown() {
    let guarded = "authorization { user: relay, password: right }\n";
    let server = tokio::task::spawn_blocking(move || server::Nats::start_with(guarded));
    let port = match server.await.unwrap() {
        Ok(server) => {
            let port = server.port();
            check_silence(port, "uthorization").await;
            port
        }
        Err(error) => panic!("{error:#}"),
    };
    // The server has ended by now.
    check_silence(port, "cannot connect").await;
    for url in [
        format!("nats:user:{PASSWORD}@host"),
        format!("tls://user:{PASSWORD}@host:many"),
    ] {
        let error = from_url(&url, &SinkOptions::default()).unwrap_err();
        assert!(
            !format!("{error} {error:?}").contains(PASSWORD),
            "{error:?}"
        );
    }
}

async fn check_silence(port: u16, said: &str) {
    let url = format!("nats://relay:{PASSWORD}@127.0.0.1:{port}");
    let sink = from_url(&url, &SinkOptions::default()).unwrap();
    let ready = sink.ready().await.unwrap_err().to_string();
    let results = sink.publish(&[event("ThingEvent")]).await;
    assert!(
        matches!(results[..], [PublishResult::Unsent(_)]),
        "{results:?}"
    );
    let outage_text = outage(&results[0]).unwrap();
    let shown = format!("{ready} {outage_text} {sink:?} {}", sink.name());
    assert!(
        !shown.contains(PASSWORD) && !shown.contains("relay"),
        "{shown}"
    );
    assert!(shown.contains(said), "{shown}");
}
