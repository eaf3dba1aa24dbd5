//! The calls: named arguments, defaults, checks, waiting.

use turno::lock::{BreakOutcome, ReleaseOutcome};

use super::{bed, code, one, word};

#[tokio::test]
async fn arguments_are_named_and_have_defaults() {
    let (_bed, client) = bed().await;
    let row = one(&client, "select outcome, token, holds, owner, expires_at - acquired_at = '30 seconds', remaining > '29 seconds' \
                            from turno.lock_acquire('r')").await;
    assert_eq!(
        (row.get::<_, &str>(0), row.get::<_, i32>(2)),
        ("acquired", 1)
    );
    assert!(!row.get::<_, String>(3).is_empty(), "an owner is made up");
    assert!(row.get::<_, bool>(5));
    let token: i64 = row.get(1);
    let row = one(&client, "select outcome, token, \"user\" from turno.lock_acquire(resource => 'r', \"user\" => '2', ttl => '5 minutes')").await;
    assert_eq!(
        (row.get::<_, &str>(0), row.get::<_, Option<i64>>(1)),
        ("busy", None)
    );
    assert_eq!(
        word(
            &client,
            &format!("select outcome from turno.lock_renew('r', {token})")
        )
        .await,
        "renewed"
    );
    assert_eq!(
        word(
            &client,
            &format!("select outcome from turno.lock_release('r', {token})")
        )
        .await,
        "released"
    );
    assert_eq!(
        word(
            &client,
            &format!("select outcome from turno.lock_release(resource => 'r', token => {token})")
        )
        .await,
        "lost"
    );
    let row = one(&client, "select outcome, token from turno.lock_acquire('r', owner => 'o', service => 's', description => 'd', \
                            \"user\" => '1', mode => 'shared', min_hold => '1 s', max_hold => '1 min')").await;
    assert_eq!(row.get::<_, &str>(0), "acquired");
    let token: i64 = row.get(1);
    assert_eq!(
        word(
            &client,
            &format!("select turno.lock_break('r', {token}, 'why', \"user\" => 'admin')")
        )
        .await,
        "broken"
    );
    let row = one(
        &client,
        "select actor, reason, \"user\" from turno.lock_history('r') limit 1",
    )
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
        one(&client, "select expired, purged from turno.sweep()")
            .await
            .get::<_, i64>(0),
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
        !one(&client, "select locked from turno.lock_status('free')")
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
    let (_bed, client) = bed().await;
    for sql in [
        "select turno.lock_release('free', (turno.lock_acquire('free')).token)",
        "select turno.lock_acquire('held', owner => 'a')",
    ] {
        client.query(sql, &[]).await.unwrap();
    }
    // All of them before the verdict: a caller wants to know every gap.
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
            match code(&client, &sql).await.as_str() {
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
            match code(&client, &sql).await.as_str() {
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
        match code(&client, sql).await.as_str() {
            "22023" => {}
            other => accepted.push(format!("{other}: {sql}")),
        }
    }
    assert_eq!(accepted, [""; 0]);
    let rows: i64 = one(&client, "select count(*) from turno.lock").await.get(0);
    assert_eq!(rows, 2, "nothing was stored");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_in_sql_sees_a_release_and_does_not_block_it() {
    let (bed, holder) = bed().await;
    let waiter = bed.postgres_connection().await;
    for mode in ["exclusive", "shared"] {
        let resource = format!("wait/{mode}");
        let token: i64 = one(
            &holder,
            &format!("select token from turno.lock_acquire('{resource}', owner => 'a')"),
        )
        .await
        .get(0);
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
            while one(&holder, asleep).await.get::<_, i64>(0) == 0 {}
            holder
                .batch_execute("set statement_timeout = '5 s'")
                .await
                .unwrap();
            word(
                &holder,
                &format!("select outcome from turno.lock_release('{resource}', {token})"),
            )
            .await
        };
        let (seen, released) = tokio::join!(sees, releases);
        assert_eq!((seen.as_str(), released.as_str()), ("acquired", "released"));
    }
    let row = one(&waiter, "select outcome, clock_timestamp() - now() >= '100 ms' from turno.lock_acquire('wait/shared', wait => '100 ms')").await;
    assert_eq!(
        (row.get::<_, &str>(0), row.get::<_, bool>(1)),
        ("busy", true)
    );
}

#[tokio::test]
async fn sql_and_rust_see_each_other() {
    let (bed, client) = bed().await;
    let turno = bed.turno().await;
    let lease = turno
        .lock("r")
        .user("rust")
        .acquire()
        .await
        .unwrap()
        .acquired()
        .unwrap();
    let row = one(
        &client,
        "select outcome, \"user\" from turno.lock_acquire('r')",
    )
    .await;
    assert_eq!(
        (row.get::<_, &str>(0), row.get::<_, &str>(1)),
        ("busy", "rust")
    );
    lease.release().await.unwrap();
    let token: i64 = one(
        &client,
        "select token from turno.lock_acquire('r', \"user\" => 'sql')",
    )
    .await
    .get(0);
    let turno::lock::Acquire::Busy(busy) = turno.lock("r").acquire().await.unwrap() else {
        panic!("acquired")
    };
    assert_eq!(busy.holder.unwrap().user.as_deref(), Some("sql"));
    let token = turno::Token(token);
    assert_eq!(
        turno.lock_break("r", token, "why").await.unwrap(),
        BreakOutcome::Broken
    );
    assert_eq!(
        turno.lock_release("r", token).await.unwrap(),
        ReleaseOutcome::Lost
    );
}
