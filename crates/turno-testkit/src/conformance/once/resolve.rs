//! An operator has looked, and says that the work of an unknown key was done.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use turno::Turno;
use turno::history::{History, Part};
use turno::once::{Begin, OnceClaim, OnceResolved, OnceSettled, OnceState, Released};

use crate::conformance::caller_writes::Write;
use crate::conformance::lock::fixtures::{TIMEOUT, secs};
use crate::conformance::once::fixtures::*;
use crate::conformance::{TestStore, rule};

/// Says that the work of a key was done, with this answer.
async fn resolve(turno: &Turno, key: &str, answer: Option<&str>) -> OnceResolved {
    let once = turno.once(key).user("ana").reason("the bank has it");
    once.resolve(answer).await.unwrap()
}

/// A key whose run has vanished, and the claim of that run.
async fn vanished(test_store: &TestStore, turno: &Turno, key: &str) -> OnceClaim {
    let claim = take(turno, key).await.detach();
    test_store.expire_once(key).await;
    OnceClaim {
        key: key.into(),
        token: claim.token,
    }
}

/// How many entries the history has of once keys.
async fn recorded(turno: &Turno) -> usize {
    let ask = History {
        part: Some(Part::Once),
        ..History::default()
    };
    turno.history(ask).await.unwrap().len()
}

/// Each caller gets the operator's answer, and the work is not done again.
#[rule]
async fn an_operator_resolves_what_is_unknown(test_store: &TestStore) {
    let (turno, operator) = (test_store.turno().await, test_store.turno().await);
    for (key, answer) in [
        ("pago/ñ@7", Some(r#"{"receipt":12345678901234567890}"#)),
        ("null", Some("null")),
        ("none", None),
    ] {
        let claim = vanished(test_store, &turno, key).await;
        let before = status(&turno, key).await;
        let resolved = resolve(&operator, key, answer).await;
        assert_eq!(resolved, OnceResolved::Resolved, "{key}");
        assert_eq!(answered(&turno, key).await.as_deref(), answer, "{key}");
        let view = status(&turno, key).await;
        assert_eq!((view.state, view.attempt), (OnceState::Done, 1), "{key}");
        assert_eq!(view.worker, before.worker, "{key}");
        assert!(view.claim.token > claim.token, "{key}");
    }
    let run = turno.once("null").run(async || Err::<Option<u8>, _>("run"));
    assert_eq!(run.await.unwrap(), None);
}

/// Only an unknown key is resolved: what is in flight or done stays as it was, and leaves nothing in the history.
#[rule]
async fn only_what_is_unknown_is_resolved(test_store: &TestStore) {
    let (turno, operator) = (test_store.turno().await, test_store.turno().await);
    assert_eq!(
        resolve(&operator, "never", Some("1")).await,
        OnceResolved::NotFound
    );
    take(&turno, "given back").await.release().await.unwrap();
    let given_back = resolve(&operator, "given back", Some("1")).await;
    assert_eq!(given_back, OnceResolved::NotFound);
    take(&turno, "given back").await.detach();

    let once = turno.once("running").worker("w1").lease(LONG);
    let claim = fresh(once.begin().await.unwrap());
    let before = status(&turno, "running").await;
    match resolve(&operator, "running", Some("1")).await {
        OnceResolved::InFlight(run) => {
            assert_eq!((run.worker.as_deref(), run.attempt), (Some("w1"), 1));
            assert!(run.remaining > Duration::ZERO);
            assert_eq!(run.expires_at, before.expires_at);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(status(&turno, "running").await, before);
    assert_eq!(claim.complete("own").await.unwrap(), OnceSettled::Done);

    let answer_of_run = Some(r#""own""#);
    assert_eq!(
        resolve(&operator, "running", Some("1")).await,
        OnceResolved::Answered
    );
    assert_eq!(answered(&turno, "running").await.as_deref(), answer_of_run);
    vanished(test_store, &turno, "twice").await;
    assert_eq!(
        resolve(&operator, "twice", Some("1")).await,
        OnceResolved::Resolved
    );
    assert_eq!(
        resolve(&operator, "twice", Some("2")).await,
        OnceResolved::Answered
    );
    assert_eq!(answered(&turno, "twice").await.as_deref(), Some("1"));
    assert_eq!(
        recorded(&turno).await,
        1,
        "that of the one that was resolved"
    );
}

/// The answer is kept for as long as begin said, from the moment at which the key was resolved.
#[rule]
async fn a_resolved_answer_is_kept_for_its_time(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let once = turno.once("k").ttl(secs(3600));
    fresh(once.begin().await.unwrap()).detach();
    // Longer than the answer is kept, and less than unknown is remembered.
    test_store.age_once("k", secs(3 * 3600)).await;
    assert_eq!(
        resolve(&turno, "k", Some("1")).await,
        OnceResolved::Resolved
    );
    assert_eq!(turno.sweep(&Default::default()).await.unwrap().once, 0);
    assert_eq!(answered(&turno, "k").await.as_deref(), Some("1"));
    test_store.age_once("k", secs(3601)).await;
    assert_eq!(
        resolve(&turno, "k", Some("2")).await,
        OnceResolved::NotFound
    );
    take(&turno, "k").await.detach();
}

/// The run that had vanished comes back: whatever it says of its claim is stale, and the operator's answer stays.
#[rule]
async fn a_late_answer_after_a_resolve_is_stale(test_store: &TestStore) {
    let (turno, operator) = (test_store.turno().await, test_store.turno().await);
    let claim = vanished(test_store, &turno, "k").await;
    assert_eq!(
        resolve(&operator, "k", Some("1")).await,
        OnceResolved::Resolved
    );
    let late = [
        turno.once_complete(&claim, Some("2"), None).await,
        turno.once_extend(&claim, LONG).await,
        turno.once_release(&claim, Released::Undone).await,
        turno.once_release(&claim, Released::Unknown).await,
    ];
    for settled in late {
        assert_eq!(settled.unwrap(), OnceSettled::Stale);
    }
    assert_eq!(answered(&operator, "k").await.as_deref(), Some("1"));
    let late = status(&turno, "k").await.late;
    assert!(late > 0, "it is counted");
}

/// The control: had the key its old token, the late run would be told that its own answer is stored.
#[rule]
async fn with_its_old_token_a_late_answer_would_count(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let claim = vanished(test_store, &turno, "k").await;
    test_store
        .run("update turno.once set state = 'done', until = {now} + {us:60000000}, answer = '1'")
        .await;
    let settled = turno.once_complete(&claim, Some("2"), None).await.unwrap();
    assert_eq!(settled, OnceSettled::Done);
    assert_eq!(answered(&turno, "k").await.as_deref(), Some("1"));
}

/// Of many operators one resolves a key, and the others learn that it has an answer.
#[rule]
async fn of_many_resolves_one_counts(test_store: &TestStore) {
    let machines = [test_store.turno().await, test_store.turno().await];
    for round in 0..3 {
        let key = format!("k/{round}");
        vanished(test_store, &machines[0], &key).await;
        let mut tasks = tokio::task::JoinSet::new();
        for n in 0..8 {
            let (turno, key) = (machines[n % 2].clone(), key.clone());
            tasks.spawn(async move { (n, resolve(&turno, &key, Some(&n.to_string())).await) });
        }
        let outcome = tasks.join_all().await;
        let of = |what: &OnceResolved| {
            let such = outcome.iter().filter(|(_, resolved)| resolved == what);
            such.map(|(n, _)| n.to_string()).collect::<Vec<_>>()
        };
        let counted = of(&OnceResolved::Resolved);
        assert_eq!(counted.len(), 1, "{outcome:?}");
        assert_eq!(of(&OnceResolved::Answered).len(), 7, "{outcome:?}");
        assert_eq!(answered(&machines[0], &key).await, Some(counted[0].clone()));
    }
    assert_eq!(recorded(&machines[0]).await, 3);
}

/// A waiter is called, and gets the answer.
#[rule]
async fn a_resolve_reaches_who_waits(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    let mut took = Vec::new();
    for n in 0..5 {
        let key = format!("k/{n}");
        take(&turno, &key).await.detach();
        let once = other.once(&key).wait(TIMEOUT);
        let waiter = tokio::spawn(async move { once.begin().await.unwrap() });
        test_store.until_awaited(&key, &other).await;
        // The waiter does not hear of this on PostgreSQL, where it sleeps until the old end of the lease.
        test_store.expire_once(&key).await;
        let resolved = Instant::now();
        assert_eq!(
            resolve(&turno, &key, Some("1")).await,
            OnceResolved::Resolved
        );
        match waiter.await.unwrap() {
            Begin::Replay(answer) => {
                assert_eq!(answer.text(), Some("1"));
                took.push(resolved.elapsed());
            }
            // It looked in the moment between: SQLite calls its waiters with every commit.
            Begin::Unknown(_) => {
                assert_eq!(answered(&other, &key).await.as_deref(), Some("1"));
            }
            outcome => panic!("{outcome:?}"),
        }
    }
    took.sort_unstable();
    if !test_store.is_sqlite() {
        assert!(took.first().is_some_and(|took| *took < secs(1)), "{took:?}");
    }
}

/// An answer that is being written in a transaction decides: if that commits, the key has an answer.
#[rule]
async fn a_resolve_waits_for_an_answer_being_written(test_store: &TestStore) {
    let (turno, operator) = (test_store.turno().await, test_store.turno().await);
    for caller in test_store.callers() {
        for commits in [true, false] {
            let key = format!("{caller:?}/{commits}");
            // Short, because on some stores nothing can be moved while the transaction is open.
            let once = turno.once(&key).lease(Duration::from_millis(150));
            let claim = Arc::new(fresh(once.begin().await.unwrap()));
            let write = Write::Answer(claim.clone(), "own".into(), turno.clone(), Vec::new());
            let tx = test_store.open_inbox(*caller, write).await.unwrap();
            crate::eventually_async(TIMEOUT, "the lease's end", async || {
                (turno::clock::machine() > claim.grant().expires_at).then_some(())
            })
            .await;
            let resolving = {
                let (operator, key) = (operator.clone(), key.clone());
                tokio::spawn(async move { resolve(&operator, &key, Some("1")).await })
            };
            let (resolved, answer) = if commits {
                tx.commit().await;
                (OnceResolved::Answered, r#""own""#)
            } else {
                tx.roll_back().await;
                (OnceResolved::Resolved, "1")
            };
            assert_eq!(resolving.await.unwrap(), resolved, "{key}");
            assert_eq!(
                answered(&turno, &key).await.as_deref(),
                Some(answer),
                "{key}"
            );
        }
    }
}
