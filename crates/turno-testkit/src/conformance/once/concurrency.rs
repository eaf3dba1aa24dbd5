//! Many concurrent callers: the work of a key is done once, and each caller gets its own result.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use turno::once::{Begin, OnceError};

use crate::conformance::lock::fixtures::TIMEOUT;
use crate::conformance::{TestStore, rule};

/// Number of callers. Waits have a long timeout, because many callers on a busy machine take time.
const CROWD: usize = 50;

/// All callers, on three machines, begin the same key: the work is done once, and all get its answer.
#[rule]
async fn a_crowd_has_its_work_done_once(test_store: &TestStore) {
    let machines = [
        test_store.turno().await,
        test_store.turno().await,
        test_store.turno().await,
    ];
    for round in 0..3 {
        let runs = Arc::new(AtomicU32::new(0));
        let mut tasks = tokio::task::JoinSet::new();
        for n in 0..CROWD {
            let once = machines[n % 3].once(format!("k/{round}")).wait(TIMEOUT);
            let runs = runs.clone();
            tasks.spawn(async move {
                once.run(async || {
                    runs.fetch_add(1, Ordering::SeqCst);
                    tokio::task::yield_now().await;
                    Ok::<_, String>(format!("by {n}"))
                })
                .await
                .unwrap()
            });
        }
        let outcome: HashSet<String> = tasks.join_all().await.into_iter().collect();
        assert_eq!(
            (runs.load(Ordering::SeqCst), outcome.len()),
            (1, 1),
            "{outcome:?}"
        );
    }
}

/// Callers that do not wait get the run in flight, and the work is not done twice.
#[rule]
async fn a_crowd_that_does_not_wait_gets_in_flight(test_store: &TestStore) {
    let machines = [
        test_store.turno().await,
        test_store.turno().await,
        test_store.turno().await,
    ];
    let runs = Arc::new(AtomicU32::new(0));
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..CROWD {
        let once = machines[n % 3].once("k");
        let runs = runs.clone();
        tasks.spawn(async move {
            once.run(async || {
                runs.fetch_add(1, Ordering::SeqCst);
                Ok::<_, String>("done".to_owned())
            })
            .await
        });
    }
    for outcome in tasks.join_all().await {
        assert!(
            matches!(&outcome, Ok(answer) if answer == "done")
                || matches!(outcome, Err(OnceError::InFlight(_))),
            "{outcome:?}"
        );
    }
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

/// Each caller begins its own key: all get their own claims and their own answers.
#[rule]
async fn each_of_a_crowd_gets_its_own_answer(test_store: &TestStore) {
    let machines = [test_store.turno().await, test_store.turno().await];
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..200 {
        let turno = machines[n % 2].clone();
        tasks.spawn(async move {
            let once = turno.once(format!("k/{n}")).fingerprint(n.to_string());
            let claim = once.begin().await.unwrap().fresh().expect("the key is new");
            assert_eq!(claim.key(), format!("k/{n}"));
            let Begin::InFlight(_) = once.begin().await.unwrap() else {
                panic!("{n} is in flight");
            };
            let other = turno.once(claim.key()).fingerprint("other");
            assert!(matches!(other.begin().await.unwrap(), Begin::Mismatch));
            claim.complete(&n).await.unwrap();
            let outcome = once.run(async || Err::<usize, _>("never run")).await;
            assert_eq!(outcome.unwrap(), n);
        });
    }
    tasks.join_all().await;
}
