//! The same request again, because its response was lost: it is applied once.

use turno::lock::{BreakOutcome, HistoryEvent, LockMode, ReleaseOutcome};
use turno::store::{LockAcquireAll, LockAllOutcome, LockBreak, LockRelease};
use turno::{Token, Turno};
use uuid::Uuid;

use crate::conformance::lock::fixtures::*;
use crate::conformance::{TestStore, rule};

fn release(resource: &str, token: Token) -> LockRelease {
    LockRelease {
        resource: resource.into(),
        token,
        hold: None,
        request: Uuid::now_v7(),
    }
}

const MODES: [(&str, LockMode); 3] = [
    ("exclusive", LockMode::Exclusive),
    ("shared", LockMode::Shared),
    ("permits", LockMode::Permits(1)),
];

async fn twice(
    turno: &Turno,
    other: &Turno,
    ask: &LockRelease,
) -> (ReleaseOutcome, ReleaseOutcome) {
    let first = turno.store().lock_release(ask).await.unwrap();
    (first, other.store().lock_release(ask).await.unwrap())
}

/// The same acquire twice is one lease with one hold. With another request id, it is a reentrant acquire.
#[rule]
async fn an_acquire_sent_twice_is_one(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    for (resource, mode) in MODES {
        let mut ask = ask(resource, "a");
        ask.mode = mode;
        let first = granted(turno.store().lock_acquire(&ask).await.unwrap());
        let second = granted(other.store().lock_acquire(&ask).await.unwrap());
        assert_eq!(
            (second.token, second.holds, second.reentered),
            (first.token, 1, false)
        );
        assert_eq!(
            (second.acquired_at, second.expires_at),
            (first.acquired_at, first.expires_at)
        );
        ask.request = Uuid::now_v7();
        for sent in 0..2 {
            let again = granted(turno.store().lock_acquire(&ask).await.unwrap());
            assert_eq!(
                (again.token, again.holds),
                (first.token, 2),
                "sent {sent} times before"
            );
        }
        assert_eq!(
            turno.lock(resource).release(first.token).await.unwrap(),
            ReleaseOutcome::Released { holds: 1 }
        );
        assert_eq!(
            turno.lock(resource).release(first.token).await.unwrap(),
            ReleaseOutcome::Released { holds: 0 }
        );
    }
}

/// The same acquire of several resources twice is one set of leases.
#[rule]
async fn an_acquire_of_several_sent_twice_is_one(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let ask = LockAcquireAll {
        resources: vec!["a".into(), "b".into()],
        each: ask("", "x"),
    };
    let mut answers = Vec::new();
    for _ in 0..2 {
        let LockAllOutcome::Acquired(grants) = turno.store().lock_acquire_all(&ask).await.unwrap()
        else {
            panic!("busy")
        };
        answers.push(
            grants
                .into_iter()
                .map(|grant| (grant.token, grant.holds))
                .collect::<Vec<_>>(),
        );
    }
    assert_eq!(answers[0], answers[1]);
    assert!(answers[0].iter().all(|(_, holds)| *holds == 1));
}

/// The same release twice ends one hold. A second release with another request id returns that the lease is lost.
#[rule]
async fn a_release_sent_twice_is_one(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    for (resource, mode) in MODES {
        let mut ask = ask(resource, "a");
        ask.mode = mode;
        let grant = granted(turno.store().lock_acquire(&ask).await.unwrap());
        let done = ReleaseOutcome::Released { holds: 0 };
        assert_eq!(
            twice(&turno, &other, &release(resource, grant.token)).await,
            (done, done),
            "{resource}"
        );
        assert_eq!(
            events(&turno, resource).await,
            [(HistoryEvent::Released, grant.token)]
        );
        assert_eq!(
            twice(&turno, &other, &release(resource, grant.token))
                .await
                .0,
            ReleaseOutcome::Lost
        );
    }
}

/// The same holds if another owner has acquired the lock in between: that lease is not affected, and no late call is recorded.
#[rule]
async fn a_release_sent_twice_meets_the_next_holder(test_store: &TestStore) {
    let turno = test_store.turno().await;
    for (resource, mode) in MODES {
        for (next, after) in MODES {
            let resource = &format!("{resource}/{next}");
            let (mut ask, mut next) = (ask(resource, "a"), ask(resource, "b"));
            (ask.mode, next.mode) = (mode, after);
            let grant = granted(turno.store().lock_acquire(&ask).await.unwrap());
            let give_back = release(resource, grant.token);
            let done = ReleaseOutcome::Released { holds: 0 };
            assert_eq!(turno.store().lock_release(&give_back).await.unwrap(), done);
            granted(turno.store().lock_acquire(&next).await.unwrap());
            assert_eq!(
                turno.store().lock_release(&give_back).await.unwrap(),
                done,
                "{resource}"
            );
            assert_eq!(owners(&turno, resource).await, ["b"]);
            assert_eq!(
                count(&turno, resource, HistoryEvent::Late).await,
                0,
                "{resource}"
            );
            assert_eq!(
                turno
                    .store()
                    .lock_release(&release(resource, grant.token))
                    .await
                    .unwrap(),
                ReleaseOutcome::Lost
            );
        }
    }
}

/// The same holds if many leases of other resources have ended in between.
#[rule]
async fn a_release_sent_twice_is_found_behind_others(test_store: &TestStore) {
    // More than a repeated release looks back in the history of its resource.
    const MANY: usize = 101;
    let turno = test_store.turno().await;
    let store = turno.store();
    let mut sent = Vec::new();
    for (resource, mode) in MODES {
        let mut ask = ask(resource, "a");
        ask.mode = mode;
        let grant = granted(store.lock_acquire(&ask).await.unwrap());
        let give_back = release(resource, grant.token);
        store.lock_release(&give_back).await.unwrap();
        sent.push(give_back);
    }
    for n in 0..MANY {
        let other = format!("other/{n}");
        let grant = granted(store.lock_acquire(&ask(&other, "b")).await.unwrap());
        let give_back = release(&other, grant.token);
        store.lock_release(&give_back).await.unwrap();
    }
    for give_back in sent {
        assert_eq!(
            store.lock_release(&give_back).await.unwrap(),
            ReleaseOutcome::Released { holds: 0 },
            "{}",
            give_back.resource
        );
    }
}

/// The same release twice ends one of several holds.
#[rule]
async fn a_release_sent_twice_takes_one_of_several(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    for (resource, mode) in MODES {
        let mut token = Token(0);
        for _ in 0..3 {
            let mut ask = ask(resource, "a");
            ask.mode = mode;
            token = granted(turno.store().lock_acquire(&ask).await.unwrap()).token;
        }
        let (two, one) = (
            ReleaseOutcome::Released { holds: 2 },
            ReleaseOutcome::Released { holds: 1 },
        );
        assert_eq!(
            twice(&turno, &other, &release(resource, token)).await,
            (two, two),
            "{resource}"
        );
        assert_eq!(
            twice(&turno, &other, &release(resource, token)).await,
            (one, one),
            "{resource}"
        );
        assert_eq!(owners(&turno, resource).await, ["a"]);
    }
}

/// The same break twice is one break. A second break with another request id returns that the lock is not held.
#[rule]
async fn a_break_sent_twice_is_one(test_store: &TestStore) {
    let turno = test_store.turno().await;
    for (resource, mode) in MODES {
        let mut ask = ask(resource, "a");
        ask.mode = mode;
        let token = granted(turno.store().lock_acquire(&ask).await.unwrap()).token;
        let mut force = LockBreak {
            resource: resource.into(),
            token,
            reason: "stuck".into(),
            user: None,
            request: Uuid::now_v7(),
        };
        assert_eq!(
            turno.store().lock_break(&force).await.unwrap(),
            BreakOutcome::Broken
        );
        assert_eq!(
            turno.store().lock_break(&force).await.unwrap(),
            BreakOutcome::Broken,
            "{resource}"
        );
        take(&turno, resource, "b").await.detach();
        assert_eq!(
            turno.store().lock_break(&force).await.unwrap(),
            BreakOutcome::Broken,
            "{resource}"
        );
        assert_eq!(owners(&turno, resource).await, ["b"]);
        force.request = Uuid::now_v7();
        assert_eq!(
            turno.store().lock_break(&force).await.unwrap(),
            BreakOutcome::NotHeld
        );
        assert_eq!(
            events(&turno, resource).await,
            [(HistoryEvent::Broken, token)]
        );
    }
}
