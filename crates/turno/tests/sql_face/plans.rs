//! The plans of the functions do not depend on statistics: a call reads few rows, also if the tables were analysed when they were
//! empty, or when hardly any row was what the call looks for.

use tokio_postgres::Client;
use turno_testkit::sql::Sql;

use super::{change, test_store};

/// Rows of each kind.
const ROWS: u64 = 10_000;
/// More than any of the calls has to read.
const FEW: u64 = 2_000;

/// When the tables were analysed.
#[derive(Debug, Clone, Copy)]
enum Analysed {
    Never,
    /// When each had a row or none.
    Empty,
    /// When all work was done, before new work came.
    Done,
}

/// One row of each kind.
const FIRST: &str = "
    select turno.lock_acquire('first', 'a');
    select turno.inbox_push('work', '1', key => 'first');
    select turno.inbox_push('grouped', '1', \"group\" => 'first');
    select turno.outbox_emit('first', '1', key => 'first');
    select turno.once_complete(claim, '1') from turno.once_begin('first')";

/// Work that is done: what is kept of it.
const DONE: &str = "
    select turno.lock_release(resource, token)
    from (select (turno.lock_acquire('done' || n, 'a')).* from generate_series(1, $rows) n) a;
    select turno.once_complete(claim, '1') from (select (turno.once_begin('done' || n)).claim from generate_series(1, $rows) n) o;
    select turno.inbox_push_batch('work', array_fill('1'::text, array[$rows]), array(select 'done' || n from generate_series(1, $rows) n));
    select turno.inbox_complete(array(select claim from turno.inbox_claim('work', 'w', 10000)));
    select turno.outbox_emit_batch(array_fill('t'::text, array[1000]), array_fill('1'::text, array[1000]));
    select turno.outbox_settle(token, (select range_agg(int8range(seq, seq, '[]')) from turno.outbox_claim('r', 1000, '1 hour', false, token)))
    from (values (gen_random_uuid())) t (token)";

/// Work that is to be done, and work that is being done.
const WORK: &str = "
    select turno.lock_acquire('held' || n, 'a') from generate_series(1, $rows) n;
    select turno.once_begin('held' || n) from generate_series(1, $rows) n;
    select turno.inbox_push_batch('work', array_fill('1'::text, array[$rows]), array(select 'key' || n from generate_series(1, $rows) n));
    do $$ begin for n in 1..3000 loop perform turno.inbox_claim('work', 'w'); commit; end loop; end $$;
    select turno.inbox_push_batch('grouped', array_fill('1'::text, array[$rows]), groups => array(select 'g' || n from generate_series(1, $rows) n));
    select turno.inbox_claim('grouped', 'w', 100);
    select turno.outbox_emit_batch(array_fill('t'::text, array[$rows]), array_fill('1'::text, array[$rows]), array(select 'k' || n from generate_series(1, $rows) n));
    create table public.locks as select resource, token from turno.lock where resource like 'held%' limit 64;
    create table public.runs as select key, token from turno.once where key like 'held%' limit 64";

/// Calls for one or for 64. Each is made in a transaction that is rolled back.
const CALLS: &[&str] = &[
    "select turno.lock_acquire('new', 'a')",
    "select turno.lock_release(resource, token) from (select (turno.lock_acquire('held1', 'a')).*) a",
    "select turno.lock_acquire_all(array['new1', 'new2', 'done1'], 'a')",
    "select turno.lock_acquire_batch(array(select k || n from generate_series(1, 20) n, (values ('new'), ('done'), ('held')) v (k)),
       array_fill('b'::text, array[60]), array_fill('30 s'::interval, array[60]), array_fill(null::text, array[60]), array_fill(null::text, array[60]),
       array_fill(null::text, array[60]), array_fill(null::text, array[60]), array_fill(null::integer, array[60]), array(select gen_random_uuid() from generate_series(1, 60)))",
    "select turno.lock_release_batch(array_agg(resource), array_agg(token), array_fill(null::uuid, array[64]), array(select gen_random_uuid() from generate_series(1, 64)))
       from public.locks",
    "select turno.lock_renew_batch(array_agg(resource), array_agg(token), array_fill('1 h'::interval, array[64]))
       from public.locks",
    "select turno.once_begin('new')",
    "select turno.once_begin_batch(array(select k || n from generate_series(1, 20) n, (values ('new'), ('done'), ('held')) v (k)),
       array_fill(null::text, array[60]), array_fill('30 s'::interval, array[60]), array_fill('1 d'::interval, array[60]), array_fill('refuse'::text, array[60]),
       array_fill(null::text, array[60]), array_fill(false, array[60]), array_fill(null::text, array[60]), array_fill(null::integer, array[60]), array(select gen_random_uuid() from generate_series(1, 60)))",
    "select turno.once_complete_batch(array_agg(key), array_agg(token), array_fill('1'::text, array[64]), array_fill(null::interval, array[64]))
       from public.runs",
    "select turno.inbox_push('work', '1')",
    "select turno.inbox_push('work', '1', key => 'key1')",
    "select turno.inbox_push_batch('work', array_fill('1'::text, array[64]), array(select 'key' || n from generate_series(1, 64) n))",
    "select turno.inbox_complete(claim) from turno.inbox_claim('work', 'w')",
    "select turno.inbox_complete(array_agg(claim)) from turno.inbox_claim('work', 'w', 10)",
    "select turno.inbox_complete(array_agg(claim)) from turno.inbox_claim('work', 'w', 64)",
    "select turno.inbox_complete(array_agg(claim)) from turno.inbox_claim('grouped', 'w', 64)",
    "select turno.inbox_fail(array_agg(claim), 'error') from turno.inbox_claim('work', 'w', 64)",
    "select turno.inbox_give_back(array_agg(claim)) from turno.inbox_claim('work', 'w', 64)",
    "select turno.inbox_extend(array_agg(claim), '1 minute') from turno.inbox_claim('work', 'w', 64)",
    "select turno.inbox_idle('work')",
    "select turno.outbox_emit('t', '1', key => 'k1')",
    "select turno.outbox_emit_batch(array_fill('t'::text, array[64]), array_fill('1'::text, array[64]), ids => array(select gen_random_uuid() from generate_series(1, 64)))",
    "select turno.outbox_settle(token, (select range_agg(int8range(seq, seq, '[]')) from turno.outbox_claim('r', 64, '1 minute', true, token)))
       from (values (gen_random_uuid())) t (token)",
    "select turno.seen('consumer', gen_random_uuid())",
];

/// Returns the rows of Turno's tables that each call reads, if it is more than a few.
async fn many_read(client: &Client) -> Vec<(u64, &'static str)> {
    let mut many = Vec::new();
    for call in CALLS {
        client.run("begin").await;
        let counted = async || -> u64 {
            let sql = "select sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::text from pg_stat_xact_user_tables where schemaname = 'turno'";
            client.text(sql).await.parse().expect("a number")
        };
        let before = counted().await;
        client.run(call).await;
        let read = counted().await - before;
        client.run("rollback").await;
        if read > FEW {
            many.push((read, *call));
        }
    }
    many
}

/// Returns a database with much work, whose statistics are wrong.
async fn filled(client: &Client, analysed: Analysed) {
    let off = "do $$ declare t regclass; begin
        for t in select c.oid from pg_class c where c.relnamespace = 'turno'::regnamespace and c.relkind = 'r' loop
          execute format('alter table %s set (autovacuum_enabled = off)', t);
        end loop; end $$";
    client.run(off).await;
    let analyse = "do $$ declare t regclass; begin
        for t in select c.oid from pg_class c where c.relnamespace = 'turno'::regnamespace and c.relkind = 'r' loop
          execute format('analyze %s', t);
        end loop; end $$";
    // One by one, because some are transactions of their own.
    let run_each = async |statements: &str| {
        for sql in statements.split(";\n") {
            client.run(&sql.replace("$rows", &ROWS.to_string())).await;
        }
    };
    client.run(FIRST).await;
    match analysed {
        Analysed::Never => {}
        Analysed::Empty => client.run(analyse).await,
        Analysed::Done => {
            run_each(DONE).await;
            client.run(analyse).await;
        }
    }
    run_each(WORK).await;
    // No look behind the cursors, which reads all claims, for a tenth of the time.
    let looked = "update turno.inbox_cursor set late_at = clock_timestamp(), late_cost = '1 hour'";
    client.run(looked).await;
}

#[tokio::test]
async fn a_call_reads_few_rows_whatever_the_statistics_say() {
    for analysed in [Analysed::Never, Analysed::Empty, Analysed::Done] {
        let (_test_store, client) = test_store().await;
        filled(&client, analysed).await;
        let many = many_read(&client).await;
        assert!(many.is_empty(), "{analysed:?}: {many:#?}");
    }
}

/// The control: as a join, the lookup of the rows of many completions reads all that are running.
#[tokio::test]
async fn a_join_reads_all_rows() {
    let (_test_store, client) = test_store().await;
    let lookup = "k.at
      from asked a
      cross join lateral (
        select t.ctid as at
        from turno.once t
        where t.key = a.key
          and t.token = a.token
          and t.state = 'running'
        for no key update skip locked) k)";
    let join = "k.ctid as at
      from asked a
      join turno.once k on k.key = a.key
      where k.token = a.token
        and k.state = 'running'
      for no key update of k skip locked)";
    change(&client, "once_complete_batch", lookup, join).await;
    filled(&client, Analysed::Empty).await;
    let many = many_read(&client).await;
    assert!(
        many.iter()
            .any(|(_, call)| call.contains("once_complete_batch")),
        "{many:#?}"
    );
}
