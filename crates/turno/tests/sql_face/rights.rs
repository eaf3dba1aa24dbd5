//! Which roles may call which functions, and that no caller can substitute an object.

use super::test_store;
use turno_testkit::Sql as _;

#[tokio::test]
async fn every_public_function_is_documented_and_safe_to_call() {
    let (_bed, client) = test_store().await;
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
            continue;
        }
        assert!(
            row.get::<_, Option<String>>(2)
                .is_some_and(|comment| comment.len() > 10),
            "{name} has no comment"
        );
        let settings = row.get::<_, Option<String>>(3).unwrap_or_default();
        assert!(
            settings.starts_with("{\"search_path=pg_catalog, pg_temp\""),
            "{name}: {settings}"
        );
        // A plan that is not excluded after all has such high costs that it would be JIT-compiled every time.
        assert_eq!(
            settings.contains("enable_seqscan=off"),
            settings.contains("jit=off"),
            "{name}: {settings}"
        );
        public.push(name);
    }
    // A function with several signatures is listed once.
    public.dedup();
    let listed: Vec<String> = client
        .query("select function from turno.rights() order by 1", &[])
        .await
        .unwrap()
        .iter()
        .map(|row| row.get(0))
        .collect();
    assert_eq!(
        public, listed,
        "sql/rights.sql lists the functions that run as their owner, each once"
    );
    let roles = "select count(*)::text from turno.rights() where role not in ('turno_app', 'turno_operator')";
    client.expect(roles, "0").await;
}

#[tokio::test]
async fn the_role_may_call_and_nothing_else() {
    let (test_store, client) = test_store().await;
    let app = test_store.postgres_connection_as("app").await;
    let token = app
        .number("select token from turno.lock_acquire('r', owner => 'a')")
        .await;
    for sql in [
        "select * from turno.lock_acquire('r', wait => '10 ms')".to_owned(),
        "select * from turno.lock_acquire('s', mode => 'shared')".into(),
        "select * from turno.lock_acquire_all(array['x', 'y'])".into(),
        "select * from turno.lock_acquire_batch('{b}', '{o}', '{30 s}', '{u}', '{s}', '{d}', '{h}', '{1}', array[gen_random_uuid()])".into(),
        "select * from turno.lock_release_batch('{b}', '{1}', '{null}', array[gen_random_uuid()])".into(),
        format!("select * from turno.lock_renew('r', {token})"),
        format!("select * from turno.lock_renew_batch('{{r}}', '{{{token}}}', '{{30 s}}')"),
        "select turno.lock_wait('r', 'w', true)".into(),
        "select turno.lock_leave('r', 'w')".into(),
        format!("select turno.lock_guard('r', {token})"),
        "select * from turno.lock_status('r')".into(),
        "select * from turno.lock_list()".into(),
        "select * from turno.lock_history()".into(),
        "select * from turno.history()".into(),
        format!("select * from turno.lock_release('r', {token})"),
        "select turno.once_complete((turno.once_begin('k')).claim, '1')".into(),
        "select turno.once_extend((turno.once_begin('l')).claim)".into(),
        "select turno.once_release((turno.once_begin('m', scope => 's', quota => 1)).claim)".into(),
        "select * from turno.once_begin_batch('{b}', '{f}', '{30 s}', '{1 h}', '{refuse}', '{w}', '{f}', '{s}', '{1}', array[gen_random_uuid()])".into(),
        "select * from turno.once_complete_batch('{b}', '{1}', '{1}', '{null}')".into(),
        "select * from turno.once_status('k')".into(),
        "select * from turno.once_list()".into(),
        "select * from turno.inbox_push_together('{q,q}', '{1,2}', array[gen_random_uuid(), gen_random_uuid()], '{1,2,3}')".into(),
        "select * from turno.inbox_queues('{1}', array[gen_random_uuid()])".into(),
        "select * from turno.access_find('a')".into(),
        "select turno.access_any()".into(),
        "select * from turno.sweep_last()".into(),
        "select * from turno.rights()".into(),
        "select * from turno.settings()".into(),
        "select turno.schema_version()".into(),
        "select turno.schema_oldest_program()".into(),
    ] {
        app
            .query(&sql, &[])
            .await
            .unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    }
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
            let asks = if sequence {
                "has_sequence_privilege"
            } else {
                "has_table_privilege"
            };
            if sequence && !["select", "update"].contains(&right) {
                continue;
            }
            for role in ["turno_app", "turno_operator"] {
                let sql = format!("select {asks}('{role}', 'turno.{relation}', '{right}')");
                assert!(
                    !client.row(&sql).await.get::<_, bool>(0),
                    "{right} on {relation} for {role}"
                );
            }
        }
    }
    for function in &internal {
        let function: &str = function.get(0);
        for role in ["turno_app", "turno_operator", "public"] {
            let sql = format!("select has_function_privilege('{role}', '{function}', 'execute')");
            let may: bool = client.row(&sql).await.get(0);
            assert!(!may, "{function} is internal, and {role} may call it");
        }
    }
    for sql in [
        "select * from turno.lock",
        "delete from turno.lock_history",
        "select turno.next_token()",
        "select * from turno.once",
    ] {
        assert_eq!(app.code(sql).await, "42501", "{sql}");
    }
}

/// Calls that only an operator may make.
const OPERATOR_CALLS: [&str; 11] = [
    "turno.inbox_configure('q', '{}')",
    "turno.inbox_discard('q', null)",
    "turno.inbox_requeue('q')",
    "turno.inbox_reset('q')",
    "turno.lock_break('r', 1, 'why')",
    "turno.once_forget('k')",
    "turno.once_resolve('k')",
    "turno.outbox_discard(array[gen_random_uuid()])",
    "turno.outbox_requeue()",
    "turno.outbox_table_record('requeued', 't', 1, null, null)",
    "turno.sweep()",
];

#[tokio::test]
async fn what_an_operator_decides_an_application_may_not() {
    let (test_store, client) = test_store().await;
    let app = test_store.postgres_connection_as("app").await;
    let operator = test_store.postgres_connection_as("operator").await;
    for call in OPERATOR_CALLS {
        let sql = format!("select {call}");
        assert_eq!(app.code(&sql).await, "42501", "{call}");
        operator
            .query(&sql, &[])
            .await
            .unwrap_or_else(|error| panic!("{call}: {error:?}"));
    }
    let many = "select count(*)::text from turno.rights() where role = 'turno_operator'";
    assert_eq!(client.text(many).await, OPERATOR_CALLS.len().to_string());
    // Only the owner may manage access tokens of the server.
    let sql = "select turno.access_create('x', sha256('y'), 'z', 'read')";
    assert_eq!(operator.code(sql).await, "42501");
    // An operator also has the rights of an application.
    operator
        .row("select token from turno.lock_acquire('o')")
        .await;
}

/// An application cannot delete the history. Control: with the operator's right, the same call deletes it.
#[tokio::test]
async fn an_application_cannot_erase_history() {
    let (test_store, client) = test_store().await;
    let app = test_store.postgres_connection_as("app").await;
    let held = app.row("select token from turno.lock_acquire('r')").await;
    let release = format!("select turno.lock_release('r', {})", held.get::<_, i64>(0));
    app.row(&release).await;
    let many = "select count(*)::text from turno.history()";
    app.expect(many, "1").await;
    let erase = "select turno.sweep(purge_after => '0', keep_history => '0')";
    for sql in [
        erase,
        "delete from turno.lock_history",
        "truncate turno.lock_history",
        "set role turno_operator",
        "grant turno_operator to app",
        "grant execute on function turno.sweep to app",
    ] {
        // A grant without the right to grant is a warning, and grants nothing.
        if !sql.starts_with("grant execute") {
            assert_eq!(app.code(sql).await, "42501", "{sql}");
        } else {
            let _ = app.simple_query(sql).await;
            assert_eq!(app.code(erase).await, "42501");
        }
        app.expect(many, "1").await;
    }
    client
        .run("grant execute on function turno.sweep to app")
        .await;
    // Even with the right to call it, recent entries are kept.
    assert_eq!(app.code(erase).await, "42501");
    app.expect(many, "1").await;
    client.simple_query(erase).await.unwrap();
    app.expect(many, "0").await;
}

/// Objects that a caller puts before the system's in its search path have no effect.
#[tokio::test]
async fn a_hostile_search_path_changes_nothing() {
    let (_bed, client) = test_store().await;
    client.run("create schema evil;
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
             set search_path = evil, pg_catalog, public").await;
    // The temporary schema is searched first for tables, whatever the path is.
    client.run("create temporary table lock (resource text); create temporary table lock_hold (resource text)").await;
    let token = client
        .number("select token from turno.lock_acquire('r', owner => 'a')")
        .await;
    assert!(token > 1_000_000_000_000_000);
    for call in [
        "turno.lock_acquire('r', owner => 'b')",
        "turno.lock_acquire('r', owner => 'b', mode => 'shared')",
        "turno.lock_acquire('r', owner => 'b', wait => '1 ms')",
        "turno.lock_acquire_all(array['q', 'r'], owner => 'b')",
    ] {
        client
            .expect(&format!("select outcome from {call}"), "busy")
            .await;
    }
    client
        .expect("select outcome from turno.lock_release('r', 1)", "lost")
        .await;
    client
        .expect(
            &format!("select outcome from turno.lock_renew('r', {token})"),
            "renewed",
        )
        .await;
    client
        .query(&format!("select turno.lock_guard('r', {token})"), &[])
        .await
        .unwrap();
    assert_eq!(
        client.code("select turno.lock_guard('r', 1)").await,
        "TN410"
    );
    assert_eq!(
        client
            .query("select * from turno.lock_list('x')", &[])
            .await
            .unwrap()
            .len(),
        0
    );
    let shared = client
        .number("select token from turno.lock_acquire('s', owner => 'a', mode => 'shared')")
        .await;
    client
        .expect(
            &format!("select turno.lock_break('s', {shared}, 'why')"),
            "broken",
        )
        .await;
    client
        .expect(
            &format!("select outcome from turno.lock_release('r', {token})"),
            "released",
        )
        .await;
    client
        .expect(
            "select outcome from turno.lock_acquire('r', owner => 'b')",
            "acquired",
        )
        .await;
    let claim = client
        .text("select claim from turno.once_begin('k', fingerprint => 'f')")
        .await;
    for (ask, expected) in [
        ("'k'", "in_flight"),
        ("'k', fingerprint => 'g'", "mismatch"),
        ("'l'", "fresh"),
    ] {
        let sql = format!("select outcome from turno.once_begin({ask})");
        client.expect(&sql, expected).await;
    }
    assert_eq!(
        client.code("select turno.once_complete('k@1', '1')").await,
        "TN410"
    );
    let complete = format!("select turno.once_complete('{claim}', '1')");
    client.query(&complete, &[]).await.unwrap();
    let replay = "select outcome from turno.once_begin('k')";
    client.expect(replay, "replay").await;
}
