//! What a notification reveals to a role without rights: PostgreSQL lets every role listen.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::future::poll_fn;
use std::sync::Arc;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio_postgres::{AsyncMessage, Client, NoTls};
use turno::Wakers;
use turno_testkit::Sql as _;
use turno_testkit::conformance::TestStore;

use super::test_store;

/// Prefix of every name.
const SECRET: &str = "secret";

/// Each notifies once, because a process waits for it.
const NOTIFIES: &[&str] = &[
    "select turno.inbox_push('secret queue', '1')",
    "select turno.inbox_fail(array[i.claim], 'no') from turno.inbox_claim('secret queue') i",
    "select turno.outbox_emit('secret.event', '1', key => 'secret key')",
    "select turno.lock_release('secret/1', token) from turno.lock where resource = 'secret/1'",
    "select turno.lock_release_batch('{secret/2}', array[token], '{null}', array[gen_random_uuid()]) from turno.lock where resource = 'secret/2'",
    "select turno.lock_break('secret/3', token, 'a test', 'a test') from turno.lock where resource = 'secret/3'",
    "select turno.once_complete('secret 1@' || token, '1') from turno.once where key = 'secret 1'",
    "select turno.once_complete_batch('{secret 2}', array[token], '{1}', '{null}') from turno.once where key = 'secret 2'",
    "select turno.once_release('secret 3@' || token) from turno.once where key = 'secret 3'",
    "insert into turno.setting (name, value) values ('secret', 'secret')",
];

/// Listens as a role without any right in schema `turno`, until the client is dropped.
pub(crate) async fn stranger(
    test_store: &TestStore,
) -> (Client, UnboundedReceiver<(String, String)>) {
    let database = test_store.url().rsplit('/').next().unwrap();
    let role = format!("stranger_{database}");
    let superuser = test_store.postgres_connection_as("postgres").await;
    superuser.run(&format!("create role {role} login")).await;
    let url = test_store.url_as(&role);
    let (client, mut connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    let (tell, heard) = unbounded_channel();
    tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notification(note) = message {
                // The receiver is gone when the test has ended.
                let _ = tell.send((note.channel().to_owned(), note.payload().to_owned()));
            }
        }
    });
    client
        .run("listen turno_lock; listen turno_inbox; listen turno_once; listen turno_setting")
        .await;
    (client, heard)
}

#[tokio::test]
async fn a_role_without_rights_hears_no_names() {
    let (test_store, client) = test_store().await;
    let (_stranger, mut heard) = stranger(&test_store).await;
    for queue in ["secret queue", "$outbox"] {
        let idle = format!("select turno.inbox_idle('{queue}', '1 minute')");
        client.run(&idle).await;
    }
    for number in 1..=3 {
        let wait = format!(
            "select turno.lock_acquire('secret/{number}', owner => 'secret'); \
             select turno.lock_wait('secret/{number}', 'secret waiter'); \
             select turno.once_begin('secret {number}'); \
             select turno.once_begin('secret {number}', waits => true)"
        );
        client.run(&wait).await;
    }
    for sql in NOTIFIES {
        client
            .batch_execute(sql)
            .await
            .unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        let (channel, payload) = heard.recv().await.unwrap();
        let is_hash = payload.len() == 16 && payload.bytes().all(|byte| byte.is_ascii_hexdigit());
        assert!(
            is_hash || channel == "turno_setting" && payload.is_empty(),
            "{sql}: {channel} {payload}"
        );
        assert!(!payload.contains(SECRET), "{sql}: {payload}");
    }
    assert!(heard.try_recv().is_err(), "each notified once");
    let queue = client
        .text("select turno.wake_hash('inbox:secret queue')")
        .await;
    client
        .run("select turno.inbox_push('secret queue', '2')")
        .await;
    assert_eq!(heard.recv().await.unwrap().1, queue);
}

/// Without a process that waits, nothing is sent: a notification makes a commit take a lock of the whole cluster.
#[tokio::test]
async fn no_notification_is_sent_if_no_process_waits() {
    let (test_store, client) = test_store().await;
    let (_stranger, mut heard) = stranger(&test_store).await;
    for number in 1..=3 {
        let held = format!(
            "select turno.lock_acquire('secret/{number}', owner => 'secret'); select turno.once_begin('secret {number}')"
        );
        client.run(&held).await;
    }
    let (of_setting, of_work) = NOTIFIES.split_last().unwrap();
    for sql in of_work {
        client.run(sql).await;
    }
    // It comes after all others.
    client.run(of_setting).await;
    let (channel, _) = heard.recv().await.unwrap();
    assert_eq!(channel, "turno_setting");
}

/// Nor while a worker polls: it finds what is pushed. If the clock was set back, that does not last.
#[tokio::test]
async fn no_notification_is_sent_while_a_worker_polls() {
    let (test_store, client) = test_store().await;
    let (_stranger, mut heard) = stranger(&test_store).await;
    let push = "select turno.inbox_push('secret queue', '1')";
    let emit = "select turno.outbox_emit('secret.event', '1')";
    for queue in ["secret queue", "$outbox"] {
        let poll = format!(
            "select turno.inbox_idle('{queue}', '1 minute'); select turno.inbox_poll('{queue}', '5 s')"
        );
        client.run(&poll).await;
        heard.recv().await.unwrap();
    }
    // The first ones create the queue.
    for sql in [push, push, emit, emit] {
        client.run(sql).await;
    }
    let (setting, _) = NOTIFIES.split_last().unwrap();
    client.run(setting).await;
    assert_eq!(heard.recv().await.unwrap().0, "turno_setting");
    for end in [
        "update turno.inbox_listener set polled_until = clock_timestamp() - interval '1 ms'",
        "update turno.inbox_listener set polled_until = clock_timestamp() + interval '1 hour'",
        "select turno.inbox_poll('secret queue', '0'), turno.inbox_poll('$outbox', '0')",
    ] {
        client.run(end).await;
        for sql in [push, emit] {
            client.run(sql).await;
            assert_eq!(heard.recv().await.unwrap().0, "turno_inbox", "{end}: {sql}");
        }
    }
}

/// SQL sends the same hash of a name that programs compute.
#[tokio::test]
async fn a_hash_of_sql_wakes_the_waiter_of_the_name() {
    let (_bed, client) = test_store().await;
    let wakers = Arc::new(Wakers::default());
    for name in [
        "",
        "r",
        "inbox:jobs",
        "once:k@1",
        "préstamo/ñ",
        "貸付/1 😀",
        "a'b\"c\\d",
    ] {
        let watch = wakers.watch(name);
        let woken = watch.next();
        let row = client
            .query_one("select turno.wake_hash($1)", &[&name])
            .await;
        let hash: String = row.unwrap().get(0);
        wakers.wake_hash(&hash);
        tokio::select! {
            biased;
            () = woken => {}
            () = std::future::ready(()) => panic!("{name:?} is not {hash}"),
        }
    }
}
