//! Idle programs.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use turno::inbox::Job;
use turno::lock::{Lease, Lock};
use turno::outbox::Mode;
use turno::sink::{Outage, Outgoing, PublishResult, Sink};
use turno::{Settings, Turno};

use turno_client::Client;
use turno_client::api::duration::WireDuration;
use turno_client::api::lock::{Acquire, LockOutcome};
use turno_testkit::Process;
use turno_testkit::conformance::acquired;

use crate::common::{Fixture, Kind, LONG};
use crate::log::as_application;

/// A lease that does not expire during a test.
pub const HOUR: Duration = Duration::from_secs(60 * 60);

/// Connects with an application name.
pub async fn connect(url: &str, name: &str, settings: Settings) -> Turno {
    Turno::builder()
        .settings(settings)
        .connect(&as_application(url, name))
        .await
        .unwrap()
}

/// Handled or published values, as they happen.
pub struct Done(UnboundedReceiver<String>);

impl Done {
    /// Waits for the next one.
    pub async fn next(&mut self) -> String {
        let next = tokio::time::timeout(LONG, self.0.recv()).await;
        next.expect("to be woken").unwrap()
    }

    /// Returns whether nothing happens for `timeout`.
    pub async fn is_silent(&mut self, timeout: Duration) -> bool {
        tokio::time::timeout(timeout, self.0.recv()).await.is_err()
    }
}

/// Starts a worker of a queue. It ends with the test.
pub fn worker(turno: &Turno, queue: &str) -> Done {
    let (tell, done) = unbounded_channel();
    let handler = move |job: Job<String>| {
        // The receiver is gone when the test has ended.
        let _ = tell.send(job.payload);
        std::future::ready(Ok::<_, Infallible>(()))
    };
    let worker = turno.inbox(queue).worker(handler);
    tokio::spawn(worker.run(std::future::pending()));
    Done(done)
}

/// Sink that reports published events.
#[derive(Debug)]
struct Teller(UnboundedSender<String>);

#[async_trait]
impl Sink for Teller {
    fn name(&self) -> String {
        "a test".to_owned()
    }

    async fn ready(&self) -> Result<(), Outage> {
        Ok(())
    }

    async fn publish(&self, events: &[Outgoing]) -> Vec<PublishResult> {
        events
            .iter()
            .map(|event| {
                let _ = self.0.send(event.kind.clone());
                PublishResult::Sent
            })
            .collect()
    }
}

/// Starts a relay. It ends with the test.
pub fn relay(turno: &Turno, mode: Mode, name: &str) -> Done {
    let (tell, done) = unbounded_channel();
    let relay = turno
        .outbox()
        .relay(Arc::new(Teller(tell)))
        .mode(mode)
        .name(name);
    tokio::spawn(relay.run(std::future::pending()));
    Done(done)
}

/// Waits for a lock.
pub fn lock_waiter(turno: &Turno, resource: &str, fifo: bool) -> JoinHandle<bool> {
    let lock = turno.lock(resource).wait(HOUR);
    wait_for(if fifo { lock.fifo() } else { lock })
}

/// Waits for a lock with any options. Returns whether it was granted.
pub fn wait_for(lock: Lock) -> JoinHandle<bool> {
    tokio::spawn(async move {
        let taken = lock.acquire().await.unwrap().acquired();
        match taken {
            Some(lease) => lease.release().await.is_ok(),
            None => false,
        }
    })
}

/// Waits for the answer of a once key, and returns it.
pub fn once_waiter(turno: &Turno, key: &str) -> JoinHandle<String> {
    let once = turno.once(key).wait(HOUR);
    tokio::spawn(async move {
        let answer = once.run(async || Ok::<_, Infallible>("the waiter's".to_owned()));
        answer.await.unwrap()
    })
}

/// Claims without a worker, and waits for a first item.
pub fn claim_waiter(turno: &Turno, queue: &str) -> JoinHandle<usize> {
    let claim = turno.inbox(queue).claim().wait(HOUR);
    tokio::spawn(async move { claim.take().await.unwrap().len() })
}

/// Acquires a free lock.
pub async fn hold(lock: Lock) -> Lease {
    acquired(lock.ttl(HOUR)).await
}

/// A `turno serve` that runs until it is dropped.
pub struct Serving {
    _fixture: Fixture,
    _process: Process,
    url: String,
}

impl Serving {
    /// Waits for a lock, in one request. Returns whether it was granted.
    pub fn wait_for(&self, resource: &str) -> JoinHandle<bool> {
        let client = Client::new(&self.url).unwrap();
        let ask = Acquire {
            resource: resource.to_owned(),
            wait: Some(WireDuration(HOUR)),
            ..Acquire::default()
        };
        tokio::spawn(async move {
            let answer = client.acquire(&ask).await.unwrap();
            matches!(answer, LockOutcome::Acquired(_))
        })
    }
}

/// Starts `turno serve` on a store.
pub fn serve(url: &str, settings: &str) -> Serving {
    let mut fixture = Fixture::new(Kind::Sqlite);
    fixture.store = as_application(url, "serve");
    std::fs::write(fixture.path("turno.toml"), settings).unwrap();
    let mut command = fixture.command("serve --listen 127.0.0.1:0");
    let process = Process::spawn(&mut command).unwrap();
    let line = process.lines().expect_line("listening on ", LONG);
    Serving {
        _fixture: fixture,
        _process: process,
        url: line.trim_start_matches("listening on ").to_owned(),
    }
}
