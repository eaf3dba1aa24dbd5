//! Many callers of one instance, whose calls are batched: each gets its own result.

use std::collections::HashSet;

use turno::lock::{Acquire, ReleaseOutcome, RenewOutcome};
use turno::{Batching, Token, Turno};

use crate::conformance::lock::fixtures::{acquired, secs, take};
use crate::conformance::{TestStore, rule};

/// More calls than one batch holds.
const CROWD: usize = 200;

/// Each caller acquires its own resource, twice: all succeed, with their own tokens, and release them.
#[rule]
async fn each_of_many_gets_its_own_answer(test_store: &TestStore) {
    let turno = test_store.turno().await;
    for _ in 0..2 {
        let tasks: Vec<_> = (0..CROWD)
            .map(|n| {
                let turno = turno.clone();
                tokio::spawn(async move {
                    let resource = format!("crowd/{n}");
                    let lock = turno
                        .lock(&resource)
                        .owner(format!("owner {n}"))
                        .user(n.to_string());
                    let lease = acquired(lock.clone()).await;
                    assert_eq!(
                        (lease.resource(), lease.owner()),
                        (&*resource, &*format!("owner {n}"))
                    );
                    // A reentrant acquire by the same owner, in the same batch.
                    let again = acquired(lock).await;
                    assert_eq!((again.token(), again.grant().holds), (lease.token(), 2));
                    let Acquire::Busy(busy) = turno.lock(&resource).acquire().await.unwrap() else {
                        panic!("{resource} is held");
                    };
                    assert_eq!(busy.holder.unwrap().user, Some(n.to_string()));
                    let token = lease.token();
                    assert_eq!(
                        again.release().await.unwrap(),
                        ReleaseOutcome::Released { holds: 1 }
                    );
                    assert_eq!(
                        lease.release().await.unwrap(),
                        ReleaseOutcome::Released { holds: 0 }
                    );
                    assert_eq!(
                        turno.lock(&resource).release(token).await.unwrap(),
                        ReleaseOutcome::Lost
                    );
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    }
}

/// All callers acquire the same resource: one succeeds, whatever else is in its batch, and all others get its holder.
#[rule]
async fn one_of_many_wins(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let mut tokens = HashSet::new();
    for round in 0..5 {
        let tasks: Vec<_> = (0..CROWD)
            .map(|n| {
                let turno = turno.clone();
                tokio::spawn(async move {
                    turno
                        .lock("one")
                        .user(n.to_string())
                        .acquire()
                        .await
                        .unwrap()
                        .acquired()
                })
            })
            .collect();
        let mut leases = Vec::new();
        for task in tasks {
            leases.extend(task.await.unwrap());
        }
        assert_eq!(leases.len(), 1, "round {round}");
        for lease in leases {
            assert!(tokens.insert(lease.token()), "a token is granted once");
            lease.release().await.unwrap();
        }
    }
}

/// Many renewals at once: held leases are renewed, lost ones are reported as lost, whatever else is in the batch.
#[rule]
async fn each_of_many_renews_its_own(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let mut leases = Vec::new();
    for n in 0..CROWD {
        // Each third resource has another shared holder, and each fifth is released.
        let lock = turno.lock(format!("crowd/{n}")).ttl(secs(60));
        let lock = if n % 3 == 0 { lock.shared() } else { lock };
        let id = acquired(lock).await.detach();
        if n % 5 == 0 {
            turno.lock(&id.resource).release(id.token).await.unwrap();
        }
        leases.push(id);
    }
    for ttl in [120, 90] {
        let tasks: Vec<_> = leases
            .iter()
            .enumerate()
            // An unknown token beside each, in the same batch.
            .flat_map(|(n, id)| {
                [
                    (n, id.clone(), id.token),
                    (n, id.clone(), Token(id.token.0 + 1)),
                ]
            })
            .map(|(n, id, token)| {
                let turno = turno.clone();
                tokio::spawn(async move {
                    let renewed = turno
                        .lock(&id.resource)
                        .ttl(secs(ttl))
                        .renew(token)
                        .await
                        .unwrap();
                    let right = token == id.token && n % 5 != 0;
                    match renewed {
                        // Never shortened.
                        RenewOutcome::Renewed { remaining, .. } => {
                            assert!(right && remaining > secs(100), "{id}: {remaining:?}");
                        }
                        RenewOutcome::Lost => assert!(!right, "{id}"),
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    }
}

/// If many callers renew the same lease at once, the longest TTL counts.
#[rule]
async fn many_renew_the_same(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let id = take(&turno, "one", "a").await.detach();
    let tasks: Vec<_> = (0..CROWD as u64)
        .map(|n| {
            let (turno, id) = (turno.clone(), id.clone());
            tokio::spawn(async move {
                let ttl = secs(60 + n);
                let renewed = turno.lock(&id.resource).ttl(ttl).renew(id.token).await.unwrap();
                assert!(matches!(renewed, RenewOutcome::Renewed { remaining, .. } if remaining > secs(55)));
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let holder = turno.lock("one").status().await.unwrap().holders.remove(0);
    assert!(holder.remaining > secs(50 + CROWD as u64));
}

/// Without batching, all results are the same.
#[rule]
async fn alone_is_the_same(test_store: &TestStore) {
    let alone = Turno::builder().batching(Batching::Alone);
    let turno = alone.connect(test_store.url()).await.unwrap();
    let tasks: Vec<_> = (0..20)
        .map(|n| {
            let turno = turno.clone();
            tokio::spawn(async move {
                let lease = take(&turno, &format!("alone/{n}"), "a").await;
                assert!(matches!(
                    lease.renew().await.unwrap(),
                    RenewOutcome::Renewed { .. }
                ));
                let inbox = turno.inbox("q");
                assert!(!inbox.push(&n).await.unwrap().duplicate);
                let items = inbox.claim().take().await.unwrap();
                let settled = inbox.complete(&[items[0].claim]).await.unwrap();
                assert_eq!(settled.done, 1);
                let released = lease.release().await.unwrap();
                assert_eq!(released, ReleaseOutcome::Released { holds: 0 });
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(turno.inbox("q").stats().await.unwrap().completed, 20);
}

/// Concurrent pushes and renewals share their commits. The control, without batching, has one commit per call. On SQLite,
/// `writer.rs` tests it.
#[rule(postgres)]
async fn a_crowd_shares_its_commits(test_store: &TestStore) {
    for (batching, most) in [(Batching::Batched, CROWD / 2), (Batching::Alone, CROWD)] {
        let turno = Turno::builder().batching(batching);
        let turno = turno.connect(test_store.url()).await.unwrap();
        // The first push creates the queue.
        turno.inbox("q").push(&0).await.unwrap();
        test_store
            .run("truncate turno.inbox_item, turno.lock")
            .await;
        let tasks: Vec<_> = (0..CROWD)
            .map(|n| {
                let turno = turno.clone();
                tokio::spawn(async move {
                    let id = take(&turno, &format!("crowd/{n}"), "a").await.detach();
                    turno.inbox("q").push(&n).await.unwrap();
                    let renewed = turno.lock(&id.resource).ttl(secs(60)).renew(id.token);
                    assert!(matches!(
                        renewed.await.unwrap(),
                        RenewOutcome::Renewed { .. }
                    ));
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        for table in ["turno.inbox_item", "turno.lock"] {
            let commits = format!("select count(distinct xmin::text) from {table}");
            let commits = test_store.number(&commits).await;
            match batching {
                Batching::Batched => assert!(commits <= most as i64, "{table}: {commits}"),
                Batching::Alone => assert_eq!(commits, most as i64, "{table}"),
            }
        }
    }
}
