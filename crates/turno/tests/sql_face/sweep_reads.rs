//! A sweep that has nothing to delete reads few rows, however much is kept.

use tokio_postgres::Client;
use turno_testkit::sql::Sql;

use super::{change, test_store};

/// Rows of each kind that are kept.
const ROWS: u64 = 10_000;
/// Rows that a sweep may delete at once.
const BATCH: u64 = 100;

/// What is kept, all of it young.
const KEPT: &[&str] = &[
    "select turno.inbox_push('work', '1', key => 'first')",
    "insert into turno.inbox_done (request, token, queue_id, at, worker, ids)
     select gen_random_uuid(), gen_random_uuid(), q.id, now(), 'w', int8multirange(int8range(n, n, '[]'))
     from turno.inbox_queue q, generate_series(1, $rows) n where q.name = 'work'",
    "insert into turno.inbox_key (queue_id, key, id, done_at)
     select q.id, 'k' || n, n, now() from turno.inbox_queue q, generate_series(1, $rows) n where q.name = 'work'",
    "insert into turno.inbox_request (request, at, answer) select gen_random_uuid(), $at, '1' from generate_series(1, $rows) n",
    "insert into turno.inbox_failed (id, queue_priority, failed_at, pushed_at, attempts, abandoned, max_attempts, payload)
     select n + 1000000, q.id * 4, now(), now(), 1, 0, 1, '1' from turno.inbox_queue q, generate_series(1, $rows) n where q.name = 'work'",
    "insert into turno.outbox_sent (at, outcome, \"by\", ids)
     select now(), 'dispatched', 'r', array[gen_random_uuid()] from generate_series(1, $rows)",
    "insert into turno.outbox_archive (id, seq, emitted_at, dispatched_at, relay, event)
     select gen_random_uuid(), n, now(), $at, 'r', '1' from generate_series(1, $rows) n",
    "insert into turno.seen (consumer, event_id, at) select 'c', gen_random_uuid(), $at from generate_series(1, $rows) n",
    "insert into turno.once (key, state, token, attempt, request, began_at, until, ttl, sweep_at)
     select 'k' || n, 'done', n, 1, gen_random_uuid(), now(), now() + interval '1 day', '1 day', now() + interval '1 day'
     from generate_series(1, $rows) n",
    "insert into turno.lock_history (event, resource, token, mode) select 'released', 'r' || n, n, 'exclusive' from generate_series(1, $rows) n",
    "insert into turno.operator_action (id, at, part, event, resource, count) select n, now(), 'inbox', 'discarded', 'r', 1 from generate_series(1, $rows) n",
    // Deleted by an earlier sweep.
    "delete from turno.inbox_request where at < now() - interval '1 year'",
    "delete from turno.outbox_archive where dispatched_at < now() - interval '1 year'",
    "delete from turno.seen where at < now() - interval '1 year'",
];
/// The time of a row, in tables where old rows lay among the others.
const AT: &str = "now() - case when n % 50 = 0 then interval '2 years' else '0 s' end";

/// Returns how many rows of each table a sweep reads, if it is many.
async fn many_read(client: &Client) -> String {
    for sql in KEPT {
        let sql = sql.replace("$rows", &ROWS.to_string());
        client.run(&sql.replace("$at", AT)).await;
    }
    client.run("begin").await;
    client
        .run(&format!(
            "select turno.sweep(batch => {BATCH}, keep_failed => '7 days')"
        ))
        .await;
    let many = client
        .text(&format!(
            "select coalesce(string_agg(format('%s of %s', seq_tup_read + coalesce(idx_tup_fetch, 0), relname), ', ' order by relname), '')
             from pg_stat_xact_user_tables
             where schemaname = 'turno' and seq_tup_read + coalesce(idx_tup_fetch, 0) > {}",
            // Found, and looked up again.
            2 * BATCH
        ))
        .await;
    client.run("rollback").await;
    many
}

#[tokio::test]
async fn a_sweep_reads_few_rows() {
    let (_test_store, client) = test_store().await;
    assert_eq!(many_read(&client).await, "");
    // Statistics of empty tables change nothing.
    let (_test_store, client) = test_store().await;
    client.run("analyze").await;
    assert_eq!(many_read(&client).await, "");
}

/// The control: with an index that knows only the oldest row of many pages, all rows are read where others were deleted.
#[tokio::test]
async fn with_brin_indexes_it_reads_all() {
    let (_test_store, client) = test_store().await;
    for (index, table, column) in [
        ("inbox_request_at", "inbox_request", "at"),
        ("outbox_archive_at", "outbox_archive", "dispatched_at"),
        ("seen_at", "seen", "at"),
    ] {
        let sql = format!(
            "drop index turno.{index}; create index {index} on turno.{table} using brin ({column})"
        );
        client.run(&sql).await;
    }
    let many = many_read(&client).await;
    for table in ["inbox_request", "outbox_archive", "seen"] {
        assert!(many.contains(&format!(" of {table}")), "{table}: {many}");
    }
}

/// A sweep that found fewer than it may delete is the last one: what becomes old meanwhile waits for the next.
#[tokio::test]
async fn a_sweep_ends_under_a_steady_load() {
    let (test_store, client) = test_store().await;
    client
        .run(
            "create table public.swept (n bigserial); grant insert on public.swept to public;
             create function public.count() returns trigger language plpgsql security definer
             as $$ begin insert into public.swept default values; return null; end $$;
             create trigger count after update on turno.sweep_last execute function public.count();
             insert into turno.inbox_request (request, at, answer)
             select gen_random_uuid(), now() - interval '1 day', '1' from generate_series(1, 25)",
        )
        .await;
    let turno = test_store.turno().await;
    let sweep = turno::lock::Sweep {
        batch: 10,
        ..Default::default()
    };
    assert_eq!(turno.sweep(&sweep).await.unwrap().completed, 25);
    // With 10, 10 and 5 rows.
    assert_eq!(client.number("select count(*) from public.swept").await, 3);
}

/// The control: with a clock in the statement, or without the order of time, all rows are read.
#[tokio::test]
async fn with_a_clock_in_the_statement_it_reads_all() {
    let (_test_store, client) = test_store().await;
    for (function, from, to) in [
        (
            "inbox_sweep",
            "t.at < before",
            "t.at < clock_timestamp() - keep_completed",
        ),
        (
            "inbox_sweep",
            "t.done_at < before",
            "t.done_at < clock_timestamp() - keep_completed",
        ),
        (
            "inbox_sweep",
            "t.at < answered",
            "t.at < clock_timestamp() - interval '10 minutes'",
        ),
        (
            "inbox_sweep_failed",
            "f.failed_at < before",
            "f.failed_at < clock_timestamp() - keep_failed",
        ),
        (
            "outbox_sweep",
            "t.dispatched_at < archived_before",
            "t.dispatched_at < clock_timestamp() - keep_archive",
        ),
        (
            "outbox_sweep",
            "t.at < seen_before",
            "t.at < clock_timestamp() - keep_seen",
        ),
        (
            "once_sweep",
            "t.sweep_at < now_at",
            "t.sweep_at < clock_timestamp()",
        ),
        (
            "history_sweep",
            "order by t.id\n      limit batch",
            "offset 0",
        ),
        (
            "outbox_sweep",
            "order by t.n\n      limit batch",
            "offset 0",
        ),
    ] {
        change(&client, function, from, to).await;
    }
    let many = many_read(&client).await;
    for table in [
        "inbox_done",
        "inbox_failed",
        "inbox_key",
        "inbox_request",
        "lock_history",
        "once",
        "operator_action",
        "outbox_archive",
        "outbox_sent",
        "seen",
    ] {
        assert!(many.contains(&format!(" of {table}")), "{table}: {many}");
    }
}
