//! The SQL face: the functions of schema `turno`, as any language calls them.

use std::time::Duration;

use tokio_postgres::{Client, Row};
use turno::lock::{BreakOutcome, ReleaseOutcome};
use turno_testkit::conformance::Bed;

/// The functions that callers may use; everything else in the schema is internal.
const PUBLIC: [&str; 13] = [
    "lock_acquire", "lock_acquire_all", "lock_break", "lock_guard", "lock_history", "lock_leave", "lock_list", "lock_release",
    "lock_renew", "lock_status", "lock_wait", "schema_version", "sweep",
];

async fn bed() -> (Bed, Client) {
    let bed = Bed::postgres();
    bed.turno().await.close().await;
    let client = bed.postgres_connection().await;
    (bed, client)
}

async fn one(client: &Client, sql: &str) -> Row {
    client.query_one(sql, &[]).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"))
}

async fn word(client: &Client, sql: &str) -> String {
    one(client, sql).await.get(0)
}

async fn code(client: &Client, sql: &str) -> String {
    let error = client.query(sql, &[]).await.expect_err(sql);
    error.code().unwrap_or_else(|| panic!("{sql}: {error:?}")).code().to_owned()
}

#[tokio::test]
async fn arguments_are_named_and_have_defaults() {
    let (_bed, client) = bed().await;
    let row = one(&client, "select outcome, token, holds, owner, expires_at - acquired_at = '30 seconds', remaining > '29 seconds' \
                            from turno.lock_acquire('r')").await;
    assert_eq!((row.get::<_, &str>(0), row.get::<_, i32>(2)), ("acquired", 1));
    assert!(!row.get::<_, String>(3).is_empty(), "an owner is made up");
    assert!(row.get::<_, bool>(5));
    let token: i64 = row.get(1);
    let row = one(&client, "select outcome, token, \"user\" from turno.lock_acquire(resource => 'r', \"user\" => '2', ttl => '5 minutes')").await;
    assert_eq!((row.get::<_, &str>(0), row.get::<_, Option<i64>>(1)), ("busy", None));
    assert_eq!(word(&client, &format!("select outcome from turno.lock_renew('r', {token})")).await, "renewed");
    assert_eq!(word(&client, &format!("select outcome from turno.lock_release('r', {token})")).await, "released");
    assert_eq!(word(&client, &format!("select outcome from turno.lock_release(resource => 'r', token => {token})")).await, "lost");
    let row = one(&client, "select outcome, token from turno.lock_acquire('r', owner => 'o', service => 's', description => 'd', \
                            \"user\" => '1', mode => 'shared', min_hold => '1 s', max_hold => '1 min')").await;
    assert_eq!(row.get::<_, &str>(0), "acquired");
    let token: i64 = row.get(1);
    assert_eq!(word(&client, &format!("select turno.lock_break('r', {token}, 'why', \"user\" => 'admin')")).await, "broken");
    let row = one(&client, "select actor, reason, \"user\" from turno.lock_history('r') limit 1").await;
    assert_eq!((row.get::<_, &str>(0), row.get::<_, &str>(1), row.get::<_, &str>(2)), ("admin", "why", "1"));
    assert_eq!(one(&client, "select expired, purged from turno.sweep()").await.get::<_, i64>(0), 0);
    assert_eq!(client.query("select * from turno.lock_acquire_all(array['b', 'a'])", &[]).await.unwrap().len(), 2);
    assert!(!one(&client, "select locked from turno.lock_status('free')").await.get::<_, bool>(0));
    assert_eq!(client.query("select * from turno.lock_list()", &[]).await.unwrap().len(), 2);
}

#[tokio::test]
async fn every_public_function_is_documented_and_safe_to_call() {
    let (_bed, client) = bed().await;
    let rows = client
        .query(
            "select proname::text, prosecdef, obj_description(oid, 'pg_proc'), proconfig::text, pronargs = pronargdefaults \
             from pg_proc where pronamespace = 'turno'::regnamespace order by 1",
            &[],
        )
        .await
        .unwrap();
    let mut public = Vec::new();
    for row in &rows {
        let (name, definer): (String, bool) = (row.get(0), row.get(1));
        if !definer {
            assert!(!PUBLIC.contains(&name.as_str()), "{name} does not run as its owner");
            continue;
        }
        assert!(row.get::<_, Option<String>>(2).is_some_and(|comment| comment.len() > 10), "{name} has no comment");
        assert_eq!(row.get::<_, Option<String>>(3).as_deref(), Some("{\"search_path=pg_catalog, pg_temp\"}"), "{name}");
        public.push(name);
    }
    assert_eq!(public, PUBLIC);
}

#[tokio::test]
async fn the_role_may_call_and_nothing_else() {
    let (_bed, client) = bed().await;
    client.batch_execute("set role turno_app").await.unwrap();
    let token: i64 = one(&client, "select token from turno.lock_acquire('r', owner => 'a')").await.get(0);
    for sql in [
        "select * from turno.lock_acquire('r', wait => '10 ms')".to_owned(),
        "select * from turno.lock_acquire('s', mode => 'shared')".into(),
        "select * from turno.lock_acquire_all(array['x', 'y'])".into(),
        format!("select * from turno.lock_renew('r', {token})"),
        "select turno.lock_wait('r', 'w', true)".into(),
        "select turno.lock_leave('r', 'w')".into(),
        format!("select turno.lock_guard('r', {token})"),
        "select * from turno.lock_status('r')".into(),
        "select * from turno.lock_list()".into(),
        "select * from turno.lock_history()".into(),
        format!("select turno.lock_break('r', {token}, 'why')"),
        format!("select * from turno.lock_release('r', {token})"),
        "select * from turno.sweep()".into(),
        "select turno.schema_version()".into(),
    ] {
        client.query(&sql, &[]).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    }
    client.batch_execute("reset role").await.unwrap();
    let all = client
        .query("select relname::text from pg_class where relnamespace = 'turno'::regnamespace and relkind in ('r', 'v', 'S')", &[])
        .await
        .unwrap();
    let internal = client
        .query("select oid::regprocedure::text from pg_proc where pronamespace = 'turno'::regnamespace and not prosecdef", &[])
        .await
        .unwrap();
    assert!(all.len() > 6 && internal.len() > 10);
    for relation in &all {
        for right in ["select", "insert", "update", "delete", "truncate"] {
            let relation: &str = relation.get(0);
            let sequence = relation.ends_with("_seq");
            let asks = if sequence { "has_sequence_privilege" } else { "has_table_privilege" };
            if sequence && !["select", "update"].contains(&right) {
                continue;
            }
            let sql = format!("select {asks}('turno_app', 'turno.{relation}', '{right}')");
            assert!(!one(&client, &sql).await.get::<_, bool>(0), "{right} on {relation}");
        }
    }
    for function in &internal {
        let function: &str = function.get(0);
        let may = one(&client, &format!("select has_function_privilege('turno_app', '{function}', 'execute')")).await;
        assert!(!may.get::<_, bool>(0), "{function} is internal");
        let may = one(&client, &format!("select has_function_privilege('public', '{function}', 'execute')")).await;
        assert!(!may.get::<_, bool>(0), "{function} is internal");
    }
    client.batch_execute("set role turno_app").await.unwrap();
    assert_eq!(code(&client, "select * from turno.lock").await, "42501");
    assert_eq!(code(&client, "delete from turno.lock_history").await, "42501");
    assert_eq!(code(&client, "select turno.lock_tick()").await, "42501");
}

#[tokio::test]
async fn arguments_are_checked_on_every_path() {
    let (_bed, client) = bed().await;
    for sql in ["select turno.lock_release('free', (turno.lock_acquire('free')).token)", "select turno.lock_acquire('held', owner => 'a')"] {
        client.query(sql, &[]).await.unwrap();
    }
    let long = "x".repeat(256);
    let arguments = [
        "owner => ''".to_owned(),
        format!("owner => '{long}'"),
        "owner => E'a\\nb'".into(),
        "\"user\" => ''".into(),
        format!("\"user\" => '{long}'"),
        "service => ''".into(),
        "service => E'\\u0085'".into(),
        "description => ''".into(),
        format!("description => '{}'", "x".repeat(1001)),
        "host => ''".into(),
        "ttl => '0'".into(),
        "ttl => '-1 s'".into(),
        "ttl => '25 hours'".into(),
        "ttl => null".into(),
        "min_hold => '-1 s'".into(),
        "min_hold => '1 hour'".into(),
        "max_hold => '0'".into(),
        "mode => 'other'".into(),
        "mode => null".into(),
        "permits => 0".into(),
        "permits => 10001".into(),
        "wait => '-1 s'".into(),
        "wait => '6 minutes'".into(),
    ];
    for argument in &arguments {
        for resource in ["free", "new"] {
            let sql = format!("select * from turno.lock_acquire('{resource}', {argument})");
            let sql = if argument.contains("owner") { sql } else { sql.replace(')', ", owner => 'b')") };
            assert_eq!(code(&client, &sql).await, "22023", "{sql}");
        }
    }
    for resource in ["''".to_owned(), "null".into(), format!("'{long}'"), "E'a\\tb'".into()] {
        for call in ["turno.lock_acquire(R)", "turno.lock_acquire(R, mode => 'shared')", "turno.lock_acquire_all(array[R])", "turno.lock_wait(R, 'w')"] {
            let sql = format!("select * from {}", call.replace('R', &resource));
            assert_eq!(code(&client, &sql).await, "22023", "{sql}");
        }
    }
    for sql in [
        "select turno.lock_acquire_all('{}')",
        "select turno.lock_acquire_all(null)",
        "select turno.lock_acquire_all(array['a', null])",
        "select turno.lock_renew('held', 1, '0')",
        "select turno.lock_renew('held', 1, null)",
        "select turno.lock_renew('held', 1, '25 hours')",
        "select turno.lock_break('held', 1, '')",
        "select turno.lock_break('held', 1, null)",
        "select turno.lock_break('held', 1, 'why', '')",
        "select turno.sweep('-1 s')",
        "select turno.sweep(batch => 0)",
    ] {
        assert_eq!(code(&client, sql).await, "22023", "{sql}");
    }
    let rows: i64 = one(&client, "select count(*) from turno.lock").await.get(0);
    assert_eq!(rows, 2, "nothing was stored");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_in_sql_sees_a_release_and_does_not_block_it() {
    let (bed, holder) = bed().await;
    let waiter = bed.postgres_connection().await;
    for mode in ["exclusive", "shared"] {
        let resource = format!("wait/{mode}");
        let token: i64 = one(&holder, &format!("select token from turno.lock_acquire('{resource}', owner => 'a')")).await.get(0);
        let sql = format!("select outcome from turno.lock_acquire('{resource}', owner => 'b', mode => '{mode}', wait => '30 s')");
        let sees = async {
            let row = waiter.query_one(&sql, &[]).await.unwrap();
            row.get::<_, String>(0)
        };
        let releases = async {
            // The waiter is inside its call by now.
            let asleep = "select count(*) from pg_stat_activity where query like '%wait => ''30 s''%' and wait_event = 'PgSleep'";
            while one(&holder, asleep).await.get::<_, i64>(0) == 0 {}
            holder.batch_execute("set statement_timeout = '5 s'").await.unwrap();
            word(&holder, &format!("select outcome from turno.lock_release('{resource}', {token})")).await
        };
        let (seen, released) = tokio::join!(sees, releases);
        assert_eq!((seen.as_str(), released.as_str()), ("acquired", "released"));
    }
    let row = one(&waiter, "select outcome, clock_timestamp() - now() >= '100 ms' from turno.lock_acquire('wait/shared', wait => '100 ms')").await;
    assert_eq!((row.get::<_, &str>(0), row.get::<_, bool>(1)), ("busy", true));
}

#[tokio::test]
async fn sql_and_rust_see_each_other() {
    let (bed, client) = bed().await;
    let turno = bed.turno().await;
    let lease = turno.lock("r").user("rust").acquire().await.unwrap().acquired().unwrap();
    let row = one(&client, "select outcome, \"user\" from turno.lock_acquire('r')").await;
    assert_eq!((row.get::<_, &str>(0), row.get::<_, &str>(1)), ("busy", "rust"));
    lease.release().await.unwrap();
    let token: i64 = one(&client, "select token from turno.lock_acquire('r', \"user\" => 'sql')").await.get(0);
    let turno::lock::Acquire::Busy(busy) = turno.lock("r").acquire().await.unwrap() else { panic!("acquired") };
    assert_eq!(busy.holder.unwrap().user.as_deref(), Some("sql"));
    let token = turno::Token(token);
    assert_eq!(turno.lock_break("r", token, "why").await.unwrap(), BreakOutcome::Broken);
    assert_eq!(turno.lock_release("r", token).await.unwrap(), ReleaseOutcome::Lost);
}

/// Losing is a read: the call does not even get a transaction id.
#[tokio::test]
async fn losing_gets_no_transaction_id() {
    let (bed, client) = bed().await;
    for sql in [
        "select turno.lock_acquire('held', owner => 'a')",
        "select turno.lock_release('resting', (turno.lock_acquire('resting', min_hold => '20 s')).token)",
        "select turno.lock_acquire('full', owner => 'a', permits => 1)",
        "select turno.lock_release('line', (turno.lock_acquire('line')).token)",
        "select turno.lock_wait('line', 'first', true)",
        "select turno.lock_release('rested', (turno.lock_acquire('rested', mode => 'shared', min_hold => '20 s')).token)",
        "select turno.lock_release('0', (turno.lock_acquire('0')).token)",
    ] {
        client.query(sql, &[]).await.unwrap();
    }
    drop(bed.turno().await);
    for (resource, asks) in [
        ("held", vec!["", ", mode => 'shared'", ", permits => 3", ", wait => '1 ms'", "all"]),
        ("resting", vec!["", ", mode => 'shared'", "all"]),
        ("rested", vec!["", ", mode => 'shared'", "all"]),
        ("full", vec!["", ", permits => 1", "all"]),
        ("line", vec!["", ", mode => 'shared'", ", permits => 2", "all"]),
    ] {
        for ask in asks {
            let call = match ask {
                "all" => format!("turno.lock_acquire_all(array['0', '1', '{resource}'])"),
                ask => format!("turno.lock_acquire('{resource}'{ask})"),
            };
            client.batch_execute("begin").await.unwrap();
            assert_eq!(word(&client, &format!("select outcome from {call}")).await, "busy", "{call}");
            let id: Option<String> = one(&client, "select pg_current_xact_id_if_assigned()::text").await.get(0);
            client.batch_execute("rollback").await.unwrap();
            assert_eq!(id, None, "{call} got a transaction id");
        }
    }
}

/// What a caller puts before the system's own names changes nothing.
#[tokio::test]
async fn a_hostile_search_path_changes_nothing() {
    let (_bed, client) = bed().await;
    client
        .batch_execute(
            "create schema evil;
             create function evil.clock_timestamp() returns timestamptz language sql as $$ select 'epoch'::timestamptz $$;
             create function evil.starts_with(text, text) returns boolean language sql as $$ select true $$;
             create function evil.concat_ws(text, variadic text[]) returns text language sql as $$ select '' $$;
             create function evil.bad_eq(text, text) returns boolean language sql as $$ select true $$;
             create function evil.bad_gt(timestamptz, timestamptz) returns boolean language sql as $$ select false $$;
             create function evil.bad_ne(text, text) returns boolean language sql as $$ select false $$;
             create operator evil.= (function = evil.bad_eq, leftarg = text, rightarg = text);
             create operator evil.<> (function = evil.bad_ne, leftarg = text, rightarg = text);
             create operator evil.> (function = evil.bad_gt, leftarg = timestamptz, rightarg = timestamptz);
             create table evil.lock (resource text, token bigint);
             set search_path = evil, pg_catalog, public",
        )
        .await
        .unwrap();
    // The temporary schema is searched first for tables, whatever the path says.
    client.batch_execute("create temporary table lock (resource text); create temporary table lock_hold (resource text)").await.unwrap();
    let token: i64 = one(&client, "select token from turno.lock_acquire('r', owner => 'a')").await.get(0);
    assert!(token > 1_000_000_000_000_000);
    for call in [
        "turno.lock_acquire('r', owner => 'b')", "turno.lock_acquire('r', owner => 'b', mode => 'shared')",
        "turno.lock_acquire('r', owner => 'b', wait => '1 ms')", "turno.lock_acquire_all(array['q', 'r'], owner => 'b')",
    ] {
        assert_eq!(word(&client, &format!("select outcome from {call}")).await, "busy", "{call}");
    }
    assert_eq!(word(&client, "select outcome from turno.lock_release('r', 1)").await, "lost");
    assert_eq!(word(&client, &format!("select outcome from turno.lock_renew('r', {token})")).await, "renewed");
    client.query(&format!("select turno.lock_guard('r', {token})"), &[]).await.unwrap();
    assert_eq!(code(&client, "select turno.lock_guard('r', 1)").await, "TN410");
    assert_eq!(client.query("select * from turno.lock_list('x')", &[]).await.unwrap().len(), 0);
    let shared: i64 = one(&client, "select token from turno.lock_acquire('s', owner => 'a', mode => 'shared')").await.get(0);
    assert_eq!(word(&client, &format!("select turno.lock_break('s', {shared}, 'why')")).await, "broken");
    assert_eq!(word(&client, &format!("select outcome from turno.lock_release('r', {token})")).await, "released");
    assert_eq!(word(&client, "select outcome from turno.lock_acquire('r', owner => 'b')").await, "acquired");
}

/// A transaction's `now()` stands still; a lease that is taken late in it is good all the same.
#[tokio::test]
async fn a_lease_taken_in_an_old_transaction_is_not_born_expired() {
    let (bed, client) = bed().await;
    let rival = bed.postgres_connection().await;
    rival.batch_execute("set statement_timeout = '5 s'").await.unwrap();
    one(&client, "select turno.lock_release('seen', (turno.lock_acquire('seen')).token)").await;
    for isolation in ["read committed", "repeatable read"] {
        for (resource, mode) in [("seen", "exclusive"), ("new", "exclusive"), ("new shared", "shared"), ("seen", "shared")] {
            let resource = if resource == "seen" { resource.to_owned() } else { format!("{resource}/{isolation}") };
            client.batch_execute(&format!("begin isolation level {isolation}; select 1; select pg_sleep(0.1)")).await.unwrap();
            let row = one(&client, &format!(
                "select outcome, token, expires_at > clock_timestamp(), acquired_at > now() + '50 ms' \
                 from turno.lock_acquire('{resource}', owner => 'a', ttl => '50 ms', mode => '{mode}')")).await;
            assert_eq!((row.get::<_, &str>(0), row.get::<_, bool>(2), row.get::<_, bool>(3)), ("acquired", true, true), "{resource} {isolation}");
            // Past its end, and not committed: a rival is told at once, and does not get it.
            tokio::time::sleep(Duration::from_millis(60)).await;
            for asks in ["exclusive", "shared"] {
                let sql = format!("select outcome from turno.lock_acquire('{resource}', owner => 'b', mode => '{asks}')");
                let answer = rival.query_one(&sql, &[]).await;
                let answer = answer.unwrap_or_else(|error| panic!("{mode} {resource}, {isolation}, asked {asks}: {error:?}"));
                assert_eq!(answer.get::<_, &str>(0), "busy", "{mode} {resource}, {isolation}, asked {asks}");
            }
            client.batch_execute("commit").await.unwrap();
            let next: i64 = one(&rival, &format!("select token from turno.lock_acquire('{resource}', owner => 'b')")).await.get(0);
            assert!(next > row.get::<_, i64>(1));
            assert_eq!(word(&rival, &format!("select outcome from turno.lock_release('{resource}', {next})")).await, "released");
        }
    }
}

/// A transaction that looks at the past must not grant what has been granted since.
#[tokio::test]
async fn an_old_snapshot_never_doubles_a_lease() {
    let (bed, client) = bed().await;
    let rival = bed.postgres_connection().await;
    one(&client, "select turno.lock_release('r', (turno.lock_acquire('r')).token)").await;
    one(&client, "select turno.lock_release('s', (turno.lock_acquire('s', mode => 'shared')).token)").await;
    for isolation in ["repeatable read", "serializable"] {
        for (resource, mode) in [("r", "exclusive"), ("s", "shared"), ("never", "exclusive"), ("never shared", "shared")] {
            let resource = if resource.len() > 1 { format!("{resource}/{isolation}") } else { resource.into() };
            client.batch_execute(&format!("begin isolation level {isolation}; select count(*) from turno.lock")).await.unwrap();
            let held: i64 = one(&rival, &format!("select token from turno.lock_acquire('{resource}', owner => 'b')")).await.get(0);
            let sql = format!("select outcome from turno.lock_acquire('{resource}', owner => 'a', mode => '{mode}')");
            // Busy, or an error that rolls the caller back; never a second lease.
            if let Ok(row) = client.query_one(&sql, &[]).await {
                assert_eq!(row.get::<_, &str>(0), "busy", "{mode} {resource}, {isolation}");
            }
            let _ = client.batch_execute("commit").await;
            let held_now: i64 = one(&rival, &format!("select token from turno.lock_status('{resource}')")).await.get(0);
            assert_eq!(held_now, held);
            assert_eq!(word(&rival, &format!("select outcome from turno.lock_release('{resource}', {held})")).await, "released");
        }
    }
}

/// A library's wait that meets somebody's uncommitted acquire ends as an answer, never as an error.
#[tokio::test]
async fn a_wait_beside_an_uncommitted_acquire_is_answered() {
    let (bed, client) = bed().await;
    let turno = bed.turno().await;
    one(&client, "select turno.lock_release('seen', (turno.lock_acquire('seen')).token)").await;
    for (resource, mode) in [("seen", "exclusive"), ("new", "exclusive"), ("new shared", "shared")] {
        client.batch_execute("begin").await.unwrap();
        one(&client, &format!("select turno.lock_acquire('{resource}', owner => 'a', mode => '{mode}')")).await;
        for lock in [turno.lock(resource), turno.lock(resource).shared(), turno.lock(resource).fifo()] {
            let waiting = lock.owner("b").wait(Duration::from_millis(200)).acquire();
            let answer = tokio::time::timeout(Duration::from_secs(5), waiting).await;
            let answer = answer.unwrap_or_else(|_| panic!("{resource}: it waits for a stranger's transaction"));
            assert!(answer.unwrap().is_busy(), "{resource}");
        }
        client.batch_execute("rollback").await.unwrap();
        let lease = turno.lock(resource).acquire().await.unwrap().acquired().expect("nobody has it");
        lease.release().await.unwrap();
    }
}

/// Beside a guarded transaction of a sharer, other sharers are answered at once.
#[tokio::test]
async fn sharers_beside_a_guard_are_answered_at_once() {
    let (bed, client) = bed().await;
    let rival = bed.postgres_connection().await;
    rival.batch_execute("set statement_timeout = '3 s'").await.unwrap();
    let token: i64 = one(&client, "select token from turno.lock_acquire('r', owner => 'a', mode => 'shared')").await.get(0);
    client.batch_execute(&format!("begin; select turno.lock_guard('r', {token})")).await.unwrap();
    let sql = "select outcome from turno.lock_acquire('r', owner => 'b', mode => 'shared')";
    let answer = rival.query_one(sql, &[]).await.expect("it waits for a stranger's transaction");
    assert!(["busy", "acquired"].contains(&answer.get::<_, &str>(0)));
    client.batch_execute("commit").await.unwrap();
}
