//! While a transaction is open for long, the search for expired claims reads the claims that have ended since it began. It reads
//! them once.

use std::time::Duration;

use tokio_postgres::Client;
use turno_testkit::conformance::TestStore;
use turno_testkit::eventually_async;
use turno_testkit::sql::Sql;

use super::{change, test_store};

const ENDED: i64 = 1000;

/// Ends claims under a held snapshot, and returns how many of them the search for an expired one reads.
async fn read(test_store: &TestStore, observer: &Client) -> i64 {
    let holder = test_store.postgres_connection().await;
    holder
        .run("begin isolation level repeatable read; select count(*) from turno.inbox_claim")
        .await;
    let client = test_store.postgres_connection().await;
    client
        .run("select turno.inbox_push('work', '{}') from generate_series(1, 2001)")
        .await;
    let work = format!(
        "do $$
         begin
           for n in 1..{ENDED} loop
             perform turno.inbox_complete(array_agg(i.claim)) from turno.inbox_claim('work', 'w', 2) i;
             commit;
           end loop;
         end $$"
    );
    client.run(&work).await;
    client
        .run("select turno.inbox_claim('work', 'vanishes', 2, '1 ms')")
        .await;
    let before = entries_read(observer, client).await;
    let client = test_store.postgres_connection().await;
    let search =
        "select turno.inbox_upkeep(id, priority_mask, false, clock_timestamp() + interval '1 hour')
        from turno.inbox_queue where name = 'work'";
    client.run(search).await;
    let after = entries_read(observer, client).await;
    let stats = "select pending || ' ' || processing from turno.inbox_stats('work')";
    observer.expect(stats, "1 0").await;
    drop(holder);
    after - before
}

/// How many index entries of claims were read since the beginning. A session reports what it read when it ends.
async fn entries_read(observer: &Client, session: Client) -> i64 {
    let pid: i32 = session.row("select pg_backend_pid()").await.get(0);
    drop(session);
    eventually_async(
        Duration::from_secs(60),
        "the end of a session",
        async || {
            let sql = "select from pg_stat_activity where pid = $1";
            let rows = observer.query(sql, &[&pid]).await.expect("sessions");
            rows.is_empty().then_some(())
        },
    )
    .await;
    let sql = "select sum(idx_tup_read)::bigint from pg_stat_user_indexes where relid = 'turno.inbox_claim'::regclass";
    observer.row(sql).await.get(0)
}

#[tokio::test]
async fn ended_claims_are_read_once() {
    let (test_store, client) = test_store().await;
    let once = read(&test_store, &client).await;
    let expected = ENDED..ENDED * 2;
    assert!(expected.contains(&once), "{once} entries");
}

/// The control: a search that then asks for the first end reads them again.
#[tokio::test]
async fn with_a_second_search_they_are_read_twice() {
    let (test_store, client) = test_store().await;
    let search = "c.expiry := turno.inbox_abandon(c.queue_id);";
    let again = format!(
        "{search} c.expiry := turno.inbox_first_end(c, clock_timestamp() - interval '1 hour');"
    );
    change(&client, "inbox_upkeep", search, &again).await;
    let twice = read(&test_store, &client).await;
    assert!(twice >= ENDED * 2, "{twice} entries");
}
