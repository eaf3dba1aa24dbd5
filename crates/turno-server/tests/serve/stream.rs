//! The stream of changes.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use turno::Turno;
use turno::access::{AccessNew, Role};
use turno::outbox::Event;
use turno_server::Options;
use turno_testkit::eventually_async;

use crate::common::{LONG, Running};

/// A client of the stream.
pub struct Listener {
    body: Incoming,
    text: String,
}

impl Listener {
    pub async fn start(server: &Running, path: &str, token: Option<&str>) -> Self {
        let mut request = server.request("GET", path);
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let request = request.body(Empty::<Bytes>::new()).unwrap();
        let client = Client::builder(TokioExecutor::new()).build_http();
        let response = tokio::time::timeout(LONG, client.request(request));
        let response = response.await.unwrap().unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Listener {
            body: response.into_body(),
            text: String::new(),
        }
    }

    /// Returns the next event and its data, or `None` when the server has ended the stream.
    async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            while let Some((event, rest)) = self.text.split_once("\n\n") {
                let field = |name: &str| {
                    let mut lines = event.lines();
                    lines.find_map(|line| line.strip_prefix(name).map(str::to_owned))
                };
                let read = field("event: ").zip(field("data: "));
                self.text = rest.to_owned();
                if let Some((name, data)) = read {
                    return Some((name, serde_json::from_str(&data).unwrap()));
                }
            }
            let frame = tokio::time::timeout(LONG, self.body.frame()).await.unwrap();
            let data = frame?.unwrap().into_data().unwrap();
            self.text.push_str(std::str::from_utf8(&data).unwrap());
        }
    }

    /// Returns the next event of this name that fulfils a condition.
    pub async fn until(&mut self, name: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        loop {
            let (event, data) = self.next().await.expect("the stream goes on");
            if event == name && is_it(&data) {
                return data;
            }
        }
    }
}

async fn hold(turno: &Turno, resource: &str) -> turno::lock::Lease {
    let taken = turno.lock(resource).owner("other").ttl(LONG).acquire();
    taken.await.unwrap().acquired().unwrap()
}

/// The locks are acquired directly in the store, and not through the server.
#[tokio::test]
async fn what_others_do_at_the_store_is_seen() {
    for server in [Running::start().await, Running::start_postgres().await] {
        let turno = &server.turno;
        drop(hold(turno, "before").await.detach());
        let mut listener = Listener::start(&server, "/v1/stream", None).await;
        let (first, data) = listener.next().await.unwrap();
        assert_eq!(first, "snapshot");
        assert_eq!(data["locks"]["locks"][0]["resource"], "before");
        assert_eq!(
            (&data["locks"]["held"], &data["locks"]["more"]),
            (&json!(1), &json!(false))
        );
        assert_eq!(data["outbox"]["total"], 0);

        let lease = hold(turno, "PRESTAMO/123").await;
        let event = listener.until("locks", |_| true).await;
        assert_eq!(event["added"][0]["resource"], "PRESTAMO/123");
        assert_eq!((&event["held"], &event["changed"]), (&json!(2), &json!([])));
        turno
            .lock("PRESTAMO/123")
            .ttl(LONG * 2)
            .renew(lease.token())
            .await
            .unwrap();
        let event = listener.until("locks", |_| true).await;
        assert_eq!(event["changed"][0]["owner"], "other");
        let token = lease.token();
        lease.release().await.unwrap();
        let event = listener.until("locks", |_| true).await;
        assert_eq!(
            event["gone"],
            json!([{"resource": "PRESTAMO/123", "owner": "other", "token": token.0}])
        );
        // An ended lock is in the history, which may be sent with the lock's removal or one poll later.
        let event = listener.until("history", |_| true).await;
        assert_eq!(event["history"][0]["event"], "released");

        turno.inbox("q").push(&json!({"n": 1})).await.unwrap();
        let event = listener.until("queues", |_| true).await;
        assert_eq!(
            (
                &event["changed"][0]["queue"],
                &event["changed"][0]["pending"]
            ),
            (&json!("q"), &json!(1))
        );
        let event = Event::new("TicketCreatedEvent", &json!({}));
        turno.outbox().emit_many(&[event]).await.unwrap();
        assert_eq!(listener.until("outbox", |_| true).await["pending"], 1);
        let claim = turno.once("k").begin().await.unwrap().fresh().unwrap();
        let event = listener.until("once", |_| true).await;
        assert_eq!(event["changed"][0]["state"], "in_flight");
        claim.complete(&json!("done")).await.unwrap();
        assert_eq!(listener.until("once", |_| true).await["gone"], json!(["k"]));

        // It ends with the server.
        server.stop.cancel();
        let event = listener.until("reconnect", |_| true).await;
        assert_eq!(event["reason"], "shutting_down");
        assert_eq!(listener.next().await, None);
        server.end().await;
    }
}

/// Creates data of every kind under a prefix. Some of it is created before there is a listener, and some after.
async fn fill(turno: &Turno, prefix: &str, when: &str) {
    let name = format!("{prefix}{when}");
    hold(turno, &format!("{name}/past"))
        .await
        .release()
        .await
        .unwrap();
    drop(hold(turno, &format!("{name}/lock")).await.detach());
    let queue = turno.inbox(format!("{name}/queue"));
    queue.push(&json!({})).await.unwrap();
    let key = turno.once(format!("{name}/key")).begin().await.unwrap();
    std::mem::forget(key.fresh());
    let kind = format!("{name}/Event");
    let event = Event::new(kind, &json!({}));
    turno.outbox().emit_many(&[event]).await.unwrap();
}

async fn token(turno: &Turno, prefix: &str) -> String {
    let new = AccessNew {
        prefix: prefix.to_owned(),
        ..AccessNew::new("reader", Role::Read)
    };
    turno
        .access_create(new)
        .await
        .unwrap()
        .1
        .as_str()
        .to_owned()
}

/// Returns everything that is sent until all of the second half of `a/` was.
async fn all(listener: &mut Listener) -> String {
    let mut seen = String::new();
    for wanted in ["late/lock", "late/queue", "late/key", "late/past"] {
        while !seen.contains(&format!("a/{wanted}")) {
            let (name, data) = listener.next().await.unwrap();
            seen.push_str(&format!("{name} {data}\n"));
        }
    }
    seen
}

#[tokio::test]
async fn a_token_with_a_prefix_sees_nothing_of_others() {
    for server in [Running::start().await, Running::start_postgres().await] {
        let turno = &server.turno;
        let (scoped, unscoped) = (token(turno, "a/").await, token(turno, "").await);
        for prefix in ["a/", "b/"] {
            fill(turno, prefix, "early").await;
        }
        let mut narrow = Listener::start(&server, "/v1/stream", Some(&scoped)).await;
        let mut wide = Listener::start(&server, "/v1/stream", Some(&unscoped)).await;
        // Both have begun, so that later changes are sent as changes.
        let (_, narrow_first) = narrow.next().await.unwrap();
        let (_, wide_first) = wide.next().await.unwrap();
        // The other prefix first: all data of `a/` is then sent after it.
        for prefix in ["b/", "a/"] {
            fill(turno, prefix, "late").await;
        }
        let narrow = format!("{narrow_first}{}", all(&mut narrow).await);
        for mine in ["a/early/lock", "a/early/queue", "a/early/key"] {
            assert!(narrow.contains(mine), "{mine}: {narrow}");
        }
        for others in ["b/", "outbox", "dispatched", "Event\""] {
            assert!(!narrow.contains(others), "{others}: {narrow}");
        }
        // The control: a caller with all rights gets everything, so the search looks for the right words.
        let wide = format!("{wide_first}{}", all(&mut wide).await);
        for others in [
            "b/early/lock",
            "b/late/lock",
            "b/late/queue",
            "b/late/key",
            "b/late/past",
            "dispatched",
        ] {
            assert!(wide.contains(others), "{others}: {wide}");
        }
        // A prefix in the query can only narrow the access further.
        let refused = server
            .request("GET", "/v1/stream?prefix=b/")
            .header("authorization", format!("Bearer {scoped}"));
        server.send(refused, "").await.problem(403, "out_of_scope");
        let mut further = Listener::start(&server, "/v1/stream?prefix=a/e", Some(&scoped)).await;
        let (_, first) = further.next().await.unwrap();
        assert_eq!(first["locks"]["held"], 1, "{first}");
        server.stop.cancel();
        server.end().await;
    }
}

/// A feed is shared, and ends with its last listener.
#[tokio::test]
async fn the_store_is_polled_only_for_listeners() {
    let server = Running::start().await;
    let mut listeners = Vec::new();
    for path in ["/v1/stream", "/v1/stream", "/v1/stream?prefix=a/"] {
        let mut listener = Listener::start(&server, path, None).await;
        listener.until("snapshot", |_| true).await;
        listeners.push(listener);
    }
    let count = async |name: &str| {
        let response = server.get("/metrics").await;
        let text = String::from_utf8(response.body.to_vec()).unwrap();
        let mut lines = text.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        value.unwrap_or(u64::MAX)
    };
    assert_eq!(count("turno_stream_subscribers ").await, 3);
    assert_eq!(count("turno_stream_feeds ").await, 2);
    drop(listeners);
    eventually_async(LONG, "no feed is left", async || {
        (count("turno_stream_feeds ").await == 0).then_some(())
    })
    .await;
    assert_eq!(count("turno_stream_subscribers ").await, 0);
    server.end().await;
}

/// A listener has to present its token again from time to time.
#[tokio::test]
async fn a_stream_does_not_last_for_ever() {
    let options = Options {
        max_wait: Duration::from_millis(100),
        ..Options::default()
    };
    let server = Running::start_with(options).await;
    let mut listener = Listener::start(&server, "/v1/stream", None).await;
    let event = listener.until("reconnect", |_| true).await;
    assert_eq!(event["reason"], "time");
    assert_eq!(listener.next().await, None);
    server.end().await;
}

#[tokio::test]
async fn a_revoked_token_hears_no_more() {
    let server = Running::start().await;
    let secret = token(&server.turno, "").await;
    let mut listener = Listener::start(&server, "/v1/stream", Some(&secret)).await;
    listener.until("snapshot", |_| true).await;
    let id = server.turno.access_list().await.unwrap()[0].id.clone();
    assert!(server.turno.access_revoke(&id).await.unwrap());
    let event = listener.until("reconnect", |_| true).await;
    assert_eq!(event["reason"], "access");
    server.end().await;
}
