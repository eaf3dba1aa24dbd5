//! Shared holds and permits.

use turno::lock::{HistoryEvent, Lock, ReleaseOutcome, RenewOutcome};
use turno::{Token, Turno};

use crate::conformance::lock::fixtures::*;
use crate::conformance::{TestStore, rule};

fn permit(turno: &Turno, owner: &str, permits: u32) -> Lock {
    turno.lock("r").owner(owner).permits(permits)
}

fn share(turno: &Turno, owner: &str) -> Lock {
    turno.lock("r").owner(owner).shared()
}

/// There are as many holders as permits; after a release, another one gets a permit.
#[rule]
async fn permits_let_so_many_in(test_store: &TestStore) {
    let machines = [test_store.turno().await, test_store.turno().await];
    let mut leases = Vec::new();
    for n in 0..3 {
        leases
            .push(acquired(permit(&machines[n % 2], &n.to_string(), 3).user(n.to_string())).await);
    }
    let tokens: Vec<Token> = leases.iter().map(|lease| lease.token()).collect();
    assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
    let full = refused(permit(&machines[1], "x", 3)).await;
    assert!(
        full.holder.is_some() && full.remaining > secs(10),
        "{full:?}"
    );
    leases.remove(1).release().await.unwrap();
    leases.push(acquired(permit(&machines[1], "x", 3)).await);
    refused(permit(&machines[0], "y", 3)).await;
    assert_eq!(owners(&machines[0], "r").await, ["0", "2", "x"]);
    let status = machines[0].lock("r").status().await.unwrap().holders;
    assert_eq!(
        status
            .iter()
            .map(|holder| holder.attribution.user.as_deref())
            .collect::<Vec<_>>(),
        [Some("0"), Some("2"), None]
    );
    assert!(status.iter().all(|holder| holder.mode == "shared"));
}

/// Concurrent acquires never exceed the permits.
#[rule]
async fn of_many_at_once_so_many_get_permits(test_store: &TestStore) {
    let machines = [test_store.turno().await, test_store.turno().await];
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..16 {
        let lock =
            permit(&machines[n % 2], &n.to_string(), 3).wait(std::time::Duration::from_millis(300));
        tasks.spawn(async move { lock.acquire().await.unwrap().acquired() });
    }
    let leases: Vec<_> = tasks.join_all().await.into_iter().flatten().collect();
    assert_eq!(leases.len(), 3);
    assert_eq!(owners(&machines[0], "r").await.len(), 3);
}

/// An expired permit can be acquired, and the expiry is recorded.
#[rule]
async fn an_expired_permit_makes_room(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let dead = acquired(permit(&turno, "dead", 2).user("1")).await.detach();
    let _live = acquired(permit(&turno, "live", 2).ttl(secs(600))).await;
    refused(permit(&turno, "next", 2)).await;
    test_store.expire_hold("r", dead.token).await;
    assert_eq!(owners(&turno, "r").await, ["live"]);
    let next = acquired(permit(&turno, "next", 2)).await;
    assert!(next.token() > dead.token);
    assert_eq!(
        events(&turno, "r").await,
        [(HistoryEvent::Expired, dead.token)]
    );
    assert_eq!(
        history(&turno, "r").await[0].attribution.user.as_deref(),
        Some("1")
    );
    assert_eq!(
        turno
            .lock("r")
            .ttl(secs(60))
            .renew(dead.token)
            .await
            .unwrap(),
        RenewOutcome::Lost
    );
}

/// A busy outcome among shared holders has the one that expires first.
#[rule]
async fn busy_sharers_tell_who_ends_first(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let _long = acquired(permit(&turno, "long", 2).user("long").ttl(secs(600))).await;
    let _short = acquired(permit(&turno, "short", 2).user("short").ttl(secs(60))).await;
    let full = refused(permit(&turno, "x", 2)).await;
    assert_eq!(full.holder.unwrap().user.as_deref(), Some("short"));
    assert!(full.remaining <= secs(60));
}

/// Shared holders block an exclusive acquire until the last of them has ended, in any way.
#[rule]
async fn an_exclusive_one_waits_for_the_last_sharer(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let (a, b) = (
        acquired(share(&turno, "a")).await,
        acquired(share(&turno, "b").ttl(secs(600))).await,
    );
    refused(turno.lock("r").owner("x")).await;
    let last = b.token();
    b.release().await.unwrap();
    let still = refused(turno.lock("r").owner("x")).await;
    assert!(
        still.remaining <= secs(30),
        "the one who is left: {still:?}"
    );
    a.release().await.unwrap();
    let exclusive = take(&turno, "r", "x").await;
    assert!(exclusive.token() > last);
    refused(share(&turno, "a")).await;
    refused(permit(&turno, "a", 5)).await;
    exclusive.release().await.unwrap();
    acquired(share(&turno, "a")).await.detach();
    test_store.expire("r").await;
    take(&turno, "r", "x").await.detach();
}

/// Shared holders keep their own TTLs: the row ends with the last of them.
#[rule]
async fn a_renewed_sharer_keeps_the_exclusive_one_out(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let (a, b) = (
        acquired(share(&turno, "a")).await,
        acquired(share(&turno, "b")).await,
    );
    a.renew_for(secs(600)).await.unwrap();
    test_store.expire_hold("r", b.token()).await;
    let x = refused(turno.lock("r").owner("x")).await;
    assert!(x.remaining > secs(500), "{x:?}");
    assert_eq!(owners(&turno, "r").await, ["a"]);
    b.detach();
}

/// A reentrant shared acquire: same token, one more hold. Each release ends one hold.
#[rule]
async fn a_sharer_enters_again(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let first = acquired(permit(&turno, "a", 1).ttl(secs(60))).await;
    let second = acquired(permit(&turno, "a", 1).ttl(secs(600))).await;
    assert_eq!(
        (
            second.token(),
            second.grant().holds,
            second.grant().reentered
        ),
        (first.token(), 2, true)
    );
    assert!(second.expires_at() > first.expires_at());
    assert_eq!(
        second.release().await.unwrap(),
        ReleaseOutcome::Released { holds: 1 }
    );
    refused(permit(&turno, "b", 1)).await;
    assert_eq!(
        first.release().await.unwrap(),
        ReleaseOutcome::Released { holds: 0 }
    );
    acquired(permit(&turno, "b", 1)).await.detach();
}

/// A shared acquire by the exclusive owner is a reentrant acquire.
#[rule]
async fn an_exclusive_owner_enters_again_as_a_sharer(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let exclusive = take(&turno, "r", "a").await;
    let shared = acquired(share(&turno, "a")).await;
    assert_eq!(
        (
            shared.token(),
            shared.grant().holds,
            shared.grant().reentered
        ),
        (exclusive.token(), 2, true)
    );
    refused(share(&turno, "b")).await;
    assert_eq!(
        shared.release().await.unwrap(),
        ReleaseOutcome::Released { holds: 1 }
    );
    refused(share(&turno, "b")).await;
    assert_eq!(
        exclusive.release().await.unwrap(),
        ReleaseOutcome::Released { holds: 0 }
    );
}

/// A shared holder that wants exclusive access has to release first, even if it is the only one.
#[rule]
async fn a_sharer_does_not_become_exclusive(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let shared = acquired(share(&turno, "a")).await;
    refused(turno.lock("r").owner("a")).await;
    shared.release().await.unwrap();
    take(&turno, "r", "a").await.detach();
}

/// The end of each shared hold is in the history.
#[rule]
async fn each_sharer_has_its_history(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let mut tokens = Vec::new();
    for owner in ["a", "b"] {
        let lease = acquired(share(&turno, owner).user(owner)).await;
        tokens.push(lease.token());
        lease.detach();
    }
    for token in &tokens {
        turno.lock("r").release(*token).await.unwrap();
    }
    assert_eq!(
        events(&turno, "r").await,
        [
            (HistoryEvent::Released, tokens[1]),
            (HistoryEvent::Released, tokens[0])
        ]
    );
    assert!(
        history(&turno, "r")
            .await
            .iter()
            .all(|entry| entry.mode.as_deref() == Some("shared")
                && entry.attribution.user == entry.owner)
    );
}

/// A reentrant shared acquire does not end the hold of another owner, not even an expired one.
#[rule]
async fn a_sharer_that_enters_again_ends_no_other(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let slow = acquired(share(&turno, "slow")).await;
    let _quick = acquired(share(&turno, "quick")).await;
    test_store.expire_hold("r", slow.token()).await;
    let _again = acquired(share(&turno, "quick")).await;
    assert_eq!(events(&turno, "r").await, []);
    assert!(
        matches!(slow.renew().await.unwrap(), RenewOutcome::Renewed { .. }),
        "its permit is not taken"
    );
    assert_eq!(owners(&turno, "r").await, ["slow", "quick"]);
}
