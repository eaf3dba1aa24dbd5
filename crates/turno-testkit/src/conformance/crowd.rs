//! Many callers of one instance, whose questions travel together: each gets its own answer.

use std::collections::HashSet;

use turno::lock::{Acquire, ReleaseOutcome};

use super::Bed;

/// More than one batch holds.
const CROWD: usize = 200;

/// Everybody wants something else, twice over: all get it, with tokens of their own, and give it back.
pub async fn each_of_many_gets_its_own_answer(bed: &Bed) {
    let turno = bed.turno().await;
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
                    let lease = lock.clone().acquire().await.unwrap().acquired().unwrap();
                    assert_eq!(
                        (lease.resource(), lease.owner()),
                        (&*resource, &*format!("owner {n}"))
                    );
                    // Again, by the same owner, in the same crowd.
                    let again = lock.acquire().await.unwrap().acquired().unwrap();
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
                        turno.lock_release(&resource, token).await.unwrap(),
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

/// Everybody wants the same: one gets it, whoever comes with it in one batch, and all others know who.
pub async fn one_of_many_wins(bed: &Bed) {
    let turno = bed.turno().await;
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
