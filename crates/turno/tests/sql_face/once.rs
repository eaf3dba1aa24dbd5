//! Once in SQL: named arguments, defaults, checks, and the caller's own transaction.

use turno::once::{Begin, OnceSettled, OnceState};
use turno_testkit::Sql as _;

use super::test_store;

/// Its numbers, spaces and duplicate keys are kept as written.
const ANSWER: &str = r#"{"total": 1.00,  "big":12345678901234567890123, "a":1, "a":2}"#;

#[tokio::test]
async fn arguments_are_named_and_have_defaults() {
    let (_bed, client) = test_store().await;
    let row = client.row("select outcome, key, token, attempt, answer::text, expires_at - began_at <= '30 seconds', \
           remaining > '29 seconds', worker, claim \
         from turno.once_begin('k')")
    .await;
    assert_eq!(
        (
            row.get::<_, &str>(0),
            row.get::<_, &str>(1),
            row.get::<_, i32>(3)
        ),
        ("fresh", "k", 1)
    );
    assert_eq!(row.get::<_, Option<&str>>(4), None);
    assert!(row.get::<_, bool>(6));
    assert_eq!(row.get::<_, Option<&str>>(7), None);
    let (token, claim): (i64, String) = (row.get(2), row.get(8));
    assert_eq!(claim, format!("k@{token}"));
    let row = client.row("select outcome, token, claim, worker from turno.once_begin(key => 'k', fingerprint => 'f', lease => '1 min', \
           ttl => '1 h', unknown => 'rerun', worker => 'w', waits => true, request => gen_random_uuid())")
    .await;
    assert_eq!(row.get::<_, &str>(0), "in_flight");
    // A token is a right, and this one belongs to another caller.
    assert_eq!(row.get::<_, Option<i64>>(1), None);
    assert_eq!(row.get::<_, Option<&str>>(2), None);
    let extend = format!("select turno.once_extend(claim => '{claim}', lease => '1 min')::text");
    client.expect(&extend, "true").await;
    let complete = format!(
        "select turno.once_complete(claim => '{claim}', answer => '{ANSWER}', ttl => '1 h')::text"
    );
    for _ in 0..2 {
        client.expect(&complete, "").await;
    }
    let row = client.row("select outcome, answer::text, expires_at > now() + '59 min', token from turno.once_begin('k')")
    .await;
    assert_eq!(
        (row.get::<_, &str>(0), row.get::<_, &str>(1)),
        ("replay", ANSWER)
    );
    assert!(row.get::<_, bool>(2));
    assert_eq!(row.get::<_, Option<i64>>(3), None);
}

#[tokio::test]
async fn claims_end_in_every_way() {
    let (_bed, client) = test_store().await;
    let begin = async |ask: &str| -> (String, String) {
        let sql = format!(
            "select outcome || ' ' || coalesce(attempt::text, '-'), coalesce(claim, '') from turno.once_begin({ask})"
        );
        let row = client.row(&sql).await;
        (row.get(0), row.get(1))
    };
    let (outcome, claim) = begin("'k@7', fingerprint => 'f'").await;
    assert_eq!(outcome, "fresh 1");
    let release = format!("select turno.once_release('{claim}')::text");
    client.expect(&release, "true").await;
    let (outcome, claim) = begin("'k@7', fingerprint => 'g'").await;
    assert_eq!(outcome, "fresh 1");
    assert_eq!(client.text(&release).await, "false", "it is stale now");
    let doubt = format!("select turno.once_release('{claim}', unknown => true)::text");
    client.expect(&doubt, "true").await;
    let (outcome, answer) = begin("'k@7'").await;
    assert_eq!((outcome.as_str(), &answer), ("unknown 1", &claim));
    assert_eq!(begin("'k@7', fingerprint => 'h'").await.0, "mismatch 1");
    let (outcome, claim) = begin("'k@7', unknown => 'rerun'").await;
    assert_eq!(outcome, "fresh 2");
    let complete = format!("select turno.once_complete('{claim}')");
    client.query(&complete, &[]).await.unwrap();
    let row = client
        .row("select outcome, answer::text from turno.once_begin('k@7')")
        .await;
    assert_eq!(row.get::<_, &str>(0), "replay");
    assert_eq!(row.get::<_, Option<&str>>(1), None, "it was not stored");
    let row = client
        .row("select state, late, claim from turno.once_status('k@7')")
        .await;
    assert_eq!(
        (row.get::<_, &str>(0), row.get::<_, i32>(1)),
        ("done", 1),
        "one came too late"
    );
    assert_eq!(row.get::<_, &str>(2), claim);
    let list = "select string_agg(key || ' ' || state, ',') from turno.once_list()";
    client.expect(list, "k@7 done").await;
    let forget = "select turno.once_forget('k@7')::text";
    client.expect(forget, "true").await;
    client.expect(forget, "false").await;
    let swept = client.row("select once from turno.sweep()").await;
    assert_eq!(swept.get::<_, i64>(0), 0);
}

/// An operator resolves an unknown key, and learns why any other key is not changed.
#[tokio::test]
async fn an_operator_resolves_a_key() {
    let (test_store, client) = test_store().await;
    let operator = test_store.postgres_connection_as("operator").await;
    let resolve = "select outcome from turno.once_resolve('k', '{\"receipt\": 1}', reason => 'the bank has it')";
    operator.expect(resolve, "not_found").await;
    let claim = client
        .text("select claim from turno.once_begin('k', worker => 'w')")
        .await;
    let row = operator
        .row("select outcome, worker, claim, remaining > '0' from turno.once_resolve('k', 'null')")
        .await;
    assert_eq!(
        (
            row.get::<_, &str>(0),
            row.get::<_, &str>(1),
            row.get::<_, bool>(3)
        ),
        ("in_flight", "w", true)
    );
    assert_eq!(row.get::<_, Option<&str>>(2), None, "a claim is a right");
    let doubt = format!("select turno.once_release('{claim}', unknown => true)::text");
    client.expect(&doubt, "true").await;
    operator.expect(resolve, "resolved").await;
    operator.expect(resolve, "answered").await;
    let replay = "select outcome || ' ' || answer::text from turno.once_begin('k')";
    assert_eq!(client.text(replay).await, "replay {\"receipt\": 1}");
    let complete = format!("select turno.once_complete('{claim}', '2')");
    assert_eq!(client.code(&complete).await, "TN410");
}

/// A stale completion raises an error, which rolls back the effects of its transaction.
#[tokio::test]
async fn a_stale_completion_raises() {
    let (_bed, client) = test_store().await;
    client.run("create table payment (amount integer)").await;
    let stale = client
        .text("select claim from turno.once_begin('k', lease => '1 ms')")
        .await;
    let newest = turno_testkit::eventually_async(
        std::time::Duration::from_secs(20),
        "the lease's end",
        async || {
            let row = client
                .row("select outcome, claim from turno.once_begin('k', unknown => 'rerun')")
                .await;
            (row.get::<_, &str>(0) == "fresh").then(|| row.get::<_, String>(1))
        },
    )
    .await;
    for claim in [stale.as_str(), "k@1", "never@1794708000000000"] {
        client.run("begin; insert into payment values (1)").await;
        let complete = format!("select turno.once_complete('{claim}', '1')");
        assert_eq!(client.code(&complete).await, "TN410", "{claim}");
        client.run("commit").await;
    }
    let paid = client.row("select count(*) from payment").await;
    assert_eq!(paid.get::<_, i64>(0), 0, "rolled back");
    client.run(&format!(
            "begin; insert into payment values (1); select turno.once_complete('{newest}', '\"new\"'); commit"
        )).await;
    let answer = client
        .text("select answer::text from turno.once_begin('k')")
        .await;
    assert_eq!(answer, "\"new\"");
    let error = client
        .query(&format!("select turno.once_complete('{stale}')"), &[])
        .await
        .unwrap_err();
    let answer = error.as_db_error().unwrap();
    assert!(answer.message().contains(&stale), "{answer:?}");
    assert!(answer.hint().unwrap().contains("Roll back"), "{answer:?}");
}

#[tokio::test]
async fn a_scope_has_its_quota() {
    let (_bed, client) = test_store().await;
    let begin = async |key: &str| {
        let sql = format!(
            "select outcome from turno.once_begin('{key}', scope => 'tenant 7', quota => 2)"
        );
        client.text(&sql).await
    };
    assert_eq!(begin("1").await, "fresh");
    assert_eq!(begin("2").await, "fresh");
    assert_eq!(begin("3").await, "over_quota");
    assert_eq!(begin("2").await, "in_flight");
    let rows = client.row("select count(*) from turno.once").await;
    assert_eq!(rows.get::<_, i64>(0), 2);
}

#[tokio::test]
async fn arguments_are_checked_on_every_path() {
    let (_bed, client) = test_store().await;
    for sql in [
        "select turno.once_begin('held')",
        "select turno.once_complete((turno.once_begin('done')).claim, '1')",
        "select turno.once_release((turno.once_begin('unknown')).claim, true)",
    ] {
        client.query(sql, &[]).await.unwrap();
    }
    // All of them before the assertion, so that a failure shows every gap.
    let mut accepted = Vec::new();
    let long = "x".repeat(256);
    let arguments = [
        "fingerprint => ''".to_owned(),
        format!("fingerprint => '{long}'"),
        "fingerprint => E'a\\nb'".into(),
        "worker => ''".into(),
        "worker => E'\\u0085'".into(),
        "scope => ''".into(),
        "lease => '0'".into(),
        "lease => '-1 s'".into(),
        "lease => '25 hours'".into(),
        "lease => null".into(),
        "ttl => '-1 s'".into(),
        "ttl => '11 years'".into(),
        "ttl => null".into(),
        "unknown => 'maybe'".into(),
        "unknown => null".into(),
        "quota => 1".into(),
        "quota => 0, scope => 's'".into(),
        "quota => 1000001, scope => 's'".into(),
    ];
    let mut calls: Vec<String> = Vec::new();
    for key in ["new", "held", "done", "unknown"] {
        calls.extend(
            arguments
                .iter()
                .map(|argument| format!("turno.once_begin('{key}', {argument})")),
        );
    }
    for key in [
        "''".to_owned(),
        "null".into(),
        format!("'{long}'"),
        "E'a\\tb'".into(),
    ] {
        for verb in ["once_begin", "once_status", "once_forget", "once_resolve"] {
            calls.push(format!("turno.{verb}({key})"));
        }
    }
    for claim in ["''", "null", "'k'", "'k@'", "'k@x'", "'k@-1'", "'k@1 '"] {
        for verb in ["once_complete", "once_release", "once_extend"] {
            calls.push(format!("turno.{verb}({claim})"));
        }
    }
    calls.extend(
        [
            "turno.once_complete('k@1', ttl => '-1 s')",
            "turno.once_complete('k@1', ttl => '11 years')",
            "turno.once_extend('k@1', '0')",
            "turno.once_extend('k@1', '25 hours')",
            "turno.once_extend('k@1', null)",
            "turno.once_list('lost')",
        ]
        .map(str::to_owned),
    );
    for call in calls {
        match client.code(&format!("select * from {call}")).await.as_str() {
            "22023" => {}
            other => accepted.push(format!("{other}: {call}")),
        }
    }
    // Text that is not JSON is rejected before the function is called.
    let no_json = "select turno.once_complete('k@1', '{')";
    assert_eq!(client.code(no_json).await, "22P02");
    assert_eq!(accepted, [""; 0]);
    let rows = client.row("select count(*) from turno.once").await;
    assert_eq!(rows.get::<_, i64>(0), 3, "nothing was stored");
}

/// Open keys are found by a partial index, and not among all kept answers.
#[tokio::test]
async fn open_keys_are_listed_by_their_own_index() {
    let (_bed, client) = test_store().await;
    client.run("select turno.once_complete((turno.once_begin('done/' || n)).claim) from generate_series(1, 500) n; \
             select turno.once_begin('open/' || n) from generate_series(1, 3) n").await;
    // Keys that were open before they were done are still in the index.
    let vacuum = "vacuum (analyze, index_cleanup on) turno.once";
    client.run(vacuum).await;
    // Number of index entries read, in one transaction, in which the counters are not reported and reset.
    let read = "select pg_stat_get_xact_tuples_returned('turno.once_open'::regclass) \
        + pg_stat_get_xact_tuples_returned('turno.once_pkey'::regclass)";
    for (state, keys, is_open) in [
        ("'in_flight'", 3, true),
        ("'unknown'", 0, true),
        ("'done'", 100, false),
        ("null", 100, false),
    ] {
        client.run("begin").await;
        let before = client.number(read).await;
        let listed = format!("select count(*) from turno.once_list({state})");
        let listed = client.number(&listed).await;
        let after = client.number(read).await;
        client.run("commit").await;
        assert_eq!(listed, keys, "{state}");
        let read = after - before;
        assert_eq!(read < 50, is_open, "{state}: {read} entries were read");
    }
}

/// A begin that returns a known state is a read: the call does not even get a transaction id.
#[tokio::test]
async fn being_turned_away_gets_no_transaction_id() {
    let (_bed, client) = test_store().await;
    for sql in [
        "select turno.once_begin('held', fingerprint => 'f', scope => 's')",
        "select turno.once_complete((turno.once_begin('done', fingerprint => 'f')).claim, '1')",
        "select turno.once_release((turno.once_begin('unknown', fingerprint => 'f')).claim, true)",
    ] {
        client.query(sql, &[]).await.unwrap();
    }
    for (ask, answer) in [
        ("'held'", "in_flight"),
        ("'done'", "replay"),
        ("'unknown'", "unknown"),
        ("'held', fingerprint => 'g'", "mismatch"),
        ("'done', fingerprint => 'g'", "mismatch"),
        (
            "'unknown', fingerprint => 'g', unknown => 'rerun'",
            "mismatch",
        ),
        ("'new', scope => 's', quota => 1", "over_quota"),
    ] {
        client.run("begin").await;
        let sql = format!("select outcome from turno.once_begin({ask})");
        client.expect(&sql, answer).await;
        let id: Option<String> = client
            .row("select pg_current_xact_id_if_assigned()::text")
            .await
            .get(0);
        client.run("rollback").await;
        assert_eq!(id, None, "{ask} got a transaction id");
    }
}

/// Callers that are batched with one that would have to wait get "later", and call alone.
#[tokio::test]
async fn a_batch_does_not_wait_for_a_stranger() {
    let (test_store, client) = test_store().await;
    let other = test_store.postgres_connection().await;
    client
        .run("select turno.once_complete((turno.once_begin('done')).claim, '1')")
        .await;
    client.run("begin; select turno.once_begin('open')").await;
    let batch = "select string_agg((answer).outcome, ' ') \
                 from turno.once_begin_batch('{done,new,open}', '{null,null,null}', '{30 s,30 s,30 s}', '{1 h,1 h,1 h}', \
                   '{refuse,refuse,refuse}', '{null,null,null}', '{f,f,f}', '{null,null,null}', '{null,null,null}', \
                   array[gen_random_uuid(), gen_random_uuid(), gen_random_uuid()])";
    // The earlier result for the new key is withdrawn: the later one counts.
    other.expect(batch, "replay later later").await;
    client.run("rollback").await;
    other.expect(batch, "replay fresh fresh").await;
}

/// A begin in an open transaction does not block others for long, and has no effect if it is rolled back.
#[tokio::test]
async fn a_begin_that_is_rolled_back_was_never_there() {
    let (test_store, client) = test_store().await;
    let turno = test_store.turno().await;
    client.run("begin").await;
    let begin = "select outcome from turno.once_begin('k')";
    client.expect(begin, "fresh").await;
    // Other callers that are batched with one that has to wait for it do not wait.
    let waits = {
        let once = turno.once("k");
        tokio::spawn(async move { once.begin().await.unwrap() })
    };
    for n in 0..20 {
        let once = turno.once(format!("other/{n}"));
        let begun = tokio::time::timeout(std::time::Duration::from_secs(10), once.begin()).await;
        let claim = begun.expect("it waits for a stranger").unwrap().fresh();
        claim.unwrap().detach();
    }
    client.run("rollback").await;
    let claim = waits
        .await
        .unwrap()
        .fresh()
        .expect("no other caller has it");
    assert_eq!(claim.attempt(), 1);
    claim.detach();
}

#[tokio::test]
async fn sql_and_rust_see_each_other() {
    let (test_store, client) = test_store().await;
    let turno = test_store.turno().await;
    let claim = client
        .text("select claim from turno.once_begin('ñ@1', worker => 'sql', fingerprint => 'f')")
        .await;
    let Begin::InFlight(run) = turno.once("ñ@1").begin().await.unwrap() else {
        panic!("not in flight");
    };
    assert_eq!(run.worker.as_deref(), Some("sql"));
    let waits = {
        let once = turno.once("ñ@1").wait(std::time::Duration::from_secs(20));
        tokio::spawn(async move { once.begin().await.unwrap() })
    };
    let complete = format!("select turno.once_complete('{claim}', '{ANSWER}')");
    client.query(&complete, &[]).await.unwrap();
    let Begin::Replay(answer) = waits.await.unwrap() else {
        panic!("not replayed");
    };
    assert_eq!(answer.text(), Some(ANSWER));
    let view = turno.once("ñ@1").status().await.unwrap().unwrap();
    assert_eq!(view.state, OnceState::Done);
    assert_eq!(view.claim.to_string(), claim);

    let claim = turno.once("rust").begin().await.unwrap().fresh().unwrap();
    let extend = format!("select turno.once_extend('{}', '1 h')::text", claim.id());
    client.expect(&extend, "true").await;
    assert_eq!(claim.complete("done").await.unwrap(), OnceSettled::Done);
    let answer = client
        .text("select answer::text from turno.once_begin('rust')")
        .await;
    assert_eq!(answer, "\"done\"");
}

/// The dashboard repeatedly lists open keys, next to millions of kept answers.
#[tokio::test]
async fn open_keys_are_found_without_a_look_at_kept_answers() {
    let (_bed, client) = test_store().await;
    client.run("insert into turno.once (key, state, token, attempt, request, began_at, until, ttl, sweep_at) \
             select 'kept/' || n, 'done', n, 1, gen_random_uuid(), now(), now() + '1 day', '1 day', now() + '1 day' \
             from generate_series(1, 20000) n; \
             select turno.once_begin('open'); \
             select turno.once_begin('unknown', lease => '1 ms'); \
             select pg_sleep(0.01)").await;
    let listed = "select string_agg(key, ',') from turno.once_list(";
    client.run("begin").await;
    for (state, key) in [("in_flight", "open"), ("unknown", "unknown")] {
        let sql = format!("{listed}state => '{state}')");
        client.expect(&sql, key).await;
    }
    let read = "select (seq_tup_read + coalesce(idx_tup_fetch, 0))::text \
        from pg_stat_xact_user_tables where relid = 'turno.once'::regclass";
    let rows: u64 = client.text(read).await.parse().unwrap();
    assert!(rows < 100, "{rows} rows were read");
    // The control: kept answers are read if they are requested.
    client
        .text(&format!("{listed}state => 'done', \"limit\" => 1000)"))
        .await;
    let rows: u64 = client.text(read).await.parse().unwrap();
    assert!(rows >= 1000, "{rows} rows were read");
}
