//! Claims of one item, which are made side by side from separate connections.

use std::time::Duration;

use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row};
use turno_testkit::conformance::TestStore;
use turno_testkit::eventually_async;
use turno_testkit::sql::Sql;

use super::{change, test_store};

/// Longer than anything takes that ends at all.
const TIMEOUT: Duration = Duration::from_secs(60);

async fn all(client: &Client, sql: &str, parameters: &[&(dyn ToSql + Sync)]) -> Vec<Row> {
    client
        .query(sql, parameters)
        .await
        .unwrap_or_else(|error| panic!("{sql}: {error:?}"))
}

/// Claims one item, and returns its id and its claim.
async fn claim(client: &Client) -> Option<(i64, String)> {
    let sql = "select id, claim from turno.inbox_claim('work', 'w')";
    let rows = all(client, sql, &[]).await;
    rows.first().map(|row| (row.get(0), row.get(1)))
}

async fn push(client: &Client, many: i32) -> Vec<i64> {
    all(client, "select (turno.inbox_push('work', '{}', max_attempts => 100)).id from generate_series(1, $1)", &[&many]).await
        .iter()
        .map(|row| row.get(0))
        .collect()
}

/// A worker may do its work in the transaction of its claim: others claim meanwhile. A claim of several has to wait.
#[tokio::test]
async fn an_open_claim_of_one_keeps_no_other_waiting() {
    let (test_store, first) = test_store().await;
    let second = test_store.postgres_connection().await;
    let ids = push(&first, 3).await;
    first.run("begin").await;
    assert_eq!(claim(&first).await.unwrap().0, ids[0]);

    second.run("set lock_timeout = '100ms'").await;
    assert_eq!(claim(&second).await.unwrap().0, ids[1]);
    assert_eq!(
        second
            .code("select turno.inbox_claim('work', 'w', 2)")
            .await,
        "55P03"
    );

    first.run("rollback").await;
    assert_eq!(claim(&second).await.unwrap().0, ids[0]);
    assert_eq!(claim(&second).await.unwrap().0, ids[2]);
    assert!(claim(&second).await.is_none());
}

/// A claim of several passes over what was claimed in front of the cursor, and gets everything else.
#[tokio::test]
async fn a_claim_of_many_passes_over_what_is_claimed() {
    let (test_store, client) = test_store().await;
    let ids = push(&client, 40).await;
    for id in &ids[..3] {
        assert_eq!(claim(&client).await.unwrap().0, *id);
    }
    for limit in [5, 100] {
        let rows = all(
            &client,
            "select id from turno.inbox_claim('work', 'w', $1)",
            &[&limit],
        )
        .await;
        let got: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
        let expected = if limit == 5 { &ids[3..8] } else { &ids[8..] };
        assert_eq!(got, expected);
    }
    assert!(claim(&client).await.is_none());
    drop(test_store);
}

/// The due time of a claimed item is none, so an idle worker must not look for it again and again.
#[tokio::test]
async fn a_worker_sleeps_while_everything_is_claimed() {
    let (test_store, client) = test_store().await;
    push(&client, 2).await;
    claim(&client).await.unwrap();
    claim(&client).await.unwrap();
    // The first call sets the mark of the listener; what is due is in the next one.
    let due = eventually_async(TIMEOUT, "a due time", async || {
        let due: Option<f64> = client
            .row("select extract(epoch from due)::float8 from turno.inbox_idle('work')")
            .await
            .get(0);
        due.filter(|due| *due > 0.0)
    })
    .await;
    assert!((1.0..=30.0).contains(&due), "{due}");
    drop(test_store);
}

/// What the holder of the item did since the second claim read its snapshot.
#[derive(Clone, Copy, PartialEq)]
enum Meanwhile {
    Claimed,
    /// Claimed, and completed by a transaction that is open still.
    Completing,
    Completed,
}

/// The second look of a claim, which it takes when the item is locked for it.
const LOOKS_AGAIN: &str =
    "m.queue_priority, q, turno.inbox_ahead(), m.id, int8multirange(int8range(m.id, m.id, '[]')),
          inbox_claim_one.worker, clock_timestamp(), until
        from turno.inbox_item m
        where m.ctid = place
          and m.id = got.id
          and turno.inbox_is_ready(m.run_at)
          -- Not by \"on conflict\", which waits for a transaction that completes the item.
          and (
            select b.ahead_id
            from turno.inbox_claim b
            where b.queue_id = q
              and b.n = turno.inbox_ahead()
              and b.ahead_id = m.id) is null";
/// The same without it.
const LOOKS_ONCE: &str =
    "q * 4 + p, q, turno.inbox_ahead(), got.id, int8multirange(int8range(got.id, got.id, '[]')),
          inbox_claim_one.worker, clock_timestamp(), until";

/// Lets a second claim read its snapshot, and then wait until a first one has the same item. Returns what both got.
async fn race(test_store: &TestStore, meanwhile: Meanwhile, guarded: bool) -> (i64, Option<i64>) {
    let first = test_store.postgres_connection().await;
    let second = test_store.postgres_connection().await;
    let gate = test_store.postgres_connection().await;
    push(&first, 2).await;
    first
        .run(
            "create or replace function turno.inbox_may_claim(id bigint) returns boolean
             language plpgsql volatile as $$
             begin
               if current_setting('test.waits', true) = 'on' then
                 perform pg_advisory_xact_lock_shared(4711);
               end if;
               return pg_try_advisory_xact_lock(1953853039, (id & 2147483647)::integer);
             end $$",
        )
        .await;
    if !guarded {
        change(&first, "inbox_claim_one", LOOKS_AGAIN, LOOKS_ONCE).await;
        // It would refuse the second claim with an error.
        first
            .run(
                "drop index turno.inbox_claim_queue;
                  create index inbox_claim_queue on turno.inbox_claim (queue_id, n, ahead_id)",
            )
            .await;
    }
    gate.run("select pg_advisory_lock(4711)").await;
    second.run("set test.waits = 'on'").await;
    let racing = tokio::spawn(async move { claim(&second).await });
    eventually_async(TIMEOUT, "the second claim at the gate", async || {
        // Of this database: other tests have the same gate in theirs.
        let waits: bool = gate
            .row(
                "select exists (
                   select from pg_locks l
                   join pg_database d on d.oid = l.database
                   where d.datname = current_database()
                     and l.locktype = 'advisory'
                     and l.objid = 4711
                     and not l.granted)",
            )
            .await
            .get(0);
        waits.then_some(())
    })
    .await;
    let (id, held) = claim(&first).await.expect("an item");
    if meanwhile == Meanwhile::Completing {
        first.run("begin").await;
    }
    if meanwhile != Meanwhile::Claimed {
        all(&first, "select turno.inbox_complete($1::text)", &[&held]).await;
    }
    gate.run("select pg_advisory_unlock(4711)").await;
    // It does not wait for the transaction that completes the item.
    let second = racing.await.expect("the second claim");
    (id, second.map(|(id, _)| id))
}

#[tokio::test]
async fn an_item_that_is_claimed_or_done_meanwhile_is_not_claimed_again() {
    for meanwhile in [
        Meanwhile::Claimed,
        Meanwhile::Completing,
        Meanwhile::Completed,
    ] {
        let (test_store, _) = test_store().await;
        let (first, second) = race(&test_store, meanwhile, true).await;
        assert_eq!(second, Some(first + 1));
    }
}

/// The controls: without the second look, both have the item.
#[tokio::test]
async fn without_a_second_look_an_item_is_claimed_twice() {
    for meanwhile in [
        Meanwhile::Claimed,
        Meanwhile::Completing,
        Meanwhile::Completed,
    ] {
        let (test_store, _) = test_store().await;
        let (first, second) = race(&test_store, meanwhile, false).await;
        assert_eq!(second, Some(first));
    }
}

/// Pushes items, claims most of them one by one, and returns how many rows of `turno.inbox_claim` some more claims read. Each of
/// those has a shorter lease than the one before it, and so it moves the cursor.
async fn claims_read(client: &Client) -> u64 {
    push(client, 2100).await;
    client
        .run(
            "do $$
             begin
               for n in 1..2000 loop
                 perform turno.inbox_claim('work', 'w', 1, '1 hour');
                 commit;
               end loop;
             end $$",
        )
        .await;
    // No look behind the cursor, which reads them all, for a tenth of the time.
    client
        .run("update turno.inbox_cursor set late_at = clock_timestamp(), late_cost = '1 hour'")
        .await;
    // In a transaction, because the counters of this session are reset between transactions.
    client.run("begin").await;
    let read = async || -> u64 {
        let sql = "select (seq_tup_read + coalesce(idx_tup_fetch, 0))::text
            from pg_stat_xact_user_tables where relid = 'turno.inbox_claim'::regclass";
        client.text(sql).await.parse().expect("a number")
    };
    let before = read().await;
    for n in 0..20 {
        let sql = format!("select turno.inbox_claim('work', 'w', 1, '{} s')", 600 - n);
        client.run(&sql).await;
    }
    read().await - before
}

/// A claim that thousands have not completed costs what it costs otherwise.
#[tokio::test]
async fn a_claim_does_not_read_the_other_claims() {
    let (_test_store, client) = test_store().await;
    let rows = claims_read(&client).await;
    assert!(rows < 2000, "{rows} rows were read");
}

/// The control: with "not exists", each of them reads all claims.
#[tokio::test]
async fn a_claim_with_not_exists_reads_all_claims() {
    let (_test_store, client) = test_store().await;
    let looked_up = "and (\n          select b.ahead_id
          from turno.inbox_claim b
          where b.queue_id = c.queue_id
            and b.n = turno.inbox_ahead()
            and b.ahead_id = t.id) is null";
    let compared = looked_up
        .replace("and (", "and not exists (")
        .replace(" is null", "");
    change(&client, "inbox_upkeep", looked_up, &compared).await;
    let rows = claims_read(&client).await;
    assert!(rows > 20_000, "{rows} rows were read");
}

/// Claims an item while another transaction moves the cursor, so that the cursor does not say when the claim ends. The worker
/// vanishes, and others claim several at a time. Returns whether one of them gets the item when the claim has ended.
async fn is_taken_over(test_store: &TestStore, client: &Client, due: bool) -> bool {
    let mover = test_store.postgres_connection().await;
    let id = push(client, 1).await[0];
    if due {
        let (_, first) = claim(client).await.expect("an item");
        client
            .run(&format!("select turno.inbox_give_back(array['{first}'])"))
            .await;
    }
    client
        .run("update turno.inbox_cursor set expiry = 'infinity'")
        .await;
    mover
        .run("begin; select pg_advisory_xact_lock(1953853037, id) from turno.inbox_queue")
        .await;
    let sql = "select (turno.inbox_claim('work', 'vanishes', 1, '1 millisecond')).id::text";
    assert_eq!(client.text(sql).await, id.to_string());
    mover.run("rollback").await;
    // The first of these claims passes the item, and the second one finds the end of its claim.
    for _ in 0..2 {
        let sql = "select pg_sleep(0.002), turno.inbox_claim('work', 'w', 16)";
        if !all(client, sql, &[]).await.is_empty() {
            return true;
        }
    }
    false
}

#[tokio::test]
async fn a_claim_that_the_cursor_does_not_know_is_taken_over() {
    for due in [false, true] {
        let (test_store, client) = test_store().await;
        assert!(is_taken_over(&test_store, &client, due).await);
    }
}

/// The control: if the cursor's expiry is all that a claim of several looks at, the item is never claimed again.
#[tokio::test]
async fn with_the_cursor_alone_it_is_not() {
    let (test_store, client) = test_store().await;
    for looks_further in [
        "c.expiry := least(c.expiry, at.ahead_until);",
        "c.expiry := turno.inbox_first_end(c, until);",
    ] {
        change(&client, "inbox_claim_batch", looks_further, "").await;
    }
    for due in [false, true] {
        assert!(!is_taken_over(&test_store, &client, due).await);
    }
}

/// A worker ends an item and claims the next one in one call. If its claim is stale, the call fails and has claimed nothing.
#[tokio::test]
async fn an_item_is_completed_and_the_next_one_claimed() {
    let (_test_store, client) = test_store().await;
    let ids = push(&client, 3).await;
    let next = async |claim: Option<&str>, request: Option<&str>| {
        let sql = "select id, claim from turno.inbox_complete_and_claim($1, 'work', 'w', request => $2::text::uuid)";
        let rows = client.query(sql, &[&claim, &request]).await?;
        Ok::<_, tokio_postgres::Error>(rows.first().map(|row| (row.get(0), row.get(1))))
    };
    let (first, claim): (i64, String) = next(None, None).await.unwrap().unwrap();
    assert_eq!(first, ids[0]);

    // Repeated with its request, because its answer was lost: the same answer.
    let request = "0190f1f4-2b3c-7d4e-8f50-112233445566";
    let second = next(Some(&claim), Some(request)).await.unwrap();
    assert_eq!(next(Some(&claim), Some(request)).await.unwrap(), second);
    let (second, second_claim): (i64, String) = second.unwrap();
    assert_eq!(second, ids[1]);

    let error = next(Some(&claim), None).await.unwrap_err();
    assert_eq!(
        error.code().map(tokio_postgres::error::SqlState::code),
        Some("TN410")
    );
    client.expect("select pending || ' ' || processing || ' ' || completed from turno.inbox_stats('work')", "1 1 1").await;

    let (third, third_claim): (i64, String) =
        next(Some(&second_claim), None).await.unwrap().unwrap();
    assert_eq!(third, ids[2]);
    assert!(next(Some(&third_claim), None).await.unwrap().is_none());
    client
        .expect(
            "select total || ' ' || completed from turno.inbox_stats('work')",
            "3 3",
        )
        .await;
}

/// Pushes an urgent item while another transaction is the first to push one of the lowest priority: the row of the queue cannot say
/// that there are urgent items. Returns the item, and those that claims of one get afterwards.
async fn urgent_is_pushed(test_store: &TestStore, client: &Client) -> (i64, Vec<i64>) {
    let first = test_store.postgres_connection().await;
    push(client, 1).await;
    let (_, plain) = claim(client).await.expect("an item");
    all(client, "select turno.inbox_complete($1::text)", &[&plain]).await;
    first
        .run("begin; select turno.inbox_push('work', '1', priority => 3)")
        .await;
    let urgent = "select (turno.inbox_push('work', '1', priority => 0)).id::text";
    let urgent = client.text(urgent).await.parse().expect("an id");
    let mask = "select priority_mask::text from turno.inbox_queue where name = 'work'";
    client.expect(mask, "2").await;
    let claimed = claim(client).await;
    first.run("commit").await;
    // The push after that lets the row know.
    client
        .run("select turno.inbox_push('work', '1', priority => 0)")
        .await;
    client.expect(mask, "11").await;
    (urgent, claimed.into_iter().map(|(id, _)| id).collect())
}

#[tokio::test]
async fn an_item_of_a_new_kind_is_claimed_at_once() {
    let (test_store, client) = test_store().await;
    let (urgent, claimed) = urgent_is_pushed(&test_store, &client).await;
    assert_eq!(claimed, [urgent]);
}

/// Removes a claim's look at inbox_kind.
async fn believe_the_row_of_the_queue(client: &Client) {
    let look = "turno.inbox_queue_learn(q)";
    change(client, "inbox_claim_one", look, "false").await;
}

/// The control: if a claim believes the row of the queue, it finds nothing.
#[tokio::test]
async fn by_the_row_of_the_queue_alone_it_is_not() {
    let (test_store, client) = test_store().await;
    believe_the_row_of_the_queue(&client).await;
    let (_, claimed) = urgent_is_pushed(&test_store, &client).await;
    assert!(claimed.is_empty(), "{claimed:?}");
}

/// Pushes an urgent item beside an open transaction that is the first to push to a group. Others of the usual kind are pushed and claimed
/// all the time. Returns whether a claim of the next seconds gets the urgent one.
async fn urgent_is_claimed_beside_others(test_store: &TestStore, client: &Client) -> bool {
    let first = test_store.postgres_connection().await;
    push(client, 1).await;
    first
        .run("begin; select turno.inbox_push('work', '1', \"group\" => 'g')")
        .await;
    let urgent = "select (turno.inbox_push('work', '1', priority => 0)).id::text";
    let urgent: i64 = client.text(urgent).await.parse().expect("an id");
    let began = std::time::Instant::now();
    // A claim looks behind the cursor once a second.
    while began.elapsed() < Duration::from_secs(4) {
        push(client, 2).await;
        let (id, claim) = claim(client).await.expect("an item");
        all(client, "select turno.inbox_complete($1::text)", &[&claim]).await;
        if id == urgent {
            return true;
        }
    }
    false
}

#[tokio::test]
async fn an_item_of_a_new_kind_is_claimed_beside_others() {
    let (test_store, client) = test_store().await;
    assert!(urgent_is_claimed_beside_others(&test_store, &client).await);
}

/// The control: without a look at inbox_kind, it waits for the open transaction.
#[tokio::test]
async fn by_the_row_of_the_queue_alone_it_waits() {
    let (test_store, client) = test_store().await;
    believe_the_row_of_the_queue(&client).await;
    assert!(!urgent_is_claimed_beside_others(&test_store, &client).await);
}

/// Workers that claim one item or several, that roll back, give back and fail, beside pushes that commit late and out of order:
/// the work of each item is done once, and nothing is left.
#[tokio::test]
async fn each_item_is_done_once() {
    const PUSHERS: i32 = 4;
    const PUSHES: i32 = 150;
    const WORKERS: i64 = 8;
    let (test_store, client) = test_store().await;
    client
        .run("create table public.done (id bigint primary key)")
        .await;
    // So that the queue exists, and all claims are made side by side from the beginning.
    push(&client, 1).await;
    let mut tasks = tokio::task::JoinSet::new();
    for pusher in 0..PUSHERS {
        let client = test_store.postgres_connection().await;
        tasks.spawn(async move {
            for n in 0..PUSHES / 3 {
                client.run("begin").await;
                for _ in 0..3 {
                    push(&client, 1).await;
                    if (n + pusher) % 4 == 0 {
                        // Others push and claim while this transaction is open.
                        client.run("select pg_sleep(0.005)").await;
                    }
                }
                client.run("commit").await;
            }
        });
    }
    let total = i64::from(PUSHERS * (PUSHES / 3) * 3) + 1;
    for worker in 0..WORKERS {
        let client = test_store.postgres_connection().await;
        tasks.spawn(async move { work(&client, worker, total).await });
    }
    tokio::time::timeout(TIMEOUT, async {
        while let Some(task) = tasks.join_next().await {
            task.unwrap();
        }
    })
    .await
    .expect("all items are done");
    let left = client.row("select s.pending + s.scheduled + s.processing + s.failed, s.completed, (select count(*) from turno.inbox_claim)
         from turno.inbox_stats('work') s",
    )
    .await;
    assert_eq!(
        (
            left.get::<_, i64>(0),
            left.get::<_, i64>(1),
            left.get::<_, i64>(2)
        ),
        (0, total, 0)
    );
}

async fn work(client: &Client, worker: i64, total: i64) {
    for n in 0_i64.. {
        if client
            .row("select count(*) from public.done")
            .await
            .get::<_, i64>(0)
            == total
        {
            return;
        }
        let limit: i32 = if (n + worker) % 16 == 0 { 5 } else { 1 };
        client.run("begin").await;
        let rows = all(
            client,
            "select id, claim from turno.inbox_claim('work', 'w', $1)",
            &[&limit],
        )
        .await;
        if (n + worker) % 11 == 0 {
            client.run("rollback").await;
            continue;
        }
        client.run("commit").await;
        for row in rows {
            let (id, claim): (i64, String) = (row.get(0), row.get(1));
            let change = match (id + n) % 13 {
                0 => "select turno.inbox_give_back(array[$1])",
                1 => "select turno.inbox_fail(array[$1], 'no', '1 ms')",
                _ => {
                    client.run("begin").await;
                    client
                        .execute("insert into public.done values ($1)", &[&id])
                        .await
                        .unwrap_or_else(|error| panic!("{id} is done twice: {error:?}"));
                    all(client, "select turno.inbox_complete($1::text)", &[&claim]).await;
                    client.run("commit").await;
                    continue;
                }
            };
            all(client, change, &[&claim]).await;
        }
    }
}
