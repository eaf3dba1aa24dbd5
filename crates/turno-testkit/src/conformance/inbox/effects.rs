//! Effects: with the completion in the handler's own transaction, each happens exactly once.

use std::time::Duration;

use sqlx::Connection;
use turno::inbox::Job;
use turno::tx::Transaction;

use crate::conformance::inbox::fixtures::*;
use crate::conformance::inbox::start::start;
use crate::conformance::lock::fixtures::TIMEOUT;
use crate::conformance::{TestStore, rule};

/// Database of the handlers' effects: the store's own, through an application's connection.
#[derive(Clone)]
enum Database {
    Sqlite(String),
    Postgres(String),
}

impl Database {
    fn of(test_store: &TestStore) -> Self {
        if test_store.is_sqlite() {
            Database::Sqlite(test_store.file().display().to_string())
        } else {
            Database::Postgres(test_store.url().to_owned())
        }
    }

    /// Writes the effect and completes the item, and then commits or rolls back.
    async fn pay(&self, job: &Job<String>, commits: bool) -> Result<(), String> {
        match self {
            Database::Sqlite(file) => {
                let options = sqlx::sqlite::SqliteConnectOptions::new().filename(file);
                let options = options.busy_timeout(TIMEOUT);
                let db = sqlx::SqliteConnection::connect_with(&options).await;
                let mut db = db.map_err(|error| error.to_string())?;
                let mut tx = db.begin().await.map_err(|error| error.to_string())?;
                let effect = sqlx::query("insert into payment values (1)");
                let paid = effect.execute(&mut *tx).await;
                paid.map_err(|error| error.to_string())?;
                complete_in(job, &mut *tx).await?;
                let ended = if commits {
                    tx.commit().await
                } else {
                    tx.rollback().await
                };
                ended.map_err(|error| error.to_string())
            }
            Database::Postgres(url) => {
                let options: sqlx::postgres::PgConnectOptions = url.parse().unwrap();
                let options = options.statement_cache_capacity(0);
                let db = sqlx::PgConnection::connect_with(&options).await;
                let mut db = db.map_err(|error| error.to_string())?;
                let mut tx = db.begin().await.map_err(|error| error.to_string())?;
                let effect = sqlx::query("insert into payment values (1)").persistent(false);
                let paid = effect.execute(&mut *tx).await;
                paid.map_err(|error| error.to_string())?;
                complete_in(job, &mut *tx).await?;
                let ended = if commits {
                    tx.commit().await
                } else {
                    tx.rollback().await
                };
                ended.map_err(|error| error.to_string())
            }
        }
    }
}

async fn complete_in(job: &Job<String>, tx: &mut impl Transaction) -> Result<(), String> {
    let completed = job.complete_in(tx).await;
    completed.map_err(|error| error.to_string())
}

async fn payments(test_store: &TestStore) -> i64 {
    test_store.number("select count(*) from payment").await
}

/// Effect and completion commit together. After a rollback the attempt has failed, and is repeated.
#[rule]
async fn an_effect_commits_with_its_completion(test_store: &TestStore) {
    let inbox = test_store.turno().await.inbox("q");
    test_store
        .run("create table payment (amount integer)")
        .await;
    push(&inbox, &["a", "b"]).await;
    let database = Database::of(test_store);
    // Errors of the database, for the message of a failed expectation.
    let (said, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let handler = move |job: Job<String>| {
        let (database, said) = (database.clone(), said.clone());
        async move {
            let fails = job.payload == "a" && job.attempt() == 1;
            job.retry_in(Duration::ZERO);
            let paid = database.pay(&job, !fails).await;
            said.send(format!("{} {}: {paid:?}", job.claim(), job.attempt()))
                .unwrap();
            paid?;
            if fails {
                return Err("rolled back".to_owned());
            }
            Ok(())
        }
    };
    let running = start(inbox.worker(handler).lease(LONG));
    crate::eventually_async(TIMEOUT, "both", async || {
        (counts(&inbox).await[3] == 2).then_some(())
    })
    .await;
    let report = running.stop().await;
    let mut received = Vec::new();
    while let Ok(line) = heard.try_recv() {
        received.push(line);
    }
    let counted = (report.completed, report.failed, report.lost);
    assert_eq!(counted, (0, 1, 0), "{received:#?}");
    assert_eq!(payments(test_store).await, 2);
}

/// A handler that has lost its item leaves no effect: its transaction fails, and the new holder of the item pays.
#[rule]
async fn a_lost_item_leaves_no_effect(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    let inbox = turno.inbox("q");
    test_store
        .run("create table payment (amount integer)")
        .await;
    push(&inbox, &["a"]).await;
    let database = Database::of(test_store);
    let theirs = other.inbox("q");
    let (sender, mut received) = tokio::sync::mpsc::unbounded_channel();
    let handler = move |job: Job<String>| {
        let (database, theirs, sender) = (database.clone(), theirs.clone(), sender.clone());
        async move {
            // As if this process had been paused: another worker has the item when the handler ends.
            assert_eq!(theirs.reset(Duration::ZERO).await.unwrap(), 1);
            let held = take(&theirs, 1).await;
            let paid = database.pay(&job, true).await;
            sender.send((held, paid)).unwrap();
            Err::<(), _>("lost")
        }
    };
    // With capacity for one item only, so that the worker does not claim the lost item itself.
    let worker = inbox.worker(handler).concurrency(1).prefetch(0);
    let running = start(worker.lease(LONG));
    let (held, paid) = received.recv().await.unwrap();
    assert_eq!(held.len(), 1);
    assert!(paid.unwrap_err().contains("lost"));
    assert_eq!(payments(test_store).await, 0);
    complete(&other.inbox("q"), &held).await;
    let report = running.stop().await;
    assert_eq!((report.completed, report.failed, report.lost), (0, 0, 1));
    assert_eq!(counts(&inbox).await, [0, 0, 0, 1, 0]);
}
