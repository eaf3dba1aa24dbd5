//! Passwords are never shown.

use std::time::Duration;

use turno::sink::{PublishResult, RabbitMq, Sink, SinkOptions, from_url};
use turno_testkit::TcpProxy;

use crate::amqp::shared;
use crate::{event, outage};

const PASSWORD: &str = "s3cret-p4ssword";

/// Returns all output of a sink that is unreachable.
async fn shown(sink: &dyn Sink) -> String {
    let said = sink.ready().await.unwrap_err().to_string();
    let results = sink.publish(&[event("ThingEvent")]).await;
    assert!(
        matches!(results[..], [PublishResult::Unsent(_)]),
        "{results:?}"
    );
    let result = outage(&results[0]).unwrap();
    format!("{said} {result} {sink:?} {}", sink.name())
}

#[tokio::test]
async fn rabbitmq_with_a_wrong_password() {
    let url = format!("amqp://guest:{PASSWORD}@127.0.0.1:{}", shared().port());
    let sink = RabbitMq::new(&url).unwrap();
    let shown = shown(&sink).await;
    assert!(!shown.contains(PASSWORD), "{shown}");
    assert!(
        shown.contains("403") && shown.contains("127.0.0.1"),
        "{shown}"
    );
}

#[tokio::test]
async fn rabbitmq_that_is_not_there() {
    // A port on which no process listens any more.
    let proxy = TcpProxy::start(([127, 0, 0, 1], 1).into()).await.unwrap();
    let port = proxy.addr().port();
    drop(proxy);
    let urls = [
        format!("amqp://user:{PASSWORD}@127.0.0.1:{port}"),
        format!("amqp://user:{PASSWORD}@no-such-host.invalid:5672/shop"),
    ];
    for url in urls {
        let sink = from_url(&url, &SinkOptions::default()).unwrap();
        let shown = shown(&*sink).await;
        assert!(
            !shown.contains(PASSWORD) && !shown.contains("user"),
            "{shown}"
        );
        assert!(shown.contains("cannot connect to RabbitMQ"), "{shown}");
    }
}

#[tokio::test]
async fn rabbitmq_that_never_says_a_word() {
    let mute = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = mute.local_addr().unwrap().port();
    let sink = RabbitMq::new(&format!("amqp://user:{PASSWORD}@127.0.0.1:{port}"))
        .unwrap()
        .confirm_timeout(Duration::from_millis(200));
    let shown = shown(&sink).await;
    assert!(shown.contains("no answer within 200ms"), "{shown}");
    assert!(!shown.contains(PASSWORD), "{shown}");
}

#[test]
fn urls_that_cannot_be_used_are_not_repeated() {
    for url in [
        format!("amqp:user:{PASSWORD}@broker"),
        format!("ampq://user:{PASSWORD}@broker"),
        format!("amqp://user:{PASSWORD}@broker:many"),
        format!("user:{PASSWORD}@broker"),
        PASSWORD.to_owned(),
        String::new(),
    ] {
        let error = from_url(&url, &SinkOptions::default()).unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains(PASSWORD), "{shown}");
        assert!(error.is_invalid());
    }
    let mut options = SinkOptions::default();
    options.secret = Some(PASSWORD.to_owned());
    assert!(!format!("{options:?}").contains(PASSWORD));
}
