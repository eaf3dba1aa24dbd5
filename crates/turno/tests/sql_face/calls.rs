//! Calls: named arguments, defaults, checks, waiting.

use tokio_postgres::Client;
use turno::lock::{BreakOutcome, ReleaseOutcome};
use turno_testkit::Sql as _;
use turno_testkit::conformance::acquired;

use super::{change, test_store};

#[tokio::test]
async fn arguments_are_named_and_have_defaults() {
    let (_bed, client) = test_store().await;
    let row = client.row("select outcome, token, holds, owner, expires_at - acquired_at = '30 seconds', remaining > '29 seconds' \
                            from turno.lock_acquire('r')").await;
    assert_eq!(
        (row.get::<_, &str>(0), row.get::<_, i32>(2)),
        ("acquired", 1)
    );
    assert!(!row.get::<_, String>(3).is_empty(), "an owner is made up");
    assert!(row.get::<_, bool>(5));
    let token: i64 = row.get(1);
    let row = client.row("select outcome, token, \"user\" from turno.lock_acquire(resource => 'r', \"user\" => '2', ttl => '5 minutes')").await;
    assert_eq!(
        (row.get::<_, &str>(0), row.get::<_, Option<i64>>(1)),
        ("busy", None)
    );
    client
        .expect(
            &format!("select outcome from turno.lock_renew('r', {token})"),
            "renewed",
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
            &format!("select outcome from turno.lock_release(resource => 'r', token => {token})"),
            "lost",
        )
        .await;
    let row = client.row("select outcome, token from turno.lock_acquire('r', owner => 'o', service => 's', description => 'd', \
                            \"user\" => '1', mode => 'shared', min_hold => '1 s', max_hold => '1 min')").await;
    assert_eq!(row.get::<_, &str>(0), "acquired");
    let token: i64 = row.get(1);
    client
        .expect(
            &format!("select turno.lock_break('r', {token}, 'why', \"user\" => 'admin')"),
            "broken",
        )
        .await;
    let row = client
        .row("select actor, reason, \"user\" from turno.lock_history('r') limit 1")
        .await;
    assert_eq!(
        (
            row.get::<_, &str>(0),
            row.get::<_, &str>(1),
            row.get::<_, &str>(2)
        ),
        ("admin", "why", "1")
    );
    assert_eq!(
        client
            .number("select expired, purged from turno.sweep()")
            .await,
        0
    );
    assert_eq!(
        client
            .query("select * from turno.lock_acquire_all(array['b', 'a'])", &[])
            .await
            .unwrap()
            .len(),
        2
    );
    assert!(
        !client
            .row("select locked from turno.lock_status('free')")
            .await
            .get::<_, bool>(0)
    );
    assert_eq!(
        client
            .query("select * from turno.lock_list()", &[])
            .await
            .unwrap()
            .len(),
        2
    );
}

#[tokio::test]
async fn arguments_are_checked_on_every_path() {
    let (_bed, client) = test_store().await;
    for sql in [
        "select turno.lock_release('free', (turno.lock_acquire('free')).token)",
        "select turno.lock_acquire('held', owner => 'a')",
    ] {
        client.query(sql, &[]).await.unwrap();
    }
    // All of them before the assertion, so that a failure shows every gap.
    let mut accepted = Vec::new();
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
            let sql = if argument.contains("owner") {
                sql
            } else {
                sql.replace(')', ", owner => 'b')")
            };
            match client.code(&sql).await.as_str() {
                "22023" => {}
                other => accepted.push(format!("{other}: {sql}")),
            }
        }
    }
    for resource in [
        "''".to_owned(),
        "null".into(),
        format!("'{long}'"),
        "E'a\\tb'".into(),
    ] {
        for call in [
            "turno.lock_acquire(R)",
            "turno.lock_acquire(R, mode => 'shared')",
            "turno.lock_acquire_all(array[R])",
            "turno.lock_wait(R, 'w')",
        ] {
            let sql = format!("select * from {}", call.replace('R', &resource));
            match client.code(&sql).await.as_str() {
                "22023" => {}
                other => accepted.push(format!("{other}: {sql}")),
            }
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
        match client.code(sql).await.as_str() {
            "22023" => {}
            other => accepted.push(format!("{other}: {sql}")),
        }
    }
    assert_eq!(accepted, [""; 0]);
    let rows = client.number("select count(*) from turno.lock").await;
    assert_eq!(rows, 2, "nothing was stored");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_in_sql_sees_a_release_and_does_not_block_it() {
    let (test_store, holder) = test_store().await;
    let waiter = test_store.postgres_connection().await;
    for mode in ["exclusive", "shared"] {
        let resource = format!("wait/{mode}");
        let token = holder
            .number(&format!(
                "select token from turno.lock_acquire('{resource}', owner => 'a')"
            ))
            .await;
        let sql = format!(
            "select outcome from turno.lock_acquire('{resource}', owner => 'b', mode => '{mode}', wait => '30 s')"
        );
        let sees = async {
            let row = waiter.query_one(&sql, &[]).await.unwrap();
            row.get::<_, String>(0)
        };
        let releases = async {
            // The waiter is inside its call by now.
            let asleep = "select count(*) from pg_stat_activity where query like '%wait => ''30 s''%' and wait_event = 'PgSleep'";
            while holder.number(asleep).await == 0 {}
            holder.run("set statement_timeout = '5 s'").await;
            holder
                .text(&format!(
                    "select outcome from turno.lock_release('{resource}', {token})"
                ))
                .await
        };
        let (seen, released) = tokio::join!(sees, releases);
        assert_eq!((seen.as_str(), released.as_str()), ("acquired", "released"));
    }
    let row = waiter.row("select outcome, clock_timestamp() - now() >= '100 ms' from turno.lock_acquire('wait/shared', wait => '100 ms')").await;
    assert_eq!(
        (row.get::<_, &str>(0), row.get::<_, bool>(1)),
        ("busy", true)
    );
}

#[tokio::test]
async fn sql_and_rust_see_each_other() {
    let (test_store, client) = test_store().await;
    let turno = test_store.turno().await;
    let lease = acquired(turno.lock("r").user("rust")).await;
    let row = client
        .row("select outcome, \"user\" from turno.lock_acquire('r')")
        .await;
    assert_eq!(
        (row.get::<_, &str>(0), row.get::<_, &str>(1)),
        ("busy", "rust")
    );
    lease.release().await.unwrap();
    let token = client
        .number("select token from turno.lock_acquire('r', \"user\" => 'sql')")
        .await;
    let turno::lock::Acquire::Busy(busy) = turno.lock("r").acquire().await.unwrap() else {
        panic!("acquired")
    };
    assert_eq!(busy.holder.unwrap().user.as_deref(), Some("sql"));
    let token = turno::Token(token);
    assert_eq!(
        turno.lock("r").force_break(token, "why").await.unwrap(),
        BreakOutcome::Broken
    );
    assert_eq!(
        turno.lock("r").release(token).await.unwrap(),
        ReleaseOutcome::Lost
    );
}

/// Emits an event, and returns its item and what was counted, or the code of the error.
async fn emitted(client: &Client, event: &str) -> Result<(String, String), String> {
    client.run("begin").await;
    let emit = format!("select turno.outbox_emit({event})::text");
    let emitted = match client.query_one(&emit, &[]).await {
        Err(error) => Err(error
            .code()
            .expect("an error of the server")
            .code()
            .to_owned()),
        Ok(row) => {
            let id: String = row.get(0);
            let item = "select row(queue_priority, run_at, attempts, abandoned, max_attempts, \"group\", errors, \
                        payload::text)::text from turno.inbox_item where key =";
            let item = client.text(&format!("{item} '{id}'")).await;
            let counted = "select string_agg(row(items, timed, completed, failed)::text, ' ') \
                           from turno.inbox_tally where xmin::text = pg_current_xact_id()::xid::text";
            Ok((item, client.text(counted).await))
        }
    };
    client
        .run(if emitted.is_ok() {
            "commit"
        } else {
            "rollback"
        })
        .await;
    emitted
}

/// An option that changes nothing, with which an event takes the general path.
const OPTION: &str = ", delay => '0'";

/// A usual event takes a short path, and any option the general one: both store the same, and accept and reject the same.
#[tokio::test]
async fn an_event_is_the_same_with_and_without_options() {
    let (_test_store, client) = test_store().await;
    // In this order: a larger payload, and then the first key, is new to the queue, and is stored by the general path.
    for event in [
        "'TicketCreatedEvent', '{\"n\": 1}'",
        "'TicketCreatedEvent', '{\"n\" :  1}', correlation_id => 'c'",
        "'Año \"quoted\" \\ 9', 'null'",
        "repeat('A', 127), '\"é\"'",
        "repeat('a', 255), '1'",
        "'T', to_json(repeat('x', 100000))",
        "'T', to_json(repeat('x', 100000))",
        "'T', '1', key => 'k', correlation_id => 'c'",
        "'T', '1', key => repeat('k', 255), correlation_id => 'c'",
        "'', '1'",
        "null, '1'",
        "repeat('a', 256), '1'",
        "'a' || chr(10), '1'",
        "'T', null",
        "'T', to_json(repeat('x', 1048577))",
        "'T', '1', key => ''",
        "'T', '1', key => repeat('k', 256)",
        "'T', '1', correlation_id => chr(127)",
    ] {
        let usual = emitted(&client, event).await;
        let general = emitted(&client, &format!("{event}{OPTION}")).await;
        assert_eq!(usual, general, "{event}");
    }
}

/// The control: an event of a short path that counts attempts differs.
#[tokio::test]
async fn an_event_of_another_path_differs() {
    let (_test_store, client) = test_store().await;
    let zero = "clock_timestamp(), 0, outbox_emit.key";
    let five = "clock_timestamp(), 5, outbox_emit.key";
    change(&client, "outbox_emit", zero, five).await;
    let event = "'T', '1'";
    // The first event of a queue is stored by the general path.
    emitted(&client, event).await.expect("a good event");
    let usual = emitted(&client, event).await;
    let general = emitted(&client, &format!("{event}{OPTION}")).await;
    assert_ne!(usual, general);
}

#[tokio::test]
async fn events_are_emitted_relayed_and_seen_in_sql() {
    let (_bed, client) = test_store().await;
    let number = async |sql: &str| -> i64 { client.row(sql).await.get(0) };
    let emit = "select turno.outbox_emit('TicketCreatedEvent', '{\"n\": 1}', key => 'k', correlation_id => 'c', \
                headers => '{\"tenant\": \"7\"}')::text";
    let id = client.text(emit).await;
    client
        .run("begin; select turno.outbox_emit('Other', '1'); rollback")
        .await;
    let claim = "select seq, id::text, key, event::text from turno.outbox_claim('sql', token => \
                 '00000000-0000-0000-0000-000000000001')";
    let row = client.row(claim).await;
    let seq: i64 = row.get(0);
    assert_eq!(
        (row.get::<_, &str>(1), row.get::<_, &str>(2)),
        (id.as_str(), "k")
    );
    assert_eq!(
        row.get::<_, &str>(3),
        r#"{"type":"TicketCreatedEvent","correlation_id":"c","headers":{"tenant": "7"},"payload":{"n": 1}}"#
    );
    let settle = format!(
        "select sent from turno.outbox_settle('00000000-0000-0000-0000-000000000001', int8multirange(int8range({seq}, {seq}, '[]')))"
    );
    assert_eq!(number(&settle).await, 1);
    assert_eq!(
        number("select dispatched from turno.outbox_stats()").await,
        1
    );
    let seen = format!("select turno.seen('billing', '{id}')::text");
    client.expect(&seen, "true").await;
    client.expect(&seen, "false").await;
}

/// Events that Turno did not write, with a key that is no id or without one, are settled with the others, and recorded.
#[tokio::test]
async fn an_event_without_an_id_is_settled_with_others() {
    let (_bed, client) = test_store().await;
    client
        .run("select turno.outbox_emit('T', '1') from generate_series(1, 4)")
        .await;
    client
        .run("update turno.inbox_item set key = 'no id' where id = 2; update turno.inbox_item set key = null where id = 3")
        .await;
    let claim = "select count(*) from turno.outbox_claim('sql', token => '00000000-0000-0000-0000-000000000001')";
    assert_eq!(client.number(claim).await, 4);
    // The fourth one goes back, so the others are not all of the claim.
    let settle =
        "select sent from turno.outbox_settle('00000000-0000-0000-0000-000000000001', '{[1,4)}')";
    assert_eq!(client.number(settle).await, 3);
    let nil = "select string_agg((i = '00000000-0000-0000-0000-000000000000')::text, ' ') from turno.outbox_sent, unnest(ids) i";
    client.expect(nil, "false true true").await;
    let stats =
        "select pending || ' ' || processing || ' ' || dispatched from turno.outbox_stats()";
    client.expect(stats, "1 0 3").await;
}

#[tokio::test]
async fn a_bad_event_is_refused_with_a_hint() {
    let (_bed, client) = test_store().await;
    for sql in [
        "select turno.outbox_emit('', '1')",
        "select turno.outbox_emit(repeat('AbC', 66), '1')",
        "select turno.outbox_emit('T', null)",
        "select turno.outbox_emit('T', '1', key => '')",
        "select turno.outbox_emit('T', '1', headers => '{\"Type\": \"x\"}')",
        "select turno.outbox_emit('T', '1', headers => '{\"a\": 1}')",
        "select turno.outbox_emit('T', '1', headers => '[]')",
        "select turno.outbox_emit('T', '1', delay => '-1 s')",
        "select turno.outbox_emit('T', '1', traceparent => 'x')",
        "select turno.outbox_emit_batch(array['T'], array[repeat('x', 1048577)])",
        "select turno.inbox_push('$outbox', '1')",
        "select turno.outbox_claim('r', 1001)",
        "select turno.outbox_list('lost')",
        "select turno.seen('', gen_random_uuid())",
        "select turno.seen('c', null)",
    ] {
        assert_eq!(client.code(sql).await, "22023", "{sql}");
    }
    let stats = client.row("select total from turno.outbox_stats()").await;
    assert_eq!(stats.get::<_, i64>(0), 0);
}

/// The rule exists in Rust and in SQL; both give the same results.
#[tokio::test]
async fn routing_keys_are_the_same_in_rust_and_in_sql() {
    let (_bed, client) = test_store().await;
    for kind in [
        "TicketStatusChangedEvent",
        "TicketFlow.Domain.Events.TicketCreatedEvent",
        "HTTPRequestSent",
        "ticket.created",
        "Event",
        "A",
        "AB",
        "ABc",
        "My_Thing",
        "OrderV2Created",
        "a.B",
        "Ns::TypeName",
        "Outer+InnerEvent",
        "café",
        "ÑandúSeen",
        "CaféÉtéSeen",
        "EventEvent",
    ] {
        let sql = format!("select turno.outbox_routing_key('{kind}')");
        assert_eq!(
            client.text(&sql).await,
            turno::sink::routing_key(kind),
            "{kind}"
        );
    }
}
