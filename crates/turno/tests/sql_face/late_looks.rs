//! Claims look for items that were committed late, behind the cursor. A look that took long puts off the next one, but not for long.

use tokio_postgres::Client;
use turno_testkit::conformance::TestStore;
use turno_testkit::sql::Sql;

use super::{change, test_store};

/// Commits an item late, after a look that seemed to take an hour, because the clock was set forward meanwhile. Returns how many items
/// a claim finds half a minute after that look.
async fn found(test_store: &TestStore, client: &Client, queue: &str, limit: u32) -> i64 {
    // The first push of a queue creates it, and others wait for that.
    client
        .run(&format!("select turno.inbox_push('{queue}', '0')"))
        .await;
    let late = test_store.postgres_connection().await;
    late.run(&format!(
        "begin; select turno.inbox_push('{queue}', '\"late\"')"
    ))
    .await;
    client
        .run(&format!("select turno.inbox_push('{queue}', '1')"))
        .await;
    let claim = format!("select count(*) from turno.inbox_claim('{queue}', 'w', 2)");
    assert_eq!(client.number(&claim).await, 2);
    late.run("commit").await;
    client
        .run(&format!(
            "update turno.inbox_cursor
            set late_at = clock_timestamp() - interval '30 seconds', late_cost = '1 hour', expiry = 'infinity'
            where queue_id = turno.inbox_queue_id('{queue}')"
        ))
        .await;
    let due = format!("select coalesce(turno.inbox_next_due('{queue}', '0') <= '0', false)::text");
    let is_due = client.text(&due).await == "true";
    let claim = format!("select count(*) from turno.inbox_claim('{queue}', 'w', {limit})");
    let found = client.number(&claim).await;
    assert_eq!(found == 1, is_due, "a worker that sleeps looks, too");
    found
}

#[tokio::test]
async fn a_look_that_seemed_long_does_not_put_off_the_next() {
    let (test_store, client) = test_store().await;
    assert_eq!(found(&test_store, &client, "one", 1).await, 1);
    assert_eq!(found(&test_store, &client, "many", 10).await, 1);
}

/// The control: ten times as long as it seemed.
#[tokio::test]
async fn without_a_limit_it_does() {
    let (test_store, client) = test_store().await;
    change(&client, "inbox_next_look", "'20 seconds'", "'1 year'").await;
    assert_eq!(found(&test_store, &client, "one", 1).await, 0);
    assert_eq!(found(&test_store, &client, "many", 10).await, 0);
}
