//! Background tasks of the server.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use turno::Turno;
use turno::history::{History, Part};
use turno::lock::{Acquire, HistoryEvent};
use turno::outbox::Event;
use turno::sink::{Outage, Outgoing, PublishResult, Sink};
use turno::store::Sweep;
use turno_server::{MakeRelay, Options};
use turno_testkit::eventually_async;

use crate::common::{LONG, Running};

/// Sink that keeps the types of its events.
#[derive(Debug, Default)]
struct Kept(Mutex<Vec<String>>);

#[async_trait]
impl Sink for Kept {
    fn name(&self) -> String {
        "memory".to_owned()
    }

    async fn ready(&self) -> Result<(), Outage> {
        Ok(())
    }

    async fn publish(&self, events: &[Outgoing]) -> Vec<PublishResult> {
        let kinds = events.iter().map(|event| event.kind.clone());
        self.0.lock().unwrap().extend(kinds);
        events.iter().map(|_| PublishResult::Sent).collect()
    }
}

#[tokio::test]
async fn the_store_is_swept_schedules_tick_and_events_are_relayed_until_the_end() {
    let turno = Turno::connect("sqlite::memory:").await.unwrap();
    let sink = Arc::new(Kept::default());
    let made = Arc::new(AtomicU32::new(0));
    let relay = {
        let (turno, sink, made) = (turno.clone(), sink.clone(), made.clone());
        MakeRelay::new(move || {
            // A task that fails is restarted, and the server continues.
            assert!(made.fetch_add(1, Ordering::SeqCst) > 0, "the first fails");
            turno
                .outbox()
                .relay(sink.clone())
                .poll(Duration::from_millis(20))
        })
    };
    let options = Options {
        sweep: Some((Duration::from_millis(20), Sweep::default())),
        schedules: vec![
            turno.schedule("ticks", "* * * * * *").item("tick"),
            turno.schedule("never", "this is no pattern"),
        ],
        relay: Some(relay),
        ..Options::default()
    };
    let server = Running::on(turno.clone(), options).await;
    let short = turno
        .lock("r")
        .ttl(Duration::from_millis(1))
        .acquire()
        .await;
    let Ok(Acquire::Acquired(lease)) = short else {
        panic!("{short:?}");
    };
    drop(lease.detach());
    turno
        .outbox()
        .emit_many(&[Event::new("Happened", &1)])
        .await
        .unwrap();

    let ticks = turno
        .inbox("ticks")
        .claim()
        .wait(LONG)
        .take()
        .await
        .unwrap();
    assert_eq!(ticks.len(), 1);
    eventually_async(LONG, "an event that is relayed", async || {
        (*sink.0.lock().unwrap() == ["Happened"]).then_some(())
    })
    .await;
    assert_eq!(made.load(Ordering::SeqCst), 2);
    eventually_async(LONG, "an expiry that is recorded", async || {
        let ask = History {
            part: Some(Part::Lock),
            resource: Some("r".into()),
            ..History::default()
        };
        let history = turno.history(ask).await.unwrap();
        history
            .iter()
            .any(|entry| entry.event == HistoryEvent::Expired)
            .then_some(())
    })
    .await;
    server.get("/healthz").await.expect(200);
    server.end().await;
    assert_eq!(Arc::strong_count(&made), 1, "nothing goes on after the end");
}
