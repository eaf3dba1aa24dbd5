//! The document's own table, `"OutboxMessages"` of Entity Framework, published as it is: nothing is copied into Turno's outbox.
//!
//! `TICKETFLOW_EF_FULL=1` makes 10,000 rows and ten kills of it.

use std::collections::{BTreeMap, BTreeSet};

use lapin::message::Delivery;
use lapin::options::BasicPublishOptions;
use lapin::types::AMQPValue;
use lapin::{BasicProperties, Connection, ConnectionProperties};
use sqlx::{PgPool, Row};
use turno::outbox::OutboxTableStats;
use turno_testkit::{RabbitMq, eventually_async};
use uuid::Uuid;

use crate::cast::{Actor, LONG};
use crate::db::Db;
use crate::stage::Stage;
use crate::tap::Tap;

pub const TABLE: &str = r#""OutboxMessages""#;

/// Short, so that a dead worker's rows are published soon.
pub const WORKER: [&str; 7] = [
    "worker",
    "--tabla",
    TABLE,
    "--modo",
    "ordered",
    "--lease-ms",
    "2000",
];

/// The document's "Query Completa", word for word.
const QUERY_COMPLETA: &str = r#"SELECT * FROM "OutboxMessages"
WHERE "DispatchedAt" IS NULL
  AND "Attempts" < 5
ORDER BY "OccurredAt"
LIMIT 50
FOR UPDATE SKIP LOCKED;"#;

/// The document's other statements, with the names that Entity Framework writes.
const MARK_AS_DISPATCHED: &str =
    r#"UPDATE "OutboxMessages" SET "DispatchedAt" = NOW() WHERE "Id" = $1::uuid"#;
const INCREMENT_ATTEMPTS: &str = r#"UPDATE "OutboxMessages" SET "Attempts" = "Attempts" + 1, "Error" = $2 WHERE "Id" = $1::uuid"#;
const DISPATCHED: &str =
    r#"SELECT COUNT(*) FROM "OutboxMessages" WHERE "DispatchedAt" IS NOT NULL"#;
const PENDING: &str = r#"SELECT COUNT(*) FROM "OutboxMessages" WHERE "DispatchedAt" IS NULL"#;
const INSERT: &str = r#"INSERT INTO "OutboxMessages" ("Id", "Type", "PayloadJson", "CorrelationId", "OccurredAt", "AggregateId")
VALUES ($1::uuid, 'TicketFlow.Domain.Events.TicketStatusChangedEvent', $2, $3, clock_timestamp(), $4)"#;

/// A store with the document's tables.
pub struct EfStage {
    pub stage: Stage,
    pub pool: PgPool,
}

impl EfStage {
    pub async fn at(broker: u16) -> Self {
        let stage = Stage::postgres_at(broker).await;
        let Db::Postgres(pool) = stage.db.clone() else {
            unreachable!("it is one");
        };
        let tables = include_str!("../../sql/ef_tables.sql");
        sqlx::raw_sql(tables).execute(&pool).await.unwrap();
        EfStage { stage, pool }
    }

    pub async fn adopt(&self) {
        self.stage.turno.adopt_outbox(TABLE).apply().await.unwrap();
    }

    async fn stats(&self) -> OutboxTableStats {
        let table = self.stage.turno.outbox_table(TABLE);
        table.stats().await.unwrap()
    }

    async fn count(&self, query: &'static str) -> i64 {
        sqlx::query_scalar(query)
            .fetch_one(&self.pool)
            .await
            .unwrap()
    }

    pub async fn await_dispatched(&self, many: i64) {
        eventually_async(LONG * 10, "rows to be dispatched", async || {
            (self.count(DISPATCHED).await >= many).then_some(())
        })
        .await;
    }

    pub fn worker(&self) -> Actor {
        self.stage.start(&WORKER)
    }
}

/// Stores one change of a ticket, with its event, in one transaction.
pub async fn change(pool: &PgPool, ticket: usize, number: usize) -> Uuid {
    let id = Uuid::now_v7();
    let mut tx = pool.begin().await.unwrap();
    let title = "insert into tickets (id, title, status) values ($1, 'EF', 'Open') on conflict (id) do update set status = 'Closed'";
    let ticket = format!("ticket {ticket}");
    sqlx::query(title)
        .bind(&ticket)
        .execute(&mut *tx)
        .await
        .unwrap();
    sqlx::query(INSERT)
        .bind(id.to_string())
        .bind(format!(r#"{{"ticketId": "{ticket}", "number": {number}}}"#))
        .bind(format!("correlation {number}"))
        .bind(ticket)
        .execute(&mut *tx)
        .await
        .unwrap();
    tx.commit().await.unwrap();
    id
}

/// A message as it arrived.
#[derive(Debug)]
struct Message {
    id: Uuid,
    ticket: String,
    number: u64,
    is_labelled: bool,
}

fn read(message: &Delivery) -> Message {
    let headers = message.properties.headers().clone().unwrap_or_default();
    let headers = headers.inner();
    let payload: serde_json::Value = serde_json::from_slice(&message.data).unwrap();
    let number = payload["number"].as_u64().unwrap();
    let text = |name: &str| match headers.get(name) {
        Some(AMQPValue::LongString(text)) => text.to_string(),
        other => panic!("header {name} is {other:?}"),
    };
    assert_eq!(text("CorrelationId"), format!("correlation {number}"));
    assert_eq!(message.routing_key.as_str(), "ticket.status.changed");
    Message {
        id: message
            .properties
            .message_id()
            .as_ref()
            .unwrap()
            .as_str()
            .parse()
            .unwrap(),
        ticket: payload["ticketId"].as_str().unwrap().to_owned(),
        number,
        is_labelled: headers.contains_key("x-possible-duplicate"),
    }
}

async fn take_all(tap: &Tap) -> Vec<Message> {
    let mut messages = Vec::new();
    while let Some(message) = tap.take().await.unwrap() {
        messages.push(read(&message));
    }
    messages
}

/// Checks that nothing is lost, that each repetition is labelled, and that the events of each ticket arrived in order. Returns
/// the number of repetitions.
fn check(messages: &[Message], expected: &BTreeSet<Uuid>) -> usize {
    let arrived: BTreeSet<Uuid> = messages.iter().map(|message| message.id).collect();
    assert_eq!(&arrived, expected, "lost or invented");
    let mut seen = BTreeSet::new();
    let mut last: BTreeMap<&str, u64> = BTreeMap::new();
    for message in messages {
        let is_first = seen.insert(message.id);
        assert!(is_first || message.is_labelled, "not labelled: {message:?}");
        let last = last.entry(&message.ticket).or_default();
        assert!(message.number >= *last, "after {last}: {message:?}");
        *last = message.number;
    }
    messages.len() - expected.len()
}

/// Two workers publish the table while the application writes to it; workers and the broker are killed (-9) in turns.
#[tokio::test(flavor = "multi_thread")]
async fn la_tabla_del_documento_sin_perdidas_con_kill_9() {
    let is_full = std::env::var("TICKETFLOW_EF_FULL").is_ok_and(|value| value == "1");
    let (rows, kills, tickets) = match is_full {
        true => (10_000, 10, 200),
        false => (600, 3, 40),
    };
    let broker = RabbitMq::start().unwrap();
    let ef = EfStage::at(broker.port()).await;
    ef.adopt().await;
    drop(ef.stage.tap().await);
    let mut workers = [ef.worker(), ef.worker()];
    let pool = ef.pool.clone();
    let application = tokio::spawn(async move {
        let mut ids = BTreeSet::new();
        for number in 0..rows {
            ids.insert(change(&pool, number % tickets, number).await);
            // An old worker's query beside it: the rows that it locks are left to it, until it ends.
            if number % 100 == 99 {
                let mut tx = pool.begin().await.unwrap();
                sqlx::query(QUERY_COMPLETA)
                    .fetch_all(&mut *tx)
                    .await
                    .unwrap();
                tx.rollback().await.unwrap();
            }
        }
        ids
    });
    for kill in 0..kills {
        let due = rows * (kill + 1) / (kills + 2);
        ef.await_dispatched(due as i64).await;
        if kill % 2 == 0 {
            let place = (kill / 2) % workers.len();
            workers[place].process.kill_9();
            workers[place] = ef.worker();
        } else {
            broker.kill_9().unwrap();
            broker.restart().unwrap();
        }
    }
    let expected = application.await.unwrap();
    ef.await_dispatched(rows as i64).await;
    assert_eq!(ef.count(PENDING).await, 0);
    let stats = ef.stats().await;
    assert_eq!((stats.unprocessed, stats.dead, stats.blocked), (0, 0, 0));
    assert_eq!(
        ef.count(r#"SELECT COALESCE(SUM("Attempts"), 0) FROM "OutboxMessages""#)
            .await,
        0,
        "an outage is not an attempt"
    );
    let messages = take_all(&ef.stage.tap().await).await;
    let duplicates = check(&messages, &expected);
    println!(
        "{rows} rows, {kills} kills: {} messages, {duplicates} labelled duplicates",
        messages.len()
    );
    let both = r#"SELECT COUNT(DISTINCT relay_name) FROM "OutboxMessages""#;
    assert!(
        ef.count(both).await >= 2,
        "two workers get different messages"
    );
}

/// A worker is killed between the confirmation and its record: the event is published twice, the second time with the label.
#[tokio::test(flavor = "multi_thread")]
async fn la_tabla_del_documento_worker_crash_despues_de_publicar() {
    let ef = EfStage::at(crate::stage::shared_broker().port()).await;
    ef.adopt().await;
    let tap = ef.stage.tap().await;
    let id = change(&ef.pool, 1, 1).await;
    let doomed = ef.stage.start_doomed(&WORKER, "kill@despues-de-publicar");
    doomed.await_death().unwrap();
    let debug: Vec<&str> = WORKER.into_iter().chain(["--log", "debug"]).collect();
    let worker = ef.stage.start(&debug);
    ef.await_dispatched(1).await;
    worker
        .await_log("Mensaje publicado: ticket.status.changed → CorrelationId: correlation 1")
        .unwrap();
    worker
        .await_log("✅ Mensaje publicado: TicketStatusChangedEvent (ID: ")
        .unwrap();
    let messages = take_all(&tap).await;
    let labels: Vec<bool> = messages.iter().map(|message| message.is_labelled).collect();
    assert_eq!(labels, [false, true]);
    assert_eq!(check(&messages, &BTreeSet::from([id])), 1);
}

/// An event without a bound queue has five attempts, as in the document, and an operator requeues it, in SQL.
#[tokio::test(flavor = "multi_thread")]
async fn la_tabla_del_documento_cinco_intentos_y_reencolado() {
    let ef = EfStage::at(crate::stage::shared_broker().port()).await;
    ef.adopt().await;
    let id = change(&ef.pool, 1, 1).await;
    let _worker = ef
        .stage
        .start(&["worker", "--tabla", TABLE, "--pausa-ms", "10"]);
    eventually_async(LONG, "the row to be dead", async || {
        (ef.stats().await.dead == 1).then_some(())
    })
    .await;
    let with_errors = r#"SELECT "Attempts", "Error" FROM "OutboxMessages" WHERE "Attempts" >= 3 AND "DispatchedAt" IS NULL"#;
    let row = sqlx::query(with_errors).fetch_one(&ef.pool).await.unwrap();
    assert_eq!(row.get::<i32, _>("Attempts"), 5);
    assert!(row.get::<String, _>("Error").contains("no queue is bound"));
    let tap = ef.stage.tap().await;
    let requeue = r#"UPDATE "OutboxMessages" SET "Attempts" = 0 WHERE "Attempts" >= 5 AND "DispatchedAt" IS NULL"#;
    sqlx::query(requeue).execute(&ef.pool).await.unwrap();
    ef.await_dispatched(1).await;
    assert_eq!(check(&take_all(&tap).await, &BTreeSet::from([id])), 0);
}

/// One run of the document's worker: the query, and for each row publish and mark, or count the attempt. Publishes nothing
/// after `crash_after` rows.
pub async fn document_worker(ef: &EfStage, crash_after: Option<usize>) {
    let mut tx = ef.pool.begin().await.unwrap();
    let rows = sqlx::query(QUERY_COMPLETA)
        .fetch_all(&mut *tx)
        .await
        .unwrap();
    let settings = &ef.stage.cast.settings.rabbitmq;
    let connection = Connection::connect(&settings.url(), ConnectionProperties::default()).await;
    for (place, row) in rows.iter().enumerate() {
        let raw = row.try_get_raw("Id").unwrap();
        let id = Uuid::from_slice(raw.as_bytes().unwrap()).unwrap();
        match &connection {
            Ok(connection) => {
                let channel = connection.create_channel().await.unwrap();
                let properties = BasicProperties::default().with_message_id(id.to_string().into());
                let body: String = row.get("PayloadJson");
                let exchange = settings.exchange.as_str().into();
                let options = BasicPublishOptions::default();
                let key = "ticket.status.changed".into();
                let sent =
                    channel.basic_publish(exchange, key, options, body.as_bytes(), properties);
                sent.await.unwrap();
                channel.close(200, "published".into()).await.unwrap();
                if crash_after == Some(place) {
                    // Dropped, the transaction would end some time later, and keep its row locked until then.
                    return tx.rollback().await.unwrap();
                }
                let mark = sqlx::query(MARK_AS_DISPATCHED).bind(id.to_string());
                mark.execute(&mut *tx).await.unwrap();
            }
            Err(error) => {
                let count = sqlx::query(INCREMENT_ATTEMPTS)
                    .bind(id.to_string())
                    .bind(error.to_string());
                count.execute(&mut *tx).await.unwrap();
            }
        }
    }
    tx.commit().await.unwrap();
}

/// The control: the document's worker on the same table loses the events of an outage, and publishes again without a label.
#[tokio::test(flavor = "multi_thread")]
async fn control_el_worker_del_documento_pierde_y_duplica_sin_avisar() {
    let broker = RabbitMq::start().unwrap();
    let ef = EfStage::at(broker.port()).await;
    drop(ef.stage.tap().await);
    change(&ef.pool, 1, 1).await;
    document_worker(&ef, Some(0)).await;
    document_worker(&ef, None).await;
    let tap = ef.stage.tap().await;
    eventually_async(LONG, "both messages", async || {
        (tap.count().await.unwrap() == 2).then_some(())
    })
    .await;
    let mut labels = Vec::new();
    while let Some(message) = tap.take().await.unwrap() {
        labels.push(message.properties.headers().is_some());
    }
    assert_eq!(
        labels,
        [false, false],
        "twice, and the receiver cannot tell"
    );
    broker.kill_9().unwrap();
    change(&ef.pool, 1, 2).await;
    for _ in 0..5 {
        document_worker(&ef, None).await;
    }
    broker.restart().unwrap();
    for _ in 0..3 {
        document_worker(&ef, None).await;
    }
    assert_eq!(ef.count(PENDING).await, 1, "committed, and never published");
    let tap = ef.stage.tap().await;
    assert_eq!(tap.count().await.unwrap(), 0);
    // Turno's relay publishes it as soon as it has attempts again.
    ef.adopt().await;
    let table = ef.stage.turno.outbox_table(TABLE);
    assert_eq!(table.requeue(None).await.unwrap(), 1);
    let _worker = ef.worker();
    ef.await_dispatched(2).await;
    assert_eq!(tap.count().await.unwrap(), 1);
}
