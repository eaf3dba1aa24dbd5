//! Settings of queues from SQL, and what they cost the queues that have none.

use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio_postgres::Client;
use turno_testkit::eventually_async;
use turno_testkit::sql::Sql;

use super::notified::stranger;
use super::{change, test_store};

/// Longer than anything takes that ends at all.
const TIMEOUT: Duration = Duration::from_secs(60);

async fn push(client: &Client, many: u32) {
    let push = "select turno.inbox_push('work', '{}') from generate_series";
    client.run(&format!("{push}(1, {many})")).await;
}

/// Returns how many items a claim gets.
async fn claimed(client: &Client, limit: u32) -> String {
    let count = "select count(*)::text from turno.inbox_claim('work', 'w'";
    client.text(&format!("{count}, {limit})")).await
}

#[tokio::test]
async fn settings_are_changed_and_read_as_json() {
    let (_test_store, client) = test_store().await;
    let settings = "select turno.inbox_settings('work')::text";
    assert_eq!(client.text(settings).await, "{}");
    let changed = client
        .text(r#"select turno.inbox_configure('work', '{"max_running": 2, "rate": {"count": 5, "per": "1 minute"}}', 'ana', 'busy')::text"#)
        .await;
    assert_eq!(
        changed,
        r#"{"rate": {"per": "60000ms", "burst": 1, "count": 5}, "max_running": 2}"#
    );
    // The same rate in other words is no change.
    let same = r#"select turno.inbox_configure('work', '{"rate": {"count": 5, "per": "60s", "burst": 1}}')::text"#;
    assert_eq!(client.text(same).await, changed);
    client
        .expect("select count(*)::text from turno.history('work')", "1")
        .await;
    assert_eq!(client.text(settings).await, changed);
    client
        .run(r#"select turno.inbox_configure('work', '{"rate": null}')"#)
        .await;
    assert_eq!(client.text(settings).await, r#"{"max_running": 2}"#);
    push(&client, 3).await;
    assert_eq!(claimed(&client, 10).await, "2");
    assert_eq!(claimed(&client, 1).await, "0");
}

#[tokio::test]
async fn wrong_settings_are_rejected() {
    let (_test_store, client) = test_store().await;
    for wrong in [
        "[]",
        r#"{"max_runing": 2}"#,
        r#"{"paused": "yes"}"#,
        r#"{"max_running": 0}"#,
        r#"{"max_running": 1.5}"#,
        r#"{"max_running": 3.0}"#,
        r#"{"max_running": 1000001}"#,
        r#"{"max_running": 10000000000}"#,
        r#"{"max_running": "3"}"#,
        r#"{"rate": 5}"#,
        r#"{"rate": {"count": 5}}"#,
        r#"{"rate": {"count": null, "per": "1s"}}"#,
        r#"{"rate": {"count": 5.0, "per": "1s"}}"#,
        r#"{"rate": {"count": 5, "per": null}}"#,
        r#"{"rate": {"count": 5, "per": 60}}"#,
        r#"{"rate": {"count": 5, "per": "60"}}"#,
        r#"{"rate": {"count": 5, "per": "soon"}}"#,
        r#"{"rate": {"count": 5, "per": "2 days"}}"#,
        r#"{"rate": {"count": 5, "per": "1s", "burst": 0}}"#,
        r#"{"rate": {"count": 5, "per": "1s", "in": 0}}"#,
    ] {
        let call = format!("select turno.inbox_configure('work', '{wrong}')");
        assert_eq!(client.code(&call).await, "22023", "{wrong}");
    }
    assert_eq!(
        client
            .code(r#"select turno.inbox_configure('$outbox', '{"paused": true}')"#)
            .await,
        "22023"
    );
    assert_eq!(
        client
            .text("select turno.inbox_settings('work')::text")
            .await,
        "{}"
    );
}

/// The control of the limit: without the count of what is in flight, a second claim gets more.
#[tokio::test]
async fn without_the_count_a_second_claim_exceeds_the_limit() {
    let (_test_store, client) = test_store().await;
    client
        .run(r#"select turno.inbox_configure('work', '{"max_running": 2}')"#)
        .await;
    push(&client, 5).await;
    assert_eq!(claimed(&client, 10).await, "2");
    assert_eq!(claimed(&client, 10).await, "0");
    change(
        &client,
        "inbox_admitted",
        "turno.inbox_running(queue_id)",
        "0",
    )
    .await;
    assert_eq!(claimed(&client, 10).await, "2");
}

/// The control of the rate: if what was taken is forgotten, each claim gets a whole burst.
#[tokio::test]
async fn without_its_record_a_rate_limits_nothing() {
    let (_test_store, client) = test_store().await;
    client
        .run(r#"select turno.inbox_configure('work', '{"rate": {"count": 1, "per": "1 hour", "burst": 2}}')"#)
        .await;
    push(&client, 5).await;
    assert_eq!(claimed(&client, 10).await, "2");
    assert_eq!(claimed(&client, 10).await, "0");
    change(
        &client,
        "inbox_rate_taken",
        "select r.next_at",
        "select null::timestamptz",
    )
    .await;
    assert_eq!(claimed(&client, 10).await, "2");
}

/// A worker that has nothing to do knows when the next item may begin; in a paused queue it waits for a notification.
#[tokio::test]
async fn an_idle_worker_sleeps_until_an_item_may_begin() {
    let (_test_store, client) = test_store().await;
    let due = "select due between '50 minutes' and '1 hour' from turno.inbox_idle('work', '0')";
    let due = format!("select ({due})::text");
    push(&client, 5).await;
    assert_eq!(
        client
            .text("select (due = '0')::text from turno.inbox_idle('work', '0')")
            .await,
        "true"
    );
    client
        .run(r#"select turno.inbox_configure('work', '{"rate": {"count": 1, "per": "1 hour"}}')"#)
        .await;
    assert_eq!(claimed(&client, 1).await, "1");
    assert_eq!(client.text(&due).await, "true");
    client
        .run(r#"select turno.inbox_configure('work', '{"rate": null, "max_running": 1}'); update turno.inbox_claim set until = until + interval '59 minutes'"#)
        .await;
    assert_eq!(client.text(&due).await, "true");
    client
        .run(r#"select turno.inbox_configure('work', '{"paused": true}')"#)
        .await;
    assert_eq!(
        client
            .text("select (due is null)::text from turno.inbox_idle('work', '0')")
            .await,
        "true"
    );
}

/// Only claims of a queue with a limit are marked: at their end, another item may begin, so idle workers are notified.
#[tokio::test]
async fn claims_of_a_limited_queue_are_marked() {
    let (_test_store, client) = test_store().await;
    push(&client, 3).await;
    let marked = "select limited::text from turno.inbox_claim";
    let claim = "select claim from turno.inbox_claim('work', 'w', 1)";
    let first = client.text(claim).await;
    assert_eq!(client.text(marked).await, "false");
    client
        .run(r#"select turno.inbox_configure('work', '{"max_running": 1}')"#)
        .await;
    assert_eq!(client.text(marked).await, "true");
    client
        .run(&format!("select turno.inbox_complete('{first}')"))
        .await;
    client.run(claim).await;
    assert_eq!(client.text(marked).await, "true");
    client
        .run(r#"select turno.inbox_configure('work', '{"max_running": null}')"#)
        .await;
    assert_eq!(client.text(marked).await, "false");
}

/// Returns how many notifications came until now.
async fn heard(client: &Client, notes: &mut UnboundedReceiver<(String, String)>) -> usize {
    client.run("select pg_notify('turno_inbox', 'end')").await;
    let mut count = 0;
    while notes.recv().await.expect("a notification").1 != "end" {
        count += 1;
    }
    count
}

/// A completion wakes an idle worker, because another item may begin. Without a limit, which is the control, it wakes none.
#[tokio::test]
async fn the_end_of_a_limited_item_notifies() {
    let (test_store, client) = test_store().await;
    let (_stranger, mut notes) = stranger(&test_store).await;
    push(&client, 6).await;
    client
        .run("select turno.inbox_idle('work', '1 minute')")
        .await;
    for limit in ["null", "5"] {
        let change = format!(r#"{{"max_running": {limit}}}"#);
        client
            .run(&format!("select turno.inbox_configure('work', '{change}')"))
            .await;
        heard(&client, &mut notes).await;
        for many in [1, 2] {
            let claims = format!("select claim from turno.inbox_claim('work', 'w', {many})");
            client
                .run(&format!("select turno.inbox_complete(array({claims}))"))
                .await;
            let expected = usize::from(limit != "null");
            assert_eq!(
                heard(&client, &mut notes).await,
                expected,
                "{limit}, {many}"
            );
        }
    }
}

/// Waits until so many sessions wait for an advisory lock in the test's own database.
async fn waiting(client: &Client, many: i64) {
    eventually_async(TIMEOUT, "sessions that wait for their turn", async || {
        let waiting = client
            .number(
                "select count(*)
                 from pg_locks l
                 join pg_database d on d.oid = l.database
                 where d.datname = current_database()
                   and l.locktype = 'advisory'
                   and not l.granted",
            )
            .await;
        (waiting == many).then_some(())
    })
    .await;
}

/// Two claims of one item wait for the turn of a limited queue, and get it one after the other. The control looks at the settings
/// when it shares the turn: then each of the two waits for the other to give it up.
#[tokio::test]
async fn claims_of_one_in_a_limited_queue_do_not_deadlock() {
    for guarded in [true, false] {
        let (test_store, client) = test_store().await;
        let connections = [
            test_store.postgres_connection().await,
            test_store.postgres_connection().await,
        ];
        push(&client, 9).await;
        client
            .run(r#"select turno.inbox_configure('work', '{"max_running": 9}')"#)
            .await;
        if !guarded {
            let and_settings = "and t.settings is null";
            change(&client, "inbox_claim_one", and_settings, "").await;
            let (found, alone) = (
                "if c.has_settings then",
                "if c.has_settings then got.id := 0;",
            );
            change(&client, "inbox_claim_one", found, alone).await;
        }
        let claim = "select turno.inbox_claim('work', 'w', 1)";
        client.run("begin").await;
        client.run(claim).await;
        let [first, second] = &connections;
        let observer = test_store.postgres_connection().await;
        let (first, second, ()) = tokio::join!(first.code(claim), second.code(claim), async {
            waiting(&observer, 2).await;
            client.run("commit").await;
        });
        let deadlocks = [first, second]
            .iter()
            .filter(|code| *code == "40P01")
            .count();
        assert_eq!(deadlocks, usize::from(!guarded));
    }
}

/// A worker completes an item and waits for its turn to claim the next one, while the settings change: neither waits for the other.
#[tokio::test]
async fn a_change_does_not_wait_for_a_transaction_that_ends_a_claim() {
    let (test_store, client) = test_store().await;
    let worker = test_store.postgres_connection().await;
    push(&client, 3).await;
    let claim = client
        .text("select claim from turno.inbox_claim('work', 'w', 1)")
        .await;
    worker.run("begin").await;
    worker
        .run(&format!("select turno.inbox_complete('{claim}')"))
        .await;
    client
        .run(r#"set lock_timeout = '10s'; select turno.inbox_configure('work', '{"max_running": 1}')"#)
        .await;
    assert_eq!(claimed(&client, 1).await, "0");
    // The end of that claim does not notify, so an idle worker looks again soon.
    let soon = "select (due between '0' and '1 second')::text from turno.inbox_idle('work', '0')";
    assert_eq!(client.text(soon).await, "true");
    worker.run("commit").await;
    assert_eq!(claimed(&client, 1).await, "1");
    assert_eq!(client.text(soon).await, "false");
}

/// A claim that is not counted any more after a crash would let too many run. Without settings, which is the control, a claim need
/// not be durable.
#[tokio::test]
async fn a_claim_of_a_queue_with_settings_is_durable() {
    let (_test_store, client) = test_store().await;
    push(&client, 3).await;
    let claim = "select turno.inbox_claim_batch('work', 'w', 1, '30s', gen_random_uuid(), false)";
    for (change, durable) in [("null", "off"), ("5", "on")] {
        client
            .run(&format!(
                r#"select turno.inbox_configure('work', '{{"max_running": {change}}}'); begin"#
            ))
            .await;
        client.run(claim).await;
        client
            .expect("select current_setting('synchronous_commit')", durable)
            .await;
        client.run("commit").await;
    }
}
