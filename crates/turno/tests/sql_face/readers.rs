//! Shared holds that end while the gate, the lock row that they share, is locked by another transaction.

use tokio_postgres::Client;
use turno_testkit::Sql as _;
use turno_testkit::conformance::TestStore;

use super::test_store;

async fn reader(client: &Client, owner: &str) -> i64 {
    let acquire = format!(
        "select token from turno.lock_acquire('r', owner => '{owner}', mode => 'shared', ttl => '1 hour')"
    );
    client.row(&acquire).await.get(0)
}

async fn release(client: &Client, token: i64) {
    let release = format!("select outcome from turno.lock_release('r', {token})");
    client.expect(&release, "released").await;
}

/// Two readers release in overlapping transactions: the first locks the gate and counts the second, which then finds the gate
/// locked. Returns the second one's token.
async fn release_together(test_store: &TestStore, client: &Client) -> i64 {
    let (a, b) = (reader(client, "a").await, reader(client, "b").await);
    let open = test_store.postgres_connection().await;
    open.batch_execute("begin")
        .await
        .expect("a transaction begins");
    release(&open, a).await;
    release(client, b).await;
    open.batch_execute("commit")
        .await
        .expect("a transaction ends");
    b
}

const WRITERS: [&str; 3] = [
    "select outcome from turno.lock_acquire('r', owner => 'w')",
    "select outcome from turno.lock_acquire_all(array['q', 'r'], owner => 'w') where resource = 'r'",
    "select (answer).outcome from turno.lock_acquire_batch(array['r'], array['w'], array[interval '1 hour'], array[null], \
     array[null], array[null], array[null], array[null::integer], array[gen_random_uuid()])",
];

#[tokio::test]
async fn readers_that_release_together_leave_the_lock_free() {
    for writer in WRITERS {
        let (test_store, client) = test_store().await;
        let token = release_together(&test_store, &client).await;
        let listed = "select count(*) from turno.lock_list()";
        assert_eq!(client.number(listed).await, 0);
        let broken = format!("select turno.lock_break('r', {token}, 'stuck')");
        client.expect(&broken, "not_held").await;
        let outcome = client.text(writer).await;
        // A batch does not wait, and leaves this call to be made alone.
        let later = outcome == "later" && writer.contains("batch");
        assert!(outcome == "acquired" || later, "{outcome}: {writer}");
        if later {
            client.expect(WRITERS[0], "acquired").await;
        }
        let held = "select count(*) from turno.lock_hold";
        assert_eq!(client.number(held).await, 0);
    }
}

/// The control: a writer that trusts the gate is rejected until the lease of a released reader would have expired.
#[tokio::test]
async fn a_writer_that_trusts_the_gate_is_kept_out() {
    for writer in &WRITERS[..2] {
        let (test_store, client) = test_store().await;
        let trust = "create or replace function turno.lock_is_shared(resource text) returns boolean language sql volatile as
            'select t.holds > 0 and t.expires_at > clock_timestamp() from turno.lock t where t.resource = $1'";
        client.run(trust).await;
        release_together(&test_store, &client).await;
        client.expect(writer, "busy").await;
    }
}

/// A reader behind a waiting writer waits for that writer's registration, which may expire before any lease does.
#[tokio::test]
async fn a_reader_behind_a_line_looks_when_its_first_place_lapses() {
    let (_bed, client) = test_store().await;
    let a = reader(&client, "a").await;
    let _b = reader(&client, "b").await;
    let line = "select turno.lock_wait('r', 'w', fifo => true)";
    assert!(client.row(line).await.get::<_, bool>(0));
    let next = "select remaining > '59 minutes', remaining <= '10 seconds'
        from turno.lock_acquire('r', owner => 'c', mode => 'shared') where outcome = 'busy'";
    assert!(client.row(next).await.get::<_, bool>(0));
    // The writer has died, and a release gives its registration ten seconds.
    release(&client, a).await;
    assert!(client.row(next).await.get::<_, bool>(1));
}

/// A hold that is being released cannot be acquired reentrantly: the owner gets a new one.
#[tokio::test]
async fn a_hold_that_is_being_released_is_not_entered_again() {
    let (test_store, client) = test_store().await;
    let first = reader(&client, "a").await;
    let open = test_store.postgres_connection().await;
    open.run("begin").await;
    // Locks the hold, and not the gate, which another transaction has locked.
    let gate = test_store.postgres_connection().await;
    gate.run("begin; select from turno.lock where resource = 'r' for update")
        .await;
    release(&open, first).await;
    gate.run("commit").await;
    let again = tokio::spawn(async move { reader(&client, "a").await });
    let watcher = test_store.postgres_connection().await;
    let waits = "select exists (select from pg_stat_activity
        where datname = current_database() and wait_event_type = 'Lock')";
    turno_testkit::eventually_async(
        std::time::Duration::from_secs(60),
        "a re-entry that waits for the release",
        async || watcher.row(waits).await.get::<_, bool>(0).then_some(()),
    )
    .await;
    open.run("commit").await;
    assert!(again.await.unwrap() > first);
}
