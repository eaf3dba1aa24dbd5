//! Scenario 4 of the document, and its "Escenarios Protegidos": an event that is delivered twice is handled once.

use lapin::message::Delivery;
use lapin::types::AMQPValue;
use turno::outbox::EventState;
use turno::sink::{Outgoing, PublishResult, RabbitMq, Sink};
use turno_testkit::eventually_async;

use crate::cast::{Actor, LONG};
use crate::db::{Db, with_tx};
use crate::on_each_store;
use crate::stage::{Stage, all_once};

on_each_store! {
    escenario_4_idempotencia;
    worker_crash_despues_de_publicar;
    control_sin_seen_se_procesa_dos_veces;
    consumer_muerto_antes_de_confirmar;
}

/// "Idempotencia": an operator has marked the event as processed. It is dispatched, and not handled. And "Duplicación manual":
/// an operator publishes again an event that was handled already.
async fn escenario_4_idempotencia(stage: Stage) {
    let tap = stage.tap().await;
    let api = stage.start(&["api"]);
    api.create("processed already").await.unwrap();
    let event = stage.list(EventState::Pending).await.remove(0);
    remember(&stage, event.id).await.unwrap();
    let consumers = [stage.start(&["consumer"]), stage.start(&["consumer"])];
    let _worker = stage.start(&["worker"]);
    stage
        .await_stats("it to be dispatched", |stats| stats.dispatched == 1)
        .await;
    await_sum(&consumers, "consumer_duplicates_total", 1).await;
    assert_eq!(stage.tally().await.handled, 0);
    for consumer in &consumers {
        if consumer.metric("consumer_duplicates_total").await.unwrap() == 1 {
            let line = format!("Mensaje {} ya fue procesado (idempotencia)", event.id);
            let line = consumer.await_log(&line).unwrap();
            assert!(line.contains("WARN"), "{line}");
        }
    }
    // The next event is not a duplicate, until it is marked as processed.
    api.create("new").await.unwrap();
    await_sum(&consumers, "consumer_handled_total", 1).await;
    stage
        .await_stats("it to be dispatched", |stats| stats.dispatched == 2)
        .await;
    tap.take().await.unwrap().unwrap();
    publish_again(&stage, tap.take().await.unwrap().unwrap()).await;
    await_sum(&consumers, "consumer_duplicates_total", 2).await;
    assert_eq!(stage.tally().await.handled, 1);
}

/// Marks an event as processed, as the document does with `INSERT INTO ProcessedEvents`.
async fn remember(stage: &Stage, event: uuid::Uuid) -> anyhow::Result<()> {
    if let Db::Postgres(pool) = &stage.db {
        let insert = "INSERT INTO ProcessedEvents (EventId, ProcessedAt) VALUES ($1::uuid, NOW());";
        sqlx::query(insert)
            .bind(event.to_string())
            .execute(pool)
            .await?;
        return Ok(());
    }
    with_tx!(&stage.db, |tx| {
        let first = stage
            .turno
            .mark_processed(&mut *tx, "notifications", event)
            .await?;
        assert!(first);
        tx.commit().await?;
    });
    Ok(())
}

/// Publishes the same message again.
async fn publish_again(stage: &Stage, message: Delivery) {
    let settings = &stage.cast.settings.rabbitmq;
    let sink = RabbitMq::new(&settings.url()).unwrap();
    let id = message.properties.message_id().as_ref().unwrap().as_str();
    let again = Outgoing {
        id: id.parse().unwrap(),
        kind: "TicketFlow.Domain.Events.TicketCreatedEvent".to_owned(),
        key: None,
        correlation_id: None,
        traceparent: None,
        tracestate: None,
        headers: Default::default(),
        emitted_at: turno::clock::machine(),
        payload: String::from_utf8(message.data).unwrap(),
        attempt: 1,
        possible_duplicate: false,
    };
    let fates = sink.exchange(&settings.exchange).publish(&[again]).await;
    assert_eq!(fates, [PublishResult::Sent]);
}

/// "Worker crash después de publicar": it is unknown whether the event has arrived, so it is published again, with its id and
/// a label. The consumers handle it once.
async fn worker_crash_despues_de_publicar(stage: Stage) {
    let tap = stage.tap().await;
    let crew = stage.crew(&["consumer"], Some("kill@despues-de-publicar once"));
    stage
        .start(&["api"])
        .create("published twice")
        .await
        .unwrap();
    crew.await_death();
    await_sum(&crew.consumers, "consumer_duplicates_total", 1).await;
    assert_eq!(stage.tally().await, all_once(1, 1));
    stage
        .await_stats("it to be dispatched", |stats| stats.dispatched == 1)
        .await;
    assert_eq!(tap.count().await.unwrap(), 2);
    let first = tap.take().await.unwrap().unwrap().properties;
    let second = tap.take().await.unwrap().unwrap().properties;
    assert_eq!(first.message_id(), second.message_id());
    let label = |table: &Option<lapin::types::FieldTable>| {
        table
            .as_ref()
            .unwrap()
            .inner()
            .get("x-possible-duplicate")
            .cloned()
    };
    assert_eq!(label(first.headers()), None);
    assert_eq!(label(second.headers()), Some(AMQPValue::Boolean(true)));
}

/// The same crash without `seen`: the event is handled twice. The document's check before publishing would not have helped.
async fn control_sin_seen_se_procesa_dos_veces(stage: Stage) {
    let crew = stage.crew(
        &["consumer", "--sin-seen"],
        Some("kill@despues-de-publicar once"),
    );
    stage
        .start(&["api"])
        .create("published twice")
        .await
        .unwrap();
    crew.await_death();
    let tally = stage
        .await_tally("the second time", |tally| tally.handled == 2)
        .await;
    assert_eq!(tally.doubled, 1);
}

/// "Retry después de timeout", at the consumer: it commits and dies before it acknowledges. The other consumer gets the event
/// again. With `seen` it recognizes it; without, it handles it again.
async fn consumer_muerto_antes_de_confirmar(stage: Stage) {
    let doomed = stage.start_doomed(&["consumer"], "kill@despues-del-commit");
    let _workers = [stage.start(&["worker"]), stage.start(&["worker"])];
    let api = stage.start(&["api"]);
    api.create("acknowledged late").await.unwrap();
    doomed.await_death().unwrap();
    let consumers = [stage.start(&["consumer"])];
    await_sum(&consumers, "consumer_duplicates_total", 1).await;
    assert_eq!(stage.tally().await, all_once(1, 1));
    // A graceful stop: the recognized event is acknowledged, and cannot be delivered again.
    consumers[0].process.term();
    consumers[0].process.wait_timeout(LONG).unwrap();

    let control = ["consumer", "--sin-seen"];
    let doomed = stage.start_doomed(&control, "kill@despues-del-commit");
    api.create("doubled").await.unwrap();
    doomed.await_death().unwrap();
    let _consumer = stage.start(&control);
    let tally = stage
        .await_tally("the second time", |tally| tally.handled == 3)
        .await;
    assert_eq!(tally.doubled, 1);
}

/// Waits until the sum of a counter over these processes reaches `wanted`.
async fn await_sum(actors: &[Actor], name: &str, wanted: u64) {
    eventually_async(LONG, name, async || {
        let mut sum = 0;
        for actor in actors {
            sum += actor.metric(name).await.unwrap();
        }
        (sum == wanted).then_some(())
    })
    .await;
}
