//! Calls inside the caller's own transaction, which may be old, long and not yet committed.

use std::time::Duration;

use turno_testkit::conformance::acquired;
use turno_testkit::{Sql as _, eventually_async};

use super::test_store;

/// Longer than anything takes that ends at all.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A busy lock is a read: the call does not even get a transaction id.
#[tokio::test]
async fn losing_gets_no_transaction_id() {
    let (test_store, client) = test_store().await;
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
    drop(test_store.turno().await);
    for (resource, asks) in [
        (
            "held",
            vec![
                "",
                ", mode => 'shared'",
                ", permits => 3",
                ", wait => '1 ms'",
                "all",
            ],
        ),
        ("resting", vec!["", ", mode => 'shared'", "all"]),
        ("rested", vec!["", ", mode => 'shared'", "all"]),
        ("full", vec!["", ", permits => 1", "all"]),
        (
            "line",
            vec!["", ", mode => 'shared'", ", permits => 2", "all"],
        ),
    ] {
        for ask in asks {
            let call = match ask {
                "all" => format!("turno.lock_acquire_all(array['0', '1', '{resource}'])"),
                ask => format!("turno.lock_acquire('{resource}'{ask})"),
            };
            client.run("begin").await;
            client
                .expect(&format!("select outcome from {call}"), "busy")
                .await;
            let id: Option<String> = client
                .row("select pg_current_xact_id_if_assigned()::text")
                .await
                .get(0);
            client.run("rollback").await;
            assert_eq!(id, None, "{call} got a transaction id");
        }
    }
}

/// `now()` does not change in a transaction; a lease that is acquired late in it is still valid for its full TTL.
#[tokio::test]
async fn a_lease_taken_in_an_old_transaction_is_not_born_expired() {
    let (test_store, client) = test_store().await;
    let rival = test_store.postgres_connection().await;
    rival.run("set statement_timeout = '2 s'").await;
    let mut blocked = Vec::new();
    client
        .row("select turno.lock_release('seen', (turno.lock_acquire('seen')).token)")
        .await;
    for isolation in ["read committed", "repeatable read"] {
        for (resource, mode) in [
            ("seen", "exclusive"),
            ("new", "exclusive"),
            ("new shared", "shared"),
            ("seen", "shared"),
        ] {
            let resource = if resource == "seen" {
                resource.to_owned()
            } else {
                format!("{resource}/{isolation}")
            };
            client
                .run(&format!(
                    "begin isolation level {isolation}; select 1; select pg_sleep(0.1)"
                ))
                .await;
            let row = client.row(&format!(
                "select outcome, token, expires_at > now() + '100 ms', acquired_at > now() + '50 ms', expires_at::text \
                 from turno.lock_acquire('{resource}', owner => 'a', ttl => '50 ms', mode => '{mode}')")).await;
            assert_eq!(
                (
                    row.get::<_, &str>(0),
                    row.get::<_, bool>(2),
                    row.get::<_, bool>(3)
                ),
                ("acquired", true, true),
                "{resource} {isolation}"
            );
            // Expired, and not committed: a competing caller gets an immediate response, and not the lock.
            let past = format!(
                "select clock_timestamp() > '{}'::timestamptz",
                row.get::<_, &str>(4)
            );
            eventually_async(TIMEOUT, "the end of the lease", async || {
                client.row(&past).await.get::<_, bool>(0).then_some(())
            })
            .await;
            for asks in ["exclusive", "shared"] {
                let sql = format!(
                    "select outcome from turno.lock_acquire('{resource}', owner => 'b', mode => '{asks}')"
                );
                match rival.query_one(&sql, &[]).await {
                    Ok(answer) => assert_eq!(
                        answer.get::<_, &str>(0),
                        "busy",
                        "{mode} {resource}, {isolation}, asked {asks}"
                    ),
                    Err(error) => blocked.push(format!(
                        "{mode} {resource}, {isolation}, asked {asks}: {error}"
                    )),
                }
            }
            client.run("commit").await;
            let next = rival
                .number(&format!(
                    "select token from turno.lock_acquire('{resource}', owner => 'b')"
                ))
                .await;
            assert!(next > row.get::<_, i64>(1));
            rival
                .expect(
                    &format!("select outcome from turno.lock_release('{resource}', {next})"),
                    "released",
                )
                .await;
        }
    }
    assert_eq!(
        blocked, [""; 0],
        "a rival waits for a stranger's transaction"
    );
}

/// A transaction with an old snapshot must not grant what was granted since.
#[tokio::test]
async fn an_old_snapshot_never_doubles_a_lease() {
    let (test_store, client) = test_store().await;
    let rival = test_store.postgres_connection().await;
    client
        .row("select turno.lock_release('r', (turno.lock_acquire('r')).token)")
        .await;
    client
        .row("select turno.lock_release('s', (turno.lock_acquire('s', mode => 'shared')).token)")
        .await;
    for isolation in ["repeatable read", "serializable"] {
        for (resource, mode) in [
            ("r", "exclusive"),
            ("s", "shared"),
            ("never", "exclusive"),
            ("never shared", "shared"),
        ] {
            let resource = if resource.len() > 1 {
                format!("{resource}/{isolation}")
            } else {
                resource.into()
            };
            client
                .run(&format!(
                    "begin isolation level {isolation}; select count(*) from turno.lock"
                ))
                .await;
            let held = rival
                .number(&format!(
                    "select token from turno.lock_acquire('{resource}', owner => 'b')"
                ))
                .await;
            let sql = format!(
                "select outcome from turno.lock_acquire('{resource}', owner => 'a', mode => '{mode}')"
            );
            // Busy, or an error that rolls the caller back; never a second lease.
            if let Ok(row) = client.query_one(&sql, &[]).await {
                assert_eq!(
                    row.get::<_, &str>(0),
                    "busy",
                    "{mode} {resource}, {isolation}"
                );
            }
            let _ = client.batch_execute("commit").await;
            let held_now = rival
                .number(&format!(
                    "select token from turno.lock_status('{resource}')"
                ))
                .await;
            assert_eq!(held_now, held);
            rival
                .expect(
                    &format!("select outcome from turno.lock_release('{resource}', {held})"),
                    "released",
                )
                .await;
        }
    }
}

/// A wait of the library next to an uncommitted acquire ends with a result, never with an error.
#[tokio::test]
async fn a_wait_beside_an_uncommitted_acquire_is_answered() {
    let (test_store, client) = test_store().await;
    let turno = test_store.turno().await;
    let mut blocked = Vec::new();
    client
        .row("select turno.lock_release('seen', (turno.lock_acquire('seen')).token)")
        .await;
    for (resource, mode) in [
        ("seen", "exclusive"),
        ("new", "exclusive"),
        ("new shared", "shared"),
    ] {
        client.run("begin").await;
        client
            .row(&format!(
                "select turno.lock_acquire('{resource}', owner => 'a', mode => '{mode}')"
            ))
            .await;
        for lock in [
            turno.lock(resource),
            turno.lock(resource).shared(),
            turno.lock(resource).fifo(),
        ] {
            let waiting = lock.owner("b").wait(Duration::from_millis(200)).acquire();
            let answer = tokio::time::timeout(Duration::from_secs(5), waiting).await;
            match answer {
                Ok(answer) => assert!(answer.unwrap().is_busy(), "{resource}"),
                Err(_) => blocked.push(resource),
            }
        }
        client.run("rollback").await;
        // While the unregistration of a waiter is in progress, the lock may briefly count as reserved for waiters.
        let lock = turno.lock(resource).wait(Duration::from_secs(10));
        lock.acquire()
            .await
            .unwrap()
            .acquired()
            .expect("no other caller has it")
            .release()
            .await
            .unwrap();
    }
    assert_eq!(
        blocked, [""; 0],
        "a waiter waits for a stranger's transaction"
    );
}

/// Next to a guarded transaction of a shared holder, other shared holders get an immediate response.
#[tokio::test]
async fn sharers_beside_a_guard_are_answered_at_once() {
    let (test_store, client) = test_store().await;
    let rival = test_store.postgres_connection().await;
    rival.run("set statement_timeout = '3 s'").await;
    let token = client
        .number("select token from turno.lock_acquire('r', owner => 'a', mode => 'shared')")
        .await;
    client
        .run(&format!("begin; select turno.lock_guard('r', {token})"))
        .await;
    let sql = "select outcome from turno.lock_acquire('r', owner => 'b', mode => 'shared')";
    let answer = rival
        .query_one(sql, &[])
        .await
        .expect("it waits for a stranger's transaction");
    assert!(["busy", "acquired"].contains(&answer.get::<_, &str>(0)));
    client.run("commit").await;
}

/// One shared holder's guarded transaction does not block the renewals and releases of the others.
#[tokio::test]
async fn one_sharers_guard_does_not_stop_the_others() {
    let (test_store, client) = test_store().await;
    let other = test_store.postgres_connection().await;
    other.run("set statement_timeout = '3 s'").await;
    let sql = "select token from turno.lock_acquire('r', mode => 'shared')";
    let (guarded, mine): (i64, i64) = (client.row(sql).await.get(0), other.row(sql).await.get(0));
    client
        .run(&format!("begin; select turno.lock_guard('r', {guarded})"))
        .await;
    let mut held_up = Vec::new();
    for (call, good) in [("lock_renew", "renewed"), ("lock_release", "released")] {
        let sql = format!("select outcome from turno.{call}('r', {mine})");
        match other.query_one(&sql, &[]).await {
            Ok(answer) => assert_eq!(answer.get::<_, &str>(0), good),
            Err(_) => held_up.push(call),
        }
    }
    client.run("commit").await;
    assert_eq!(
        held_up, [""; 0],
        "they wait for another sharer's transaction"
    );
}

/// A release next to its own open guard has to wait; other callers of the same instance do not.
#[tokio::test]
async fn a_release_beside_a_guard_blocks_no_caller() {
    let (test_store, client) = test_store().await;
    let turno = test_store.turno().await;
    let kept = acquired(turno.lock("kept")).await;
    client
        .run(&format!(
            "begin; select turno.lock_guard('kept', {})",
            kept.token()
        ))
        .await;
    let waits = tokio::spawn(kept.release());
    for n in 0..50 {
        let lease = acquired(turno.lock(format!("other/{n}"))).await;
        lease.release().await.unwrap();
    }
    assert!(
        !waits.is_finished(),
        "the guard keeps the lock until its transaction ends"
    );
    client.run("commit").await;
    assert_eq!(
        waits.await.unwrap().unwrap(),
        turno::lock::ReleaseOutcome::Released { holds: 0 }
    );
}

/// A claim that need not be durable makes only its own commit quick, and not that of a transaction that also does other work.
#[tokio::test]
async fn a_claim_leaves_the_commits_of_its_session_durable() {
    let (_test_store, client) = test_store().await;
    let durability = "select current_setting('synchronous_commit')";
    let claims = "select count(*) from turno.inbox_claim_batch('work', 'w', 3, '1 minute', gen_random_uuid()";
    client
        .run("select turno.inbox_push('work', '1') from generate_series(1, 20)")
        .await;
    for claim in [
        "select count(*) from turno.inbox_claim('work', 'w')".to_owned(),
        "select count(*) from turno.inbox_claim('work', 'w', 3)".to_owned(),
        format!("{claims}, true)"),
    ] {
        client.run("begin").await;
        assert!(client.number(&claim).await > 0, "{claim}");
        client.expect(durability, "on").await;
        client.run("commit").await;
    }
    // The library's own claim, which is a transaction of its own.
    let quick = format!("{claims}, false)");
    client.run("begin").await;
    assert_eq!(client.number(&quick).await, 3);
    client.expect(durability, "off").await;
    client.run("commit").await;
    client.expect(durability, "on").await;
    assert_eq!(client.number(&quick).await, 3);
    client.expect(durability, "on").await;
}
