//! Clients that disconnect, work that takes long, and a gate that shuts down.

use std::sync::Arc;
use std::time::Duration;

use http::Response;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use turno::once::http::{Policy, Routes};
use turno::once::{OnceList, OnceState};
use turno_server::gate::Options;
use turno_testkit::eventually_async;

use crate::common::{LONG, Running, pagos, send};
use crate::service::{Service, whole};

/// A service whose work ends on command.
struct Slow {
    service: Service,
    began: Arc<Notify>,
    go: Arc<Notify>,
    /// Cancelled when its work was interrupted.
    cut: CancellationToken,
}

impl Slow {
    async fn start() -> Self {
        let (began, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let cut = CancellationToken::new();
        let (begins, goes, cuts) = (began.clone(), go.clone(), cut.clone());
        let service = Service::start(move |_| {
            let (begins, goes, cuts) = (begins.clone(), goes.clone(), cuts.clone());
            async move {
                let guard = cuts.drop_guard();
                begins.notify_one();
                goes.notified().await;
                guard.disarm();
                Response::new(whole("done"))
            }
        })
        .await;
        Slow {
            service,
            began,
            go,
            cut,
        }
    }

    async fn begun(&self) {
        tokio::time::timeout(LONG, self.began.notified())
            .await
            .unwrap();
    }
}

/// Starts a client that sends a request, and can disconnect.
async fn connect(gate: &Running, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(gate.address).await.unwrap();
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\nidempotency-key: 1\r\ncontent-length: 2\r\n\r\n{{}}"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

#[tokio::test]
async fn a_client_that_goes_away_ends_work_without_a_policy() {
    let slow = Slow::start().await;
    let gate = Running::start(slow.service.address, pagos()).await;
    let client = connect(&gate, "/other").await;
    slow.begun().await;
    drop(client);
    tokio::time::timeout(LONG, slow.cut.cancelled())
        .await
        .unwrap();
}

#[tokio::test]
async fn a_client_that_goes_away_does_not_end_work_under_a_policy() {
    let slow = Slow::start().await;
    let gate = Running::start(slow.service.address, pagos()).await;
    let client = connect(&gate, "/pagos").await;
    slow.begun().await;
    drop(client);
    gate.post("/pagos", "1").await.problem(409, "in_flight");
    slow.go.notify_one();
    let response = eventually_async(LONG, "the first one's answer", async || {
        let response = gate.post("/pagos", "1").await;
        (response.status == 200).then_some(response)
    })
    .await;
    assert_eq!(response.headers["idempotency-replayed"], "true");
    assert_eq!(response.body, "done");
    assert!(!slow.cut.is_cancelled());
}

#[tokio::test]
async fn work_that_outlasts_its_lease_stays_in_flight() {
    let slow = Slow::start().await;
    let policy = Policy::new("pagos").lease(Duration::from_millis(300));
    let routes = Routes::new().add("/pagos", policy).unwrap();
    let gate = Running::start(slow.service.address, routes).await;
    let first = tokio::spawn(send(gate.keyed("/pagos", "1").body(whole("{}")).unwrap()));
    slow.begun().await;
    let keys = gate.turno.once_list(OnceList::default()).await.unwrap();
    let began = &keys[0];
    // Without an extension, the lease would have expired twice by now.
    let wanted = began.expires_at + began.expires_at.duration_since(began.began_at);
    eventually_async(LONG, "the claim to be extended twice", async || {
        let now = gate.turno.once(&began.key).status().await.unwrap().unwrap();
        assert_eq!(now.state, OnceState::InFlight);
        (now.expires_at > wanted).then_some(())
    })
    .await;
    gate.post("/pagos", "1").await.problem(409, "in_flight");
    slow.go.notify_one();
    assert_eq!(first.await.unwrap().status, 200);
    assert_eq!(gate.gate.counts().stale, 0);
}

/// With a client that waits, and with one that has disconnected: in both cases the gate waits for the work.
#[tokio::test]
async fn work_in_flight_ends_before_the_gate_does() {
    for stays in [true, false] {
        let slow = Slow::start().await;
        let gate = Running::start(slow.service.address, pagos()).await;
        let (address, turno) = (gate.address, gate.turno.clone());
        let mut client = Some(connect(&gate, "/pagos").await);
        slow.begun().await;
        client.take_if(|_| !stays);
        let mut ended = tokio::spawn(gate.end());
        eventually_async(LONG, "the gate to accept no connection", async || {
            TcpStream::connect(address).await.is_err().then_some(())
        })
        .await;
        let early = tokio::time::timeout(Duration::from_millis(50), &mut ended).await;
        assert!(early.is_err(), "the work is not done: {early:?}");
        slow.go.notify_one();
        let counts = tokio::time::timeout(LONG, ended).await.unwrap().unwrap();
        assert_eq!(counts.fresh, 1);
        let keys = turno.once_list(OnceList::default()).await.unwrap();
        assert_eq!(keys[0].state, OnceState::Done);
        if let Some(mut client) = client {
            let mut answer = String::new();
            client.read_to_string(&mut answer).await.unwrap();
            assert!(answer.ends_with("done"), "{answer}");
        }
    }
}

#[tokio::test]
async fn work_that_does_not_end_does_not_keep_the_gate() {
    let slow = Slow::start().await;
    let upstream = format!("http://{}", slow.service.address).parse().unwrap();
    let options = Options {
        drain: Duration::from_millis(20),
        ..Options::default()
    };
    let gate = Running::start_with(upstream, pagos(), options).await;
    let client = connect(&gate, "/pagos").await;
    slow.begun().await;
    gate.end().await;
    drop(client);
}
