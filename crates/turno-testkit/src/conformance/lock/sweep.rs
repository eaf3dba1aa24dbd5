//! Sweeping: only a cleanup, never needed for correctness.

use turno::lock::HistoryEvent;

use crate::conformance::lock::fixtures::*;
use crate::conformance::{TestStore, rule};

/// A sweep closes expired locks, and no others; shared holds are counted one by one.
#[rule]
async fn a_sweep_closes_what_has_expired(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let dead = take(&turno, "dead", "a").await.detach();
    take(&turno, "live", "a").await.detach();
    for owner in ["a", "b", "c"] {
        acquired(turno.lock("shared").owner(owner).shared())
            .await
            .detach();
    }
    test_store.expire("dead").await;
    test_store.expire("shared").await;
    let swept = turno.sweep(&Default::default()).await.unwrap();
    assert_eq!((swept.expired, swept.purged), (4, 0), "{swept:?}");
    assert_eq!(
        events(&turno, "dead").await,
        [(HistoryEvent::Expired, dead.token)]
    );
    assert_eq!(count(&turno, "shared", HistoryEvent::Expired).await, 3);
    assert_eq!(owners(&turno, "live").await, ["a"]);
    assert!(turno.sweep(&Default::default()).await.unwrap().is_empty());
    // It changed no outcome, and nothing is recorded twice.
    take(&turno, "dead", "b").await.release().await.unwrap();
    take(&turno, "shared", "b").await.release().await.unwrap();
    assert_eq!(count(&turno, "dead", HistoryEvent::TakenOver).await, 0);
    assert_eq!(count(&turno, "shared", HistoryEvent::TakenOver).await, 0);
}

/// A sweep runs in batches, and deletes resources long unused, dead waiters and old history.
#[rule]
async fn a_sweep_forgets_what_is_old(test_store: &TestStore) {
    let turno = test_store.turno().await;
    for n in 0..5 {
        take(&turno, &format!("old/{n}"), "a")
            .await
            .release()
            .await
            .unwrap();
    }
    take(&turno, "held", "a").await.detach();
    stand_in_line(&turno, "held", "w").await;
    test_store.kill_waiter("held", "w").await;
    for n in 0..5 {
        test_store
            .age(&format!("old/{n}"), secs(2 * 24 * 60 * 60))
            .await;
    }
    let small = turno::lock::Sweep {
        batch: 2,
        ..Default::default()
    };
    let swept = turno.store().sweep(&small).await.unwrap();
    assert_eq!((swept.purged, swept.waiters), (2, 1), "{swept:?}");
    assert_eq!(turno.sweep(&small).await.unwrap().purged, 3);
    assert_eq!(test_store.rows().await, 1, "what is held stays");
    assert_eq!(
        count(&turno, "old/0", HistoryEvent::Released).await,
        1,
        "history is kept for longer"
    );
    test_store.age_history(secs(91 * 24 * 60 * 60)).await;
    assert_eq!(turno.sweep(&small).await.unwrap().history, 5);
    assert_eq!(history(&turno, "old/0").await, []);
}

/// Resources within a `min_hold`, with waiters or recently used are not deleted.
#[rule]
async fn a_sweep_keeps_what_is_wanted(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let now = turno::lock::Sweep {
        purge_after: secs(0),
        ..Default::default()
    };
    let resting = turno.lock("resting").ttl(secs(600)).min_hold(secs(600));
    acquired(resting).await.release().await.unwrap();
    let waited = take(&turno, "waited", "a").await;
    stand_in_line(&turno, "waited", "w").await;
    waited.release().await.unwrap();
    assert_eq!(turno.sweep(&now).await.unwrap().purged, 0);
    refused(turno.lock("resting")).await;
    refused(turno.lock("waited")).await;
}
