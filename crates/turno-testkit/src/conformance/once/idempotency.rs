//! The same call again, because its response was lost: the second has no further effect.

use std::time::Duration;

use turno::once::{OnceSettled, OnceState};
use turno::store::{
    AfterUnknown, OnceBegin, OnceComplete, OnceExtend, OnceOutcome, OnceRelease, Released,
    WhileInFlight,
};
use uuid::Uuid;

use crate::conformance::once::fixtures::*;
use crate::conformance::{TestStore, rule};

/// The same begin sent twice returns the same claim, with any options. Another request id is another begin.
#[rule]
async fn a_begin_sent_twice_is_one(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    for ttl in [DAY, Duration::ZERO] {
        for in_flight in [WhileInFlight::Leave, WhileInFlight::Wait] {
            let ask = OnceBegin {
                ttl,
                in_flight,
                fingerprint: Some("f".into()),
                ..ask(&format!("k/{ttl:?}/{in_flight:?}"))
            };
            let first = granted(turno.store().once_begin(&ask).await.unwrap());
            for turno in [&turno, &other, &other] {
                let again = granted(turno.store().once_begin(&ask).await.unwrap());
                assert_eq!(
                    (&again.claim, again.attempt, again.expires_at),
                    (&first.claim, 1, first.expires_at)
                );
            }
            let another = OnceBegin {
                request: Uuid::now_v7(),
                ..ask
            };
            let outcome = other.store().once_begin(&another).await.unwrap();
            assert!(matches!(outcome, OnceOutcome::InFlight(_)), "{outcome:?}");
        }
    }
}

/// A begin whose response was lost for longer than its lease begins again when it is repeated: none of its work was done.
/// Other callers get the outcome unknown.
#[rule]
async fn a_begin_repeated_after_its_lease_begins_again(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    for unknown in [AfterUnknown::Refuse, AfterUnknown::Rerun] {
        let key = format!("k/{unknown:?}");
        let ask = OnceBegin {
            unknown,
            fingerprint: Some("f".into()),
            ..ask(&key)
        };
        let lost = granted(turno.store().once_begin(&ask).await.unwrap());
        test_store.expire_once(&key).await;
        let another = OnceBegin {
            request: Uuid::now_v7(),
            unknown: AfterUnknown::Refuse,
            ..ask.clone()
        };
        let outcome = other.store().once_begin(&another).await.unwrap();
        assert!(matches!(outcome, OnceOutcome::Unknown(_)), "{outcome:?}");
        let again = granted(other.store().once_begin(&ask).await.unwrap());
        assert_eq!(again.attempt, 1);
        assert!(again.claim.token > lost.claim.token);
        let complete = OnceComplete {
            claim: lost.claim,
            answer: None,
            ttl: None,
        };
        let settled = turno.store().once_complete(&complete).await.unwrap();
        assert_eq!(settled, OnceSettled::Stale);
    }
}

/// A run that was extended, or given up as unknown, has begun: its begin, repeated, gets the outcome unknown as every other caller.
#[rule]
async fn a_begin_repeated_after_its_run_was_heard_of_is_unknown(test_store: &TestStore) {
    let turno = test_store.turno().await;
    for is_extended in [true, false] {
        let ask = ask(&format!("k/{is_extended}"));
        let claim = granted(turno.store().once_begin(&ask).await.unwrap()).claim;
        let settled = if is_extended {
            let lease = LONG;
            let extend = OnceExtend { claim, lease };
            turno.store().once_extend(&extend).await.unwrap()
        } else {
            let released = Released::Unknown;
            let release = OnceRelease { claim, released };
            turno.store().once_release(&release).await.unwrap()
        };
        assert_ne!(settled, OnceSettled::Stale);
        test_store.expire_once(&ask.key).await;
        let outcome = turno.store().once_begin(&ask).await.unwrap();
        assert!(matches!(outcome, OnceOutcome::Unknown(_)), "{outcome:?}");
    }
}

/// The same begin twice in one batch is one, too, and so is one that takes over.
#[rule]
async fn a_rerun_sent_twice_is_one(test_store: &TestStore) {
    let turno = test_store.turno().await;
    take(&turno, "k").await.release_unknown().await.unwrap();
    let ask = OnceBegin {
        unknown: AfterUnknown::Rerun,
        ..ask("k")
    };
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..10 {
        let (turno, ask) = (turno.clone(), ask.clone());
        tasks.spawn(async move { turno.store().once_begin(&ask).await.unwrap() });
    }
    let outcome = tasks.join_all().await;
    let grants: Vec<_> = outcome.into_iter().map(granted).collect();
    for grant in &grants {
        assert_eq!((&grant.claim, grant.attempt), (&grants[0].claim, 2));
    }
}

/// A completion sent twice succeeds twice, and the first answer stays.
#[rule]
async fn a_completion_sent_twice_is_one(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    for ttl in [DAY, Duration::ZERO] {
        let ask = OnceBegin {
            ttl,
            ..ask(&format!("k/{ttl:?}"))
        };
        let grant = granted(turno.store().once_begin(&ask).await.unwrap());
        let mut first = None;
        for (turno, answer) in [(&turno, "1"), (&other, "2"), (&turno, "3")] {
            let complete = OnceComplete {
                claim: grant.claim.clone(),
                answer: Some(answer.into()),
                ttl: None,
            };
            let settled = turno.store().once_complete(&complete).await.unwrap();
            assert_eq!(settled, OnceSettled::Done);
            let view = turno.once(&ask.key).status().await.unwrap();
            assert_eq!(*first.get_or_insert_with(|| view.clone()), view);
        }
        let kept = first.unwrap();
        assert_eq!(kept.is_some(), ttl > Duration::ZERO);
        if let Some(view) = kept {
            assert_eq!((view.state, view.late), (OnceState::Done, 0));
            assert_eq!(view.answer.as_deref(), Some("1"));
        }
    }
}

/// A release sent twice succeeds twice, until another run begins.
#[rule]
async fn a_release_sent_twice_is_one(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    for ttl in [DAY, Duration::ZERO] {
        for released in [Released::Undone, Released::Unknown] {
            let ask = OnceBegin {
                ttl,
                unknown: AfterUnknown::Rerun,
                ..ask(&format!("k/{ttl:?}/{released:?}"))
            };
            let grant = granted(turno.store().once_begin(&ask).await.unwrap());
            let release = OnceRelease {
                claim: grant.claim.clone(),
                released,
            };
            for turno in [&turno, &other] {
                let settled = turno.store().once_release(&release).await.unwrap();
                assert_eq!(settled, OnceSettled::Done);
            }
            let next = OnceBegin {
                request: Uuid::now_v7(),
                ..ask
            };
            let next = granted(other.store().once_begin(&next).await.unwrap());
            let settled = turno.store().once_release(&release).await.unwrap();
            assert_eq!(settled, OnceSettled::Stale);
            let view = status(&turno, &next.claim.key).await;
            assert_eq!((view.state, view.claim), (OnceState::InFlight, next.claim));
        }
    }
}
