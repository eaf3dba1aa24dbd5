//! Events that a sink refuses.

use std::sync::Arc;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;
use turno::outbox::OnDead;
use turno::sink::{Outage, Outgoing, PublishResult, Sink};
use turno_testkit::eventually_async;

use super::{Fixture, LONG};

/// A sink that refuses all events.
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

    async fn publish(&self, events: &[Outgoing]) -> Vec<PublishResult> {
        vec![PublishResult::Refused("no queue is\nbound".to_owned()); events.len()]
    }
}

/// Has `many` events refused until they are dead.
pub fn refuse(fixture: &Fixture, on_dead: OnDead, many: u64) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let turno = turno::Turno::connect(&fixture.store).await.unwrap();
        let stop = CancellationToken::new();
        let relay = turno
            .outbox()
            .relay(Arc::new(Refusing))
            .name("relay-1")
            .on_dead(on_dead)
            .max_attempts(1);
        let relaying = tokio::spawn(relay.run(stop.clone().cancelled_owned()));
        eventually_async(LONG, "the events to die", async || {
            let stats = turno.outbox().stats().await.unwrap();
            (stats.dead + stats.blocked == many).then_some(())
        })
        .await;
        stop.cancel();
        relaying.await.unwrap().unwrap();
        turno.close().await;
    });
}
