//! Turno on connection pools of the application.

use deadpool_postgres::{Manager, Pool};
use turno::store::postgres::Target;
use turno::{Migrate, Turno};
use turno_testkit::PostgresServer;
use turno_testkit::conformance::acquired;

async fn new_database() -> String {
    let database = || PostgresServer::shared().create_database();
    tokio::task::spawn_blocking(database).await.unwrap()
}

fn deadpool(url: &str, connections: usize) -> Pool {
    let target = Target::parse(url).unwrap();
    let manager = Manager::new(target.config().clone(), target.tls());
    let pool = Pool::builder(manager).max_size(connections);
    pool.build().unwrap()
}

/// Each part of Turno, so that each kind of call is made.
async fn use_everything(turno: &Turno) {
    let lease = acquired(turno.lock("r")).await;
    assert!(turno.lock("r").acquire().await.unwrap().is_busy());
    lease.release().await.unwrap();
    turno.inbox("q").push("work").await.unwrap();
    let items = turno.inbox("q").claim().take().await.unwrap();
    turno.inbox("q").complete(&[items[0].claim]).await.unwrap();
    let event = turno::outbox::Event::new("Happened", &1);
    turno.outbox().emit(event).await.unwrap();
    let answer = turno.once("k").run(async || Ok::<_, turno::Error>(7)).await;
    assert_eq!(answer.unwrap(), 7);
}

#[tokio::test]
async fn a_pool_of_deadpool_is_used_and_given_back() {
    let pool = deadpool(&new_database().await, 2);
    let turno = Turno::from_pool(pool.clone()).await.unwrap();
    use_everything(&turno).await;

    // Many calls at once, with two connections; afterwards the application has both.
    let calls = (0..50).map(|n| {
        let turno = turno.clone();
        tokio::spawn(async move { turno.inbox("many").push(&n).await })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap().unwrap();
    }
    assert_eq!(turno.inbox("many").stats().await.unwrap().pending, 50);
    assert!(pool.status().size <= 2);
    let (first, second) = (pool.get().await.unwrap(), pool.get().await.unwrap());
    drop((first, second));

    // The application's transactions come from the same pool, and the pool outlives Turno.
    let mut client = pool.get().await.unwrap();
    let mut tx = client.transaction().await.unwrap();
    turno.inbox("tx").push_in(&mut tx, "work").await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(turno.inbox("tx").stats().await.unwrap().pending, 1);
    turno.close().await;
    pool.get()
        .await
        .unwrap()
        .simple_query("select 1")
        .await
        .unwrap();
}

#[tokio::test]
async fn a_worker_on_a_given_pool_finds_items_without_notifications() {
    let pool = deadpool(&new_database().await, 4);
    let turno = Turno::from_pool(pool).await.unwrap();
    let (done, mut ended) = tokio::sync::mpsc::channel(1);
    let worker = turno.inbox("q").worker(move |job: turno::inbox::Job<u32>| {
        let done = done.clone();
        async move { done.send(job.payload).await }
    });
    let shutdown = async {
        turno.inbox("q").push(&7).await.unwrap();
        assert_eq!(ended.recv().await, Some(7));
    };
    assert_eq!(worker.run(shutdown).await.unwrap().completed, 1);
}

#[tokio::test]
async fn a_pool_without_the_schema_is_refused() {
    let pool = deadpool(&new_database().await, 2);
    let builder = Turno::builder().migrate(Migrate::Never);
    assert!(builder.from_pool(pool).await.unwrap_err().is_schema());
}

#[tokio::test]
async fn a_pool_of_sqlx_says_where_the_database_is() {
    let url = new_database().await;
    let pool = sqlx::PgPool::connect(&url).await.unwrap();
    let turno = Turno::from_pool(pool.clone()).await.unwrap();
    use_everything(&turno).await;
    let mut tx = pool.begin().await.unwrap();
    turno.inbox("tx").push_in(&mut tx, "work").await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(turno.inbox("tx").stats().await.unwrap().pending, 1);
}

#[tokio::test]
async fn a_pool_of_sqlx_on_sqlite_says_where_the_file_is() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("app.db");
    let url = format!("sqlite:{}?mode=rwc", file.display());
    let pool = sqlx::SqlitePool::connect(&url).await.unwrap();
    let turno = Turno::from_pool(pool.clone()).await.unwrap();
    use_everything(&turno).await;
    let mut tx = pool.begin().await.unwrap();
    turno.inbox("tx").push_in(&mut tx, "work").await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(turno.inbox("tx").stats().await.unwrap().pending, 1);

    let memory = sqlx::SqlitePool::connect("sqlite::memory:").await.unwrap();
    let refused = Turno::from_pool(memory).await.unwrap_err();
    assert_eq!(refused.field(), Some("pool"));
}
