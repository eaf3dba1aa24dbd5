//! The document's "Queries Útiles", word for word, on PostgreSQL.

use sqlx::{PgPool, Row};
use turno_testkit::eventually_async;

use crate::cast::LONG;
use crate::db::Db;
use crate::stage::Stage;

const PENDING: &str = "SELECT COUNT(*) FROM OutboxMessages WHERE DispatchedAt IS NULL;";

const WITH_ERRORS: &str = "SELECT Id, Type, Attempts, Error
FROM OutboxMessages
WHERE Attempts >= 3 AND DispatchedAt IS NULL;";

const LAST_HOUR: &str = "SELECT COUNT(*) FROM ProcessedEvents
WHERE ProcessedAt > NOW() - INTERVAL '1 hour';";

const THROUGHPUT: &str = "SELECT
    DATE_TRUNC('minute', ProcessedAt) AS minute,
    COUNT(*) AS messages_processed
FROM ProcessedEvents
WHERE ProcessedAt > NOW() - INTERVAL '1 hour'
GROUP BY minute
ORDER BY minute DESC;";

/// "Métricas y Monitoreo": pending, with errors, processed in the last hour, throughput.
#[tokio::test(flavor = "multi_thread")]
async fn queries_utiles_postgres() {
    let stage = Stage::postgres().await;
    let Db::Postgres(pool) = &stage.db else {
        unreachable!("it is one");
    };
    let api = stage.start(&["api"]);
    api.create("no queue is bound").await.unwrap();
    assert_eq!(count(pool, PENDING).await, 1);

    let _worker = stage.start(&["worker", "--pausa-ms", "10"]);
    let failed = eventually_async(LONG, "three attempts", async || {
        sqlx::query(WITH_ERRORS).fetch_optional(pool).await.unwrap()
    })
    .await;
    let kind: String = failed.get("type");
    assert_eq!(kind, "TicketFlow.Domain.Events.TicketCreatedEvent");
    assert!(failed.get::<i32, _>("attempts") >= 3);
    assert!(!failed.get::<String, _>("error").is_empty());

    stage
        .await_stats("it to be dead", |stats| stats.dead == 1)
        .await;
    let _consumer = stage.start(&["consumer"]);
    stage.turno.outbox().requeue(None).await.unwrap();
    stage
        .await_stats("it to be dispatched", |stats| stats.dispatched == 1)
        .await;
    assert_eq!(count(pool, PENDING).await, 0);
    assert_eq!(count(pool, LAST_HOUR).await, 1);
    let minutes = sqlx::query(THROUGHPUT).fetch_all(pool).await.unwrap();
    assert_eq!(minutes.len(), 1);
    assert_eq!(minutes[0].get::<i64, _>("messages_processed"), 1);
}

async fn count(pool: &PgPool, query: &'static str) -> i64 {
    sqlx::query_scalar(query).fetch_one(pool).await.unwrap()
}
