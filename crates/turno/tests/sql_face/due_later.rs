//! A queue with many items that are due later: calls do not read them all.

use tokio_postgres::Client;
use turno_testkit::sql::Sql;

use super::{change, test_store};

const ITEMS: u64 = 5000;

/// Calls that look for items of the queue, and find none.
const CALLS: &[&str] = &[
    "select * from turno.inbox_claim('work', 'w')",
    "select * from turno.inbox_claim('work', 'w', 10)",
    "select * from turno.inbox_claim('work', 'w', 100)",
    "select * from turno.inbox_idle('work')",
    "select * from turno.inbox_stats('work')",
];

/// Returns how many items each of the calls reads, after each has been made once.
async fn items_read(client: &Client) -> Vec<u64> {
    client
        .run(&format!(
            "select turno.inbox_push('work', '1');
             select turno.inbox_push_batch('work', array_fill('1'::text, array[{ITEMS}]), delays => array_fill('1 hour'::interval, array[{ITEMS}]))",
        ))
        .await;
    let first = "select claim from turno.inbox_claim('work', 'w')";
    let first = client.text(first).await;
    client
        .run(&format!("select turno.inbox_complete('{first}')"))
        .await;
    let mut read = Vec::new();
    for call in CALLS {
        // The first one may have to pass them, and the second one looks once for what was committed late.
        for _ in 0..2 {
            client.run(call).await;
        }
        // On a slow machine, the time for the next such look could come before the call.
        client
            .run("update turno.inbox_cursor set late_at = clock_timestamp(), late_cost = interval '1 hour'")
            .await;
        // In a transaction, because the counters of this session are reset between transactions.
        client.run("begin").await;
        let counted = async || -> u64 {
            let sql = "select (seq_tup_read + coalesce(idx_tup_fetch, 0))::text
                from pg_stat_xact_user_tables where relid = 'turno.inbox_item'::regclass";
            client.text(sql).await.parse().expect("a number")
        };
        let before = counted().await;
        client.run(call).await;
        read.push(counted().await - before);
        client.run("commit").await;
    }
    read
}

#[tokio::test]
async fn what_is_due_later_is_not_read() {
    let (_test_store, client) = test_store().await;
    let read = items_read(&client).await;
    assert!(read.iter().all(|items| *items < 100), "{read:?}");
}

/// The controls: with a time that may change during the statement, the whole index is read; and without moving the cursor, all items.
#[tokio::test]
async fn with_a_clock_in_the_statement_it_is() {
    let (_test_store, client) = test_store().await;
    let clock = "turno.inbox_is_due(t.run_at, clock_timestamp())";
    let at = "turno.inbox_is_due(t.run_at, now_at)";
    for (function, from, to) in [
        ("inbox_claim_batch", at, clock),
        ("inbox_claim_one", "if behind or passed", "if false"),
    ] {
        change(&client, function, from, to).await;
    }
    let read = items_read(&client).await;
    for call in 0..3 {
        assert!(read[call] >= ITEMS, "{}: {read:?}", CALLS[call]);
    }
}
