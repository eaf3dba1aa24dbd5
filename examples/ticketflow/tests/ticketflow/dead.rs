//! Dead letters, which the document left open, on both sides: events that the broker rejects, and events that consumers
//! reject.

use lapin::types::AMQPValue;
use turno::outbox::{Event, EventState};
use turno_testkit::eventually_async;
use uuid::Uuid;

use crate::cast::LONG;
use crate::on_each_store;
use crate::stage::{Stage, all_once};
use crate::tap::Tap;

on_each_store! {
    cinco_intentos_muerto_y_reencolado_por_una_persona;
    lo_que_un_consumer_rechaza_va_a_la_dlq;
}

/// Checklist: IncrementAttempts, MaxAttempts = 5. There is no queue, so the broker returns the event as unroutable: five
/// times, then it is dead. An operator sees it, starts the missing consumer, and requeues it.
async fn cinco_intentos_muerto_y_reencolado_por_una_persona(stage: Stage) {
    let worker = stage.start(&["worker", "--pausa-ms", "10"]);
    let api = stage.start(&["api"]);
    api.create("no queue is bound").await.unwrap();
    for attempt in 1..=5 {
        let line = worker.await_log(&format!("Intento {attempt}/5")).unwrap();
        let error = "❌ Error al procesar mensaje ";
        assert!(line.contains("ERROR") && line.contains(error), "{line}");
    }
    stage
        .await_stats("it to be dead", |stats| stats.dead == 1)
        .await;
    for (name, value) in [
        ("dead", 1),
        ("pending", 0),
        ("blocked", 0),
        ("dispatched_total", 0),
    ] {
        let metric = api.metric(&format!("outbox_{name}")).await.unwrap();
        assert_eq!(metric, value, "{name}");
    }
    let dead = stage.list(EventState::Dead).await;
    assert_eq!(
        (dead.len(), dead[0].refused, dead[0].errors.len()),
        (1, 5, 5)
    );
    assert!(
        dead[0]
            .payload
            .as_ref()
            .unwrap()
            .contains("no queue is bound")
    );

    let _consumers = [stage.start(&["consumer"]), stage.start(&["consumer"])];
    let requeued = stage.turno.outbox().requeue(Some(&[dead[0].id])).await;
    assert_eq!(requeued.unwrap(), 1);
    let tally = stage
        .await_tally("it to be handled", |tally| tally.lost == 0)
        .await;
    assert_eq!(tally, all_once(1, 1));
    assert_eq!(stage.stats().await.dead, 0);
}

/// Próximos Pasos 6, "Implementar DLQ": an event that no consumer can handle is delivered five times, and then moved to the
/// dead-letter queue by the broker. Later events are handled meanwhile.
async fn lo_que_un_consumer_rechaza_va_a_la_dlq(stage: Stage) {
    let consumers = [stage.start(&["consumer"]), stage.start(&["consumer"])];
    let _worker = stage.start(&["worker"]);
    let id = Uuid::now_v7();
    let kind = "TicketFlow.Domain.Events.TicketCreatedEvent";
    let poison = Event::new(kind, "this tells of no ticket").id(id);
    stage.turno.outbox().emit_many(&[poison]).await.unwrap();
    stage.start(&["api"]).create("a good one").await.unwrap();
    let tally = stage
        .await_tally("the good one", |tally| tally.lost == 0)
        .await;
    assert_eq!(tally, all_once(1, 1));

    let settings = &stage.cast.settings.rabbitmq;
    let dlq = Tap::on(settings, settings.dead_letter_queue())
        .await
        .unwrap();
    let rejected = eventually_async(LONG, "the poison to be rejected", async || {
        dlq.take().await.unwrap()
    })
    .await;
    let properties = rejected.properties;
    let outcome = properties
        .message_id()
        .as_ref()
        .map(|id| id.as_str().to_owned());
    assert_eq!(outcome, Some(id.to_string()));
    let headers = properties.headers().as_ref().unwrap();
    assert!(matches!(
        headers.inner().get("x-death"),
        Some(AMQPValue::FieldArray(_))
    ));
    let mut failed = 0;
    for consumer in &consumers {
        failed += consumer.metric("consumer_failed_total").await.unwrap();
    }
    assert_eq!(failed, 5);
}
