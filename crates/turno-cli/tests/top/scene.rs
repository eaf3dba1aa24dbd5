//! A store in which something is to be seen.

use std::sync::Arc;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;
use turno::sink::{Fate, Outage, Outgoing, Sink};
use turno_testkit::{Process, eventually_async};

use crate::common::{LONG, Place, text};

/// Takes no event.
#[derive(Debug)]
struct Refusing;

#[async_trait]
impl Sink for Refusing {
    fn name(&self) -> String {
        "a sink that refuses".to_owned()
    }

    async fn ready(&self) -> Result<(), Outage> {
        Ok(())
    }

    async fn publish(&self, events: &[Outgoing]) -> Vec<Fate> {
        vec![Fate::Refused("no queue is bound".to_owned()); events.len()]
    }
}

/// Two locks, a queue with two failed items of three, and two dead events.
pub fn set(place: &Place) {
    for (resource, ttl) in [("loan/1", "300s"), ("loan/2", "600s")] {
        let words = ["lock", "acquire", resource, "--ttl", ttl, "--user", "ana"];
        place.turno(&words).expect(0);
    }
    for payload in ["1", "2", "3"] {
        place.turno(&["inbox", "push", "mail", payload]).expect(0);
    }
    for _ in 0..2 {
        let claimed = place.json(0, &["inbox", "claim", "mail"]);
        let claim = text(&claimed["items"][0], "claim");
        let words = ["inbox", "fail", claim, "--error", "550", "--final"];
        place.turno(&words).expect(0);
    }
    for kind in ["TicketCreated", "TicketClosed"] {
        place.turno(&["outbox", "emit", kind, "7"]).expect(0);
    }
    refuse(place);
}

/// Has the two events refused for good.
fn refuse(place: &Place) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let turno = turno::Turno::connect(&place.store).await.unwrap();
        let stop = CancellationToken::new();
        let relay = turno.outbox().relay(Arc::new(Refusing)).max_attempts(1);
        let relaying = tokio::spawn(relay.run(stop.clone()));
        eventually_async(LONG, "the events to die", async || {
            let stats = turno.outbox().stats().await.unwrap();
            (stats.dead == 2).then_some(())
        })
        .await;
        stop.cancel();
        relaying.await.unwrap().unwrap();
        turno.close().await;
    });
}

/// A server on the store, and where it is.
pub fn serve(place: &Place) -> (Process, String) {
    let server = place.start(&["serve", "--listen", "127.0.0.1:0"]);
    let line = server.lines().next(LONG);
    let line = line.expect("the server says where it listens");
    let url = line.trim_start_matches("listening on ").to_owned();
    (server, url)
}
