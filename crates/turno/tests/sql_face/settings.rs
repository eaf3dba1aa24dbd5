//! Settings of queues from SQL, and what they cost the queues that have none.

use tokio::sync::mpsc::UnboundedReceiver;
use tokio_postgres::Client;
use turno_testkit::sql::Sql;

use super::notified::stranger;
use super::{change, test_store};

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
        r#"{"rate": {"per": "1 minute", "burst": 1, "count": 5}, "max_running": 2}"#
    );
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
        r#"{"max_running": "3"}"#,
        r#"{"rate": 5}"#,
        r#"{"rate": {"count": 5}}"#,
        r#"{"rate": {"count": null, "per": "1s"}}"#,
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
    let (_stranger, mut notes) = stranger(test_store.url()).await;
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
