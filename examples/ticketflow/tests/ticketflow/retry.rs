//! Scenario 3 of the document: RabbitMQ is stopped, and is started again.

use std::net::Ipv4Addr;

use turno::outbox::EventState;
use turno_testkit::{RabbitMq, TcpProxy};

use crate::stage::{Stage, all_once, shared_broker};

/// A broker that becomes unavailable: the server is stopped, or the connection is cut.
enum Broker {
    Own(RabbitMq),
    Behind(TcpProxy),
}

impl Broker {
    async fn stop(&self) {
        match self {
            Broker::Own(broker) => broker.stop().unwrap(),
            Broker::Behind(proxy) => proxy.cut().await,
        }
    }

    async fn start_again(&self) {
        match self {
            Broker::Own(broker) => broker.restart().unwrap(),
            Broker::Behind(proxy) => proxy.restore().await.unwrap(),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn escenario_3_reintento_despues_de_error_postgres() {
    let broker = RabbitMq::start().unwrap();
    let stage = Stage::postgres_at(broker.port()).await;
    escenario_3_reintento_despues_de_error(stage, Broker::Own(broker)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn escenario_3_reintento_despues_de_error_sqlite() {
    let target = (Ipv4Addr::LOCALHOST, shared_broker().port()).into();
    let proxy = TcpProxy::start(target).await.unwrap();
    let stage = Stage::sqlite_at(proxy.addr().port()).await;
    escenario_3_reintento_despues_de_error(stage, Broker::Behind(proxy)).await;
}

/// "Reintento después de error": the API continues, the worker logs the error, and no attempt is counted (the document would
/// have counted two by then, and after five each event is dead). All events are published when the broker is available again.
async fn escenario_3_reintento_despues_de_error(stage: Stage, broker: Broker) {
    let crew = stage.crew(&["consumer"], None);
    let api = stage.start(&["api"]);
    for _ in 0..5 {
        api.create("while it is there").await.unwrap();
    }
    stage
        .await_tally("these to be handled", |tally| tally.handled == 5)
        .await;
    stage
        .await_stats("these to be recorded", |stats| stats.dispatched == 5)
        .await;
    broker.stop().await;
    for _ in 0..5 {
        api.create("while it is away").await.unwrap();
    }
    crew.await_log("nothing can be published; no attempt is spent");
    stage
        .await_stats("these to wait", |stats| stats.pending == 5)
        .await;
    for event in stage.list(EventState::Pending).await {
        assert_eq!((event.refused, event.errors.len()), (0, 0), "{event:?}");
    }
    broker.start_again().await;
    let tally = stage
        .await_tally("all to be handled", |tally| tally.lost == 0)
        .await;
    assert_eq!(tally, all_once(10, 10));
    stage
        .await_stats("all to be recorded", |stats| stats.dispatched == 10)
        .await;
    assert_eq!(stage.stats().await.dead, 0);
}
