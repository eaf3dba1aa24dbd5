//! Acquiring a lock, and the information about its holder.

use turno::Turno;
use turno::lock::ReleaseOutcome;

use crate::conformance::lock::fixtures::*;
use crate::conformance::{TestStore, rule};

/// A free lock is granted. The grant has the resource, the owner, the start and the expiry.
#[rule]
async fn a_free_lock_is_granted(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let lease = acquired(turno.lock("r").owner("a").ttl(secs(60))).await;
    let grant = lease.grant();
    assert_eq!(
        (
            grant.resource.as_str(),
            grant.owner.as_str(),
            grant.holds,
            grant.reentered
        ),
        ("r", "a", 1, false)
    );
    let lasts = grant.expires_at.duration_since(grant.acquired_at);
    assert!(
        lasts.as_millis_f64() > 59_990.0 && lasts.as_millis_f64() < 60_010.0,
        "{lasts:?}"
    );
    assert!(
        grant.remaining <= secs(60) && grant.remaining > secs(50),
        "{grant:?}"
    );
    assert!(grant.token.0 > 0);
    assert_eq!(owners(&turno, "r").await, ["a"]);
}

/// A caller that finds the lock busy gets the holder and the remaining time, but never the token.
#[rule]
async fn a_held_lock_is_busy_and_tells_by_whom(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    let lock = turno
        .lock("PRESTAMO/123")
        .ttl(secs(285))
        .user("1")
        .service("flowpay")
        .description("Registro de pago");
    let lease = acquired(lock).await;
    let busy = refused(other.lock("PRESTAMO/123")).await;
    assert_eq!(busy.resource, "PRESTAMO/123");
    assert!(
        busy.remaining <= secs(285) && busy.remaining > secs(270),
        "{busy:?}"
    );
    let shown = format!("{busy:?}");
    let holder = busy.holder.unwrap();
    assert_eq!(holder.user.as_deref(), Some("1"));
    assert_eq!(holder.service.as_deref(), Some("flowpay"));
    assert_eq!(holder.description.as_deref(), Some("Registro de pago"));
    assert_eq!(holder.expires_at, lease.expires_at());
    assert_eq!(holder.acquired_at, lease.grant().acquired_at);
    assert!(!shown.contains(&lease.token().to_string()), "{shown}");
}

/// A holder without a name is reported, too.
#[rule]
async fn a_nameless_holder_is_shown_too(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let _lease = take(&turno, "r", "a").await;
    let holder = refused(turno.lock("r")).await.holder.unwrap();
    assert_eq!(
        (holder.user, holder.service, holder.description),
        (None, None, None)
    );
}

/// User and service default to the settings.
#[rule]
async fn settings_fill_in_user_and_service(test_store: &TestStore) {
    let turno = Turno::builder()
        .user("batch")
        .service("notes")
        .connect(test_store.url())
        .await
        .unwrap();
    let _lease = take(&turno, "r", "a").await;
    let holder = refused(turno.lock("r")).await.holder.unwrap();
    assert_eq!(
        (holder.user.as_deref(), holder.service.as_deref()),
        (Some("batch"), Some("notes"))
    );
    let holder = turno.lock("r").status().await.unwrap().holders.remove(0);
    assert_eq!(
        holder.attribution.pid,
        i32::try_from(std::process::id()).ok()
    );
    assert!(holder.attribution.host.is_some());
}

/// The same owner can enter again: same token, one more hold, the later expiry. Each release ends one hold.
#[rule]
async fn the_same_owner_enters_again(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    let first = acquired(turno.lock("r").owner("a").ttl(secs(60))).await;
    let second = acquired(other.lock("r").owner("a").ttl(secs(600))).await;
    assert_eq!(
        (
            second.token(),
            second.grant().holds,
            second.grant().reentered
        ),
        (first.token(), 2, true)
    );
    assert!(second.expires_at() > first.expires_at());
    assert_eq!(second.grant().acquired_at, first.grant().acquired_at);
    let third = acquired(turno.lock("r").owner("a").ttl(secs(1))).await;
    assert_eq!(
        (third.grant().holds, third.expires_at()),
        (3, second.expires_at()),
        "the later expiry stays"
    );

    assert_eq!(
        third.release().await.unwrap(),
        ReleaseOutcome::Released { holds: 2 }
    );
    assert_eq!(
        second.release().await.unwrap(),
        ReleaseOutcome::Released { holds: 1 }
    );
    refused(other.lock("r").owner("b")).await;
    assert_eq!(
        history(&turno, "r").await,
        [],
        "a holding ends with its last hold"
    );
    assert_eq!(
        first.release().await.unwrap(),
        ReleaseOutcome::Released { holds: 0 }
    );
    take(&other, "r", "b").await.detach();
}

/// A released lock is free, and the next token is greater.
#[rule]
async fn a_released_lock_is_free(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    let first = take(&turno, "r", "a").await;
    let token = first.token();
    assert_eq!(
        first.release().await.unwrap(),
        ReleaseOutcome::Released { holds: 0 }
    );
    assert_eq!(owners(&turno, "r").await, [""; 0]);
    assert!(take(&other, "r", "b").await.token() > token);
}

/// A lease is released on drop, unless it is detached.
#[rule]
async fn a_dropped_lease_is_given_back(test_store: &TestStore) {
    let turno = test_store.turno().await;
    drop(take(&turno, "r", "a").await);
    until_free(&turno, "r").await;
    let id = take(&turno, "r", "a").await.detach();
    refused(turno.lock("r")).await;
    assert_eq!(
        turno.lock("r").release(id.token).await.unwrap(),
        ReleaseOutcome::Released { holds: 0 }
    );
}

/// Of many concurrent acquires of one resource, exactly one succeeds, whether the resource is new, free or expired.
#[rule]
async fn of_many_at_once_one_wins(test_store: &TestStore) {
    let machines = [test_store.turno().await, test_store.turno().await];
    for round in 0..12 {
        let resource = format!("r/{}", round % 4);
        if round >= 8 {
            take(&machines[0], &resource, "dead").await.detach();
            test_store.expire(&resource).await;
        }
        let mut tasks = tokio::task::JoinSet::new();
        for n in 0..16 {
            let lock = machines[n % 2].lock(resource.clone());
            tasks.spawn(async move { lock.acquire().await.unwrap().acquired() });
        }
        let mut winners: Vec<_> = tasks.join_all().await.into_iter().flatten().collect();
        assert_eq!(winners.len(), 1, "round {round} on {resource}");
        winners.remove(0).release().await.unwrap();
    }
}

/// An owner can have at most a thousand holds of a resource. Each hold is kept until it is released.
#[rule]
async fn an_owner_enters_a_thousand_times(test_store: &TestStore) {
    let turno = test_store.turno().await;
    for (resource, table) in [("exclusive", "turno.lock"), ("shared", "turno.lock_hold")] {
        let acquire = || {
            let lock = turno.lock(resource).owner("a").ttl(secs(60));
            match resource {
                "shared" => lock.shared(),
                _ => lock,
            }
            .acquire()
        };
        let first = mine(acquire().await.unwrap());
        // Set the number of holds directly, instead of that many acquires.
        let most = turno::MAX_HOLDS;
        test_store
            .run(&format!(
                "update {table} set holds = {} where resource = '{resource}'",
                most - 1
            ))
            .await;
        let last = mine(acquire().await.unwrap());
        assert_eq!(last.grant().holds, most, "{resource}");
        let error = acquire().await.unwrap_err();
        assert_eq!(
            (error.is_invalid(), error.field()),
            (true, Some("owner")),
            "{resource}: {error}"
        );
        assert!(error.to_string().contains("1000"), "{error}");
        last.release().await.unwrap();
        drop(mine(acquire().await.unwrap()));
        drop(first);
    }
}
