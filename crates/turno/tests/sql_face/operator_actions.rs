//! Operator actions in SQL: user and reason are arguments, and the record is part of the caller's transaction.

use super::test_store;
use turno_testkit::Sql as _;

const FAIL: &str = "select turno.inbox_push('mail', '1'); \
    select turno.inbox_fail(array[claim], 'no', final => true) from turno.inbox_claim('mail', 'w')";
const ANSWER: &str = "select turno.once_complete((turno.once_begin('pago/77')).claim, '1')";
/// The newest entry, in one line.
const LAST: &str = "select concat_ws(' ', part, event, resource, count, actor, reason) from turno.history() limit 1";
const MANY: &str = "select count(*)::text from turno.history()";

#[tokio::test]
async fn who_and_why_are_arguments() {
    let (test_store, client) = test_store().await;
    client.run(FAIL).await;
    client.run(ANSWER).await;
    let client = test_store.postgres_connection_as("operator").await;
    for (call, answer, entry) in [
        (
            "turno.inbox_requeue('mail', \"user\" => 'ana', reason => 'it is back')",
            "1",
            "inbox requeued mail 1 ana it is back",
        ),
        (
            "turno.inbox_reset('mail', reason => 'no worker hangs')",
            "0",
            "inbox requeued mail 1 ana it is back",
        ),
        (
            "turno.inbox_discard('mail', array[0], reason => 'it has not failed')",
            "0",
            "inbox requeued mail 1 ana it is back",
        ),
        (
            "turno.once_forget('pago/77', 'ana', 'it was not paid')",
            "true",
            "once forgotten pago/77 1 ana it was not paid",
        ),
        (
            "(turno.once_resolve('pago/77', null, 'ana', 'it is gone')).outcome",
            "not_found",
            "once forgotten pago/77 1 ana it was not paid",
        ),
        (
            "turno.outbox_requeue(reason => 'there is none')",
            "0",
            "once forgotten pago/77 1 ana it was not paid",
        ),
        (
            "turno.outbox_discard(array[gen_random_uuid()], reason => 'there is none')",
            "0",
            "once forgotten pago/77 1 ana it was not paid",
        ),
    ] {
        client.expect(&format!("select {call}::text"), answer).await;
        client.expect(LAST, entry).await;
    }
}

/// If it is rolled back, it was neither done nor recorded.
#[tokio::test]
async fn a_record_is_rolled_back_with_its_action() {
    let (_bed, client) = test_store().await;
    client.run(FAIL).await;
    client.run(ANSWER).await;
    let failed = "select failed::text from turno.inbox_stats('mail')";
    for end in ["rollback", "commit"] {
        client.run("begin").await;
        for call in ["inbox_requeue('mail')", "once_forget('pago/77')"] {
            client.row(&format!("select turno.{call}")).await;
        }
        client.expect(MANY, "2").await;
        client.run(end).await;
        let left = if end == "rollback" {
            ["0", "1"]
        } else {
            ["2", "0"]
        };
        assert_eq!(client.text(MANY).await, left[0], "{end}");
        assert_eq!(client.text(failed).await, left[1], "{end}");
    }
}

/// In SQL, a discard of all failed items passes null as ids explicitly: there is no default.
#[tokio::test]
async fn failed_items_are_discarded() {
    let (test_store, client) = test_store().await;
    client.run(FAIL).await;
    let client = test_store.postgres_connection_as("operator").await;
    let missing = "select turno.inbox_discard('mail')";
    assert_eq!(client.code(missing).await, "42883");
    let all = "select turno.inbox_discard('mail', null, \"user\" => 'ana', reason => 'spam')::text";
    client.expect(all, "1").await;
    client.expect(LAST, "inbox discarded mail 1 ana spam").await;
    let total = "select total::text from turno.inbox_stats('mail')";
    client.expect(total, "0").await;
    let missing = "select count(*)::text from turno.inbox_stats('mial')";
    assert_eq!(client.text(missing).await, "0", "no row of zeros");
}

/// A program of the previous version passes fewer arguments, and its lock history has no entries of other components.
#[tokio::test]
async fn the_version_before_goes_on() {
    let (_bed, client) = test_store().await;
    client.run(FAIL).await;
    client.run(ANSWER).await;
    for call in [
        "inbox_requeue('mail', null::bigint[], 1000)",
        "inbox_reset('mail', '0'::interval, 1000)",
        "outbox_requeue(null::uuid[], 1000)",
        "outbox_discard('{}'::uuid[], 'ana'::text)",
        "once_forget('pago/77')",
    ] {
        client.row(&format!("select turno.{call}")).await;
    }
    client.expect(MANY, "2").await;
    let locks = "select count(*)::text from turno.lock_history()";
    client.expect(locks, "0").await;
}

#[tokio::test]
async fn invalid_arguments_are_refused() {
    let (_bed, client) = test_store().await;
    client.run(FAIL).await;
    for call in [
        "inbox_requeue('mail', reason => '')",
        "inbox_requeue('mail', \"user\" => repeat('x', 256))",
        "inbox_requeue('mail', reason => repeat('x', 1001))",
        "inbox_discard('mail', null, reason => '')",
        "inbox_discard('mail', null, \"user\" => repeat('x', 256))",
        "inbox_discard('$outbox', null)",
        "inbox_reset('mail', reason => E'a\\nb')",
        "outbox_requeue(reason => E'a\\tb')",
        "outbox_discard('{}', \"user\" => null)",
        "outbox_discard('{}', reason => '')",
        "once_forget('pago/77', \"user\" => '')",
        "once_resolve('pago/77', \"user\" => '')",
        "once_resolve('pago/77', reason => repeat('x', 1001))",
        "history(part => 'outbax')",
    ] {
        let sql = format!("select turno.{call}");
        assert_eq!(client.code(&sql).await, "22023", "{call}");
    }
    client.expect(MANY, "0").await;
}
