//! The library's futures can be spawned. The test is that this compiles.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use turno::Turno;
use turno::outbox::Event;
use turno::tx::{AnyTransaction, SqliteTransaction, Transaction};
use turno_testkit::conformance::acquired;

#[tokio::test]
async fn acquire_and_run_can_be_spawned() {
    let turno = Turno::connect("sqlite::memory:").await.unwrap();
    let spawned = turno.clone();
    let token = tokio::spawn(async move {
        let lease = acquired(spawned.lock("a").wait(Duration::from_secs(1))).await;
        let token = lease.token();
        lease.release().await.unwrap();
        token
    })
    .await
    .unwrap();

    let spawned = turno.clone();
    let later = tokio::spawn(async move {
        let name = String::from("captured");
        spawned
            .lock("a")
            .run(async |lease| {
                tokio::task::yield_now().await;
                assert_eq!(name, "captured");
                Ok::<_, turno::Error>(lease.token())
            })
            .await
            .unwrap()
    })
    .await
    .unwrap();
    assert!(later > token);

    let spawned = turno.clone();
    let both = tokio::spawn(async move {
        spawned
            .locks(["a", "b"])
            .run(async |leases| {
                tokio::task::yield_now().await;
                Ok::<_, turno::Error>(leases.leases().len())
            })
            .await
            .unwrap()
    });
    assert_eq!(both.await.unwrap(), 2);
}

/// What Turno does in a transaction, for any driver.
async fn in_transaction<T: Transaction>(turno: &Turno, tx: &mut T) -> turno::Result<()> {
    turno.inbox("q").push_in(tx, "work").await?;
    let event = Event::new("Happened", &1).ordering_key("k");
    turno.outbox().emit_in(tx, event).await?;
    let event = uuid::Uuid::now_v7();
    assert!(turno.mark_processed(tx, "billing", event).await?);
    assert!(!turno.mark_processed(tx, "billing", event).await?);
    Ok(())
}

/// A generic caller that spawns: it compiles because the futures of each transaction are `Send`.
fn spawn_in_transaction<T: Transaction + Send + 'static>(
    turno: Turno,
    mut tx: T,
) -> tokio::task::JoinHandle<T> {
    tokio::spawn(async move {
        in_transaction(&turno, &mut tx).await.unwrap();
        tx
    })
}

async fn stored(turno: &Turno) -> (u64, u64) {
    let items = match turno.inbox("q").stats().await {
        Err(error) if error.is_no_queue() => 0,
        stats => stats.unwrap().pending,
    };
    (items, turno.outbox().stats().await.unwrap().pending)
}

#[tokio::test]
async fn a_generic_caller_can_be_spawned_with_any_transaction() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("app.db");
    let url = format!("sqlite:{}", file.display());
    let turno = Turno::connect(&url).await.unwrap();

    let pool = sqlx::SqlitePool::connect(&url).await.unwrap();
    let tx = spawn_in_transaction(turno.clone(), pool.begin().await.unwrap());
    tx.await.unwrap().rollback().await.unwrap();
    assert_eq!(stored(&turno).await, (0, 0));
    let tx = AnyTransaction::from(pool.begin().await.unwrap());
    let tx = spawn_in_transaction(turno.clone(), tx).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(stored(&turno).await, (1, 1));

    let spawned = turno.clone();
    let by_rusqlite = tokio::spawn(async move {
        let mut connection = rusqlite::Connection::open(&file).unwrap();
        let mut tx = SqliteTransaction::begin(&mut connection).unwrap();
        in_transaction(&spawned, &mut tx).await.unwrap();
        drop(tx); // rolls back
        let tx = SqliteTransaction::begin(&mut connection).unwrap();
        let mut tx = AnyTransaction::from(tx);
        in_transaction(&spawned, &mut tx).await.unwrap();
        tx.commit().await.unwrap();
    });
    by_rusqlite.await.unwrap();
    assert_eq!(stored(&turno).await, (2, 2));
}

#[tokio::test]
async fn a_generic_caller_can_be_spawned_on_postgres() {
    let database = || turno_testkit::PostgresServer::shared().create_database();
    let url = tokio::task::spawn_blocking(database).await.unwrap();
    let turno = Turno::connect(&url).await.unwrap();
    let pool = sqlx::PgPool::connect(&url).await.unwrap();
    let tx = spawn_in_transaction(turno.clone(), pool.begin().await.unwrap());
    tx.await.unwrap().commit().await.unwrap();

    let target = turno::store::postgres::Target::parse(&url).unwrap();
    let (mut client, connection) = target.connect().await.unwrap();
    tokio::spawn(connection);
    let spawned = turno.clone();
    let by_tokio_postgres = tokio::spawn(async move {
        let mut tx = AnyTransaction::from(client.transaction().await.unwrap());
        in_transaction(&spawned, &mut tx).await.unwrap();
        tx.commit().await.unwrap();
    });
    by_tokio_postgres.await.unwrap();
    assert_eq!(stored(&turno).await, (2, 2));
}
