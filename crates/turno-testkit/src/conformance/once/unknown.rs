//! Unknown: a run was lost during its work, and it is not known what it did.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use turno::once::{AfterUnknown, Begin, OnceError, OnceSettled, OnceState, Probe};
use turno::{Token, Turno};

use crate::conformance::once::fixtures::*;
use crate::conformance::{TestStore, rule};

/// Creates a lost run of a key.
async fn vanished(test_store: &TestStore, turno: &Turno, key: &str) -> Token {
    let claim = turno.once(key).worker("gone").begin().await.unwrap();
    let token = fresh(claim).detach().token;
    test_store.expire_once(key).await;
    token
}

/// A run whose lease has expired is unknown. With the policy to refuse, nothing is changed.
#[rule]
async fn a_run_past_its_lease_is_unknown(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    vanished(test_store, &turno, "k").await;
    let before = status(&turno, "k").await;
    assert_eq!(before.state, OnceState::Unknown);
    for turno in [&turno, &other] {
        let run = unknown(begin(turno, "k").await);
        assert_eq!((run.worker.as_deref(), run.attempt), (Some("gone"), 1));
        assert_eq!(run.remaining, Duration::ZERO);
        assert_eq!(run.expires_at, before.expires_at);
        let outcome = turno.once("k").run(async || Ok::<_, String>(1)).await;
        assert!(matches!(outcome, Err(OnceError::Unknown(_))), "{outcome:?}");
    }
    assert_eq!(status(&turno, "k").await, before);
}

/// With the policy to rerun, the caller takes over the work, as a further attempt with a greater token.
#[rule]
async fn a_rerun_takes_over(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    let mut last = vanished(test_store, &turno, "k").await;
    for attempt in 2..5 {
        let again = take_over(&other, "k").await;
        assert_eq!(again.attempt(), attempt);
        assert!(again.token() > last);
        last = again.token();
        let outcome = turno.once("k").unknown(AfterUnknown::Rerun);
        assert_eq!(in_flight(outcome.begin().await.unwrap()).attempt, attempt);
        again.detach();
        test_store.expire_once("k").await;
    }
    let last = take_over(&turno, "k").await;
    last.complete("done").await.unwrap();
    assert_eq!(answered(&other, "k").await.as_deref(), Some(r#""done""#));
    assert_eq!(status(&turno, "k").await.attempt, 5);
}

/// Of many concurrent reruns exactly one gets the work.
#[rule]
async fn of_many_reruns_one_gets_it(test_store: &TestStore) {
    let machines = [test_store.turno().await, test_store.turno().await];
    for round in 0..3 {
        let key = format!("k/{round}");
        vanished(test_store, &machines[0], &key).await;
        let mut tasks = tokio::task::JoinSet::new();
        for n in 0..20 {
            let once = machines[n % 2].once(&key).unknown(AfterUnknown::Rerun);
            tasks.spawn(async move { once.begin().await.unwrap() });
        }
        let outcome = tasks.join_all().await;
        let mut got = Vec::new();
        for begun in outcome {
            match begun {
                Begin::Fresh(claim) => got.push(claim),
                other => drop(in_flight(other)),
            }
        }
        assert_eq!(got.len(), 1, "{key}");
        assert_eq!(got[0].attempt(), 2);
        got.pop().unwrap().complete("done").await.unwrap();
    }
}

/// A run that is marked as doubtful is unknown at once.
#[rule]
async fn a_doubted_run_is_unknown_at_once(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    let claim = take(&turno, "k").await;
    assert_eq!(claim.release_unknown().await.unwrap(), OnceSettled::Done);
    assert_eq!(unknown(begin(&other, "k").await).attempt, 1);
    let again = take_over(&other, "k").await;
    assert_eq!(again.attempt(), 2);
    again.detach();
}

/// It is remembered for as long as the answer would have been kept, and for at least a day; then the key is new again.
#[rule]
async fn unknown_is_remembered_for_a_day_at_least(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let hour = Duration::from_secs(3600);
    for (key, ttl, remembered) in [
        ("zero", Duration::ZERO, DAY),
        ("short", hour, DAY),
        ("long", DAY * 3, DAY * 3),
    ] {
        let once = turno.once(key).ttl(ttl);
        let claim = fresh(once.begin().await.unwrap()).detach();
        test_store.expire_once(key).await;
        test_store.age_once(key, remembered - hour).await;
        unknown(once.begin().await.unwrap());
        test_store.age_once(key, hour).await;
        assert_eq!(turno.once(key).status().await.unwrap(), None, "{key}");
        let next = fresh(once.begin().await.unwrap());
        // As if it had been swept: a sweep is only a cleanup.
        assert_eq!(next.attempt(), 1, "{key}");
        assert!(next.token() > claim.token);
        next.detach();
    }
}

/// Runs with a probe of the earlier run. Returns the result, and how often the probe was called and the work was done.
async fn run_with_probe(
    turno: &Turno,
    key: &str,
    found: Result<Probe<String>, String>,
) -> (Result<String, OnceError<String>>, u32, u32) {
    let (asked, done) = (AtomicU32::new(0), AtomicU32::new(0));
    let outcome = turno
        .once(key)
        .run_with_probe(
            async |_| {
                done.fetch_add(1, Ordering::Relaxed);
                Ok("done now".to_owned())
            },
            async |claim| {
                assert!(claim.attempt() > 1);
                asked.fetch_add(1, Ordering::Relaxed);
                found
            },
        )
        .await;
    (outcome, asked.into_inner(), done.into_inner())
}

/// The probe is called if and only if an earlier run was lost, and decides what is done.
#[rule]
async fn a_probe_decides(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    let (outcome, asked, done) = run_with_probe(&turno, "new", Ok(Probe::NotDone)).await;
    assert_eq!((outcome.unwrap().as_str(), asked, done), ("done now", 0, 1));

    vanished(test_store, &turno, "done").await;
    let found = Ok(Probe::Done("done then".to_owned()));
    let (outcome, asked, done) = run_with_probe(&other, "done", found).await;
    assert_eq!(
        (outcome.unwrap().as_str(), asked, done),
        ("done then", 1, 0)
    );
    let (outcome, asked, _) = run_with_probe(&turno, "done", Ok(Probe::NotDone)).await;
    assert_eq!((outcome.unwrap().as_str(), asked), ("done then", 0));

    vanished(test_store, &turno, "not done").await;
    let (outcome, asked, done) = run_with_probe(&other, "not done", Ok(Probe::NotDone)).await;
    assert_eq!((outcome.unwrap().as_str(), asked, done), ("done now", 1, 1));
    assert_eq!(
        answered(&turno, "not done").await.as_deref(),
        Some(r#""done now""#)
    );
}

/// A probe that is unsure or fails leaves the key unknown, and the next caller probes again.
#[rule]
async fn a_probe_that_cannot_tell_leaves_it_unknown(test_store: &TestStore) {
    let turno = test_store.turno().await;
    vanished(test_store, &turno, "k").await;
    for _ in 0..2 {
        let (outcome, asked, done) = run_with_probe(&turno, "k", Ok(Probe::Unsure)).await;
        let Err(OnceError::Unknown(run)) = outcome else {
            panic!("{outcome:?}");
        };
        assert!(run.began_at <= turno::clock::machine(), "{run:?}");
        assert_eq!((asked, done), (1, 0));
        assert_eq!(status(&turno, "k").await.state, OnceState::Unknown);
    }
    let (outcome, asked, done) = run_with_probe(&turno, "k", Err("no line".to_owned())).await;
    assert!(matches!(&outcome, Err(OnceError::Work(error)) if error == "no line"));
    assert_eq!((asked, done), (1, 0));
    assert_eq!(status(&turno, "k").await.state, OnceState::Unknown);
    let (outcome, asked, done) = run_with_probe(&turno, "k", Ok(Probe::NotDone)).await;
    assert_eq!((outcome.unwrap().as_str(), asked, done), ("done now", 1, 1));
}

/// An operator who has checked completes the claim by its id, and all callers get that answer.
#[rule]
async fn a_person_completes_what_is_unknown(test_store: &TestStore) {
    let (turno, person) = (test_store.turno().await, test_store.turno().await);
    vanished(test_store, &turno, "pago/ñ@7").await;
    let name = status(&person, "pago/ñ@7").await.claim.to_string();
    let claim = name.parse().unwrap();
    let settled = person
        .once_complete(&claim, Some(r#""receipt 1""#), None)
        .await;
    assert_eq!(settled.unwrap(), OnceSettled::Done);
    let outcome: String = turno
        .once("pago/ñ@7")
        .run(async || Err("never run"))
        .await
        .unwrap();
    assert_eq!(outcome, "receipt 1");
}

/// An operator who has checked can forget a key that is done or unknown, and no other: the next caller runs the work.
#[rule]
async fn a_person_forgets(test_store: &TestStore) {
    let (turno, person) = (test_store.turno().await, test_store.turno().await);
    assert!(!person.once("never").forget().await.unwrap());
    take(&turno, "in flight").await.detach();
    assert!(!person.once("in flight").forget().await.unwrap());
    in_flight(begin(&turno, "in flight").await);
    take(&turno, "given back").await.release().await.unwrap();
    assert!(!person.once("given back").forget().await.unwrap());
    answer(&turno, "done", "once").await;
    vanished(test_store, &turno, "unknown").await;
    for key in ["done", "unknown"] {
        let token = status(&turno, key).await.claim.token;
        assert!(person.once(key).forget().await.unwrap());
        assert_eq!(turno.once(key).status().await.unwrap(), None);
        assert!(!person.once(key).forget().await.unwrap());
        let next = take(&turno, key).await;
        assert_eq!(next.attempt(), 1);
        assert!(next.token() > token);
        next.detach();
    }
}

/// Two clients request the same payment; the first one's process dies after it has paid. Returns the number of payments.
async fn pays(test_store: &TestStore, key: &str, when_over: impl AsyncFnOnce()) -> u32 {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    let mut paid = 0;
    let first = take(&turno, key).await;
    paid += 1;
    first.detach();
    test_store.expire_once(key).await;
    when_over().await;
    let outcome = other
        .once(key)
        .run(async || {
            paid += 1;
            Ok::<_, String>("receipt".to_owned())
        })
        .await;
    assert_eq!(outcome.is_ok(), paid == 2, "{outcome:?}");
    paid
}

/// With the policy to refuse, the work of a lost run is not repeated.
#[rule]
async fn a_vanished_run_is_not_repeated(test_store: &TestStore) {
    assert_eq!(pays(test_store, "k", async || {}).await, 1);
}

/// The control: if the end of the lease freed the key, as that of a lock does, the work would be done twice.
#[rule]
async fn with_a_lock_a_vanished_run_would_be_repeated(test_store: &TestStore) {
    let free = async || {
        let over =
            "update turno.once set state = 'released' where state = 'running' and until <= {now}";
        test_store.run(over).await;
    };
    assert_eq!(pays(test_store, "k", free).await, 2);
}
