//! Begin: the first caller runs the work, and later callers get its state or its answer.

use std::time::Duration;

use turno::once::{AfterUnknown, Begin, OnceError, OnceSettled, OnceState};

use crate::conformance::lock::fixtures::secs;
use crate::conformance::once::fixtures::*;
use crate::conformance::{TestStore, rule};

/// A new key is granted to the first caller, on any machine; all others get the run in flight.
#[rule]
async fn a_new_key_is_fresh_and_then_in_flight(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    let once = turno.once("k").worker("first").lease(LONG);
    let claim = fresh(once.begin().await.unwrap());
    assert_eq!((claim.key(), claim.attempt()), ("k", 1));
    let grant = claim.grant();
    assert!(grant.remaining > LONG / 2 && grant.remaining <= LONG);
    for turno in [&turno, &other] {
        let run = in_flight(begin(turno, "k").await);
        assert_eq!((run.worker.as_deref(), run.attempt), (Some("first"), 1));
        assert!(run.remaining > LONG / 2 && run.remaining <= LONG, "{run:?}");
        assert_eq!(run.expires_at, grant.expires_at);
        let lease = Duration::try_from(run.expires_at.duration_since(run.began_at)).unwrap();
        assert!(lease.abs_diff(LONG) < secs(1), "{run:?}");
    }
    take(&other, "another").await.detach();
    claim.detach();
}

/// Two calls of one `Once` are two requests: the second finds the first in flight.
#[rule]
async fn a_question_can_be_asked_again(test_store: &TestStore) {
    let once = test_store.turno().await.once("k");
    let claim = fresh(once.begin().await.unwrap());
    in_flight(once.begin().await.unwrap());
    in_flight(once.clone().begin().await.unwrap());
    claim.complete("done").await.unwrap();
    replay(once.begin().await.unwrap());
}

/// An answer is replayed byte for byte.
#[rule]
async fn an_answer_is_replayed_as_it_was_given(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    for (n, text) in [
        r#"{"b": 1.0, "a":1e400,"n":12345678901234567890123456789.10}"#,
        "null",
        "0",
        "-0.0",
        r#"  [ 1 ,
                2 ] "#,
        r#""\u00e9 é \" \u0000 \/""#,
        r#"{"a":1,"a":2}"#,
        r#"{"status":200,"body":"ñandú 🔒","headers":[["content-type","application/json"]]}"#,
    ]
    .into_iter()
    .enumerate()
    {
        let key = format!("k/{n}");
        let claim = take(&turno, &key).await.detach();
        let settled = turno.once_complete(&claim, Some(text), None).await;
        assert_eq!(settled.unwrap(), OnceSettled::Done, "{text}");
        for turno in [&turno, &other] {
            assert_eq!(answered(turno, &key).await.as_deref(), Some(text));
        }
        assert_eq!(status(&other, &key).await.answer.as_deref(), Some(text));
    }
}

/// An answer that is a value is replayed as that value, to all callers, any number of times.
#[rule]
async fn a_value_is_returned_to_all_callers(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    let mut runs = 0;
    for turno in [&turno, &other, &turno] {
        let receipt: (u64, String) = turno
            .once("k")
            .run(async || {
                runs += 1;
                Ok::<_, std::convert::Infallible>((18_446_744_073_709_551_615, "ñ".to_owned()))
            })
            .await
            .unwrap();
        assert_eq!(receipt, (u64::MAX, "ñ".to_owned()));
    }
    assert_eq!(runs, 1);
}

/// The same key with other content is a mismatch, in each state of the key, and begins no run.
#[rule]
async fn other_content_is_a_mismatch(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    for (key, state) in [
        ("in flight", OnceState::InFlight),
        ("done", OnceState::Done),
        ("unknown", OnceState::Unknown),
    ] {
        let once = turno.once(key).fingerprint("one");
        let claim = fresh(once.begin().await.unwrap());
        match state {
            OnceState::InFlight => drop(claim.detach()),
            OnceState::Done => drop(claim.complete("done").await.unwrap()),
            OnceState::Unknown => drop(claim.release_unknown().await.unwrap()),
        }
        let before = status(&turno, key).await;
        assert_eq!(before.state, state);
        for unknown in [AfterUnknown::Refuse, AfterUnknown::Rerun] {
            let ask = other.once(key).fingerprint("two").unknown(unknown);
            let outcome = ask.begin().await.unwrap();
            assert!(matches!(outcome, Begin::Mismatch), "{key}: {outcome:?}");
        }
        let waits = other.once(key).fingerprint("two").wait(LONG);
        let outcome = waits.run(async || Ok::<_, String>(1)).await;
        assert!(
            matches!(outcome, Err(OnceError::Mismatch)),
            "{key}: {outcome:?}"
        );
        assert_eq!(status(&turno, key).await, before);
    }
}

/// A begin without a fingerprint is not compared, and neither is a key without one.
#[rule]
async fn without_a_fingerprint_nothing_is_compared(test_store: &TestStore) {
    let turno = test_store.turno().await;
    for (key, first, second) in [
        ("both", Some("f"), Some("f")),
        ("first", Some("f"), None),
        ("second", None, Some("f")),
        ("none", None, None),
    ] {
        let ask = |fingerprint: Option<&str>| match fingerprint {
            Some(fingerprint) => turno.once(key).fingerprint(fingerprint),
            None => turno.once(key),
        };
        let claim = fresh(ask(first).begin().await.unwrap());
        in_flight(ask(second).begin().await.unwrap());
        claim.complete("done").await.unwrap();
        replay(ask(second).begin().await.unwrap());
    }
}

/// An answer is kept for its TTL; then the key is new again, with a greater token.
#[rule]
async fn an_answer_is_kept_for_its_time(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let once = turno.once("k").fingerprint("one").ttl(secs(60));
    let claim = fresh(once.begin().await.unwrap());
    claim.complete("old").await.unwrap();
    test_store.age_once("k", secs(30)).await;
    replay(once.begin().await.unwrap());
    test_store.age_once("k", secs(31)).await;
    assert_eq!(turno.once("k").status().await.unwrap(), None);
    // Also with other content: nothing is left to compare with.
    let next = fresh(turno.once("k").fingerprint("two").begin().await.unwrap());
    assert_eq!(next.attempt(), 1);
    assert!(next.token() > claim.token());
    let view = status(&turno, "k").await;
    assert_eq!((view.state, view.answer), (OnceState::InFlight, None));
    next.complete("new").await.unwrap();
    assert_eq!(answered(&turno, "k").await.as_deref(), Some(r#""new""#));
}

/// A completion can set another TTL.
#[rule]
async fn an_answer_can_be_kept_for_another_time(test_store: &TestStore) {
    let turno = test_store.turno().await;
    for (key, begun_for, kept_for) in [("longer", secs(10), LONG), ("shorter", LONG, secs(10))] {
        let claim = fresh(turno.once(key).ttl(begun_for).begin().await.unwrap());
        claim.complete_for("done", kept_for).await.unwrap();
        test_store.age_once(key, secs(30)).await;
        match key {
            "longer" => drop(replay(begin(&turno, key).await)),
            _ => drop(take(&turno, key).await.detach()),
        }
    }
}

/// With a TTL of zero, only requests during the run are duplicates.
#[rule]
async fn without_a_ttl_only_the_flight_counts(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let once = turno.once("k").ttl(Duration::ZERO);
    let mut last = turno::Token(0);
    for _ in 0..3 {
        let claim = fresh(once.begin().await.unwrap());
        assert_eq!(claim.attempt(), 1);
        assert!(claim.token() > last);
        last = claim.token();
        in_flight(once.begin().await.unwrap());
        assert_eq!(claim.complete("done").await.unwrap(), OnceSettled::Done);
        assert_eq!(turno.once("k").status().await.unwrap(), None);
    }
}

/// After a release, the next caller runs the work. The released run does not count as an attempt.
#[rule]
async fn a_released_key_is_fresh(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    let first = take(&turno, "k").await;
    let token = first.token();
    assert_eq!(first.release().await.unwrap(), OnceSettled::Done);
    assert_eq!(turno.once("k").status().await.unwrap(), None);
    let second = take(&other, "k").await;
    assert_eq!(second.attempt(), 1);
    assert!(second.token() > token);
    // After a lost run, each takeover is attempt 2 until one ends.
    second.release_unknown().await.unwrap();
    for _ in 0..2 {
        let again = take_over(&turno, "k").await;
        assert_eq!(again.attempt(), 2);
        again.release().await.unwrap();
    }
    let last = take(&other, "k").await;
    assert_eq!(last.attempt(), 2);
    last.complete("done").await.unwrap();
    test_store.expire_once("k").await;
    let new_life = take(&other, "k").await;
    assert_eq!(new_life.attempt(), 1);
    new_life.detach();
}

/// Without a stored answer, only the fact that the work is done is known.
#[rule]
async fn a_tombstone_is_replayed_as_not_stored(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    let claim = take(&turno, "k").await;
    assert_eq!(claim.complete_without().await.unwrap(), OnceSettled::Done);
    let answer = replay(begin(&other, "k").await);
    assert_eq!(answer.text(), None);
    assert_eq!(answer.get::<String>().unwrap(), None);
    let outcome = other.once("k").run(async || Ok::<_, String>(1)).await;
    assert!(matches!(outcome, Err(OnceError::NotStored)), "{outcome:?}");
    // An answer of null is different.
    answer_null(&turno).await;
}

async fn answer_null(turno: &turno::Turno) {
    let claim = take(turno, "null").await;
    claim.complete(&()).await.unwrap();
    assert_eq!(answered(turno, "null").await.as_deref(), Some("null"));
    let outcome = turno.once("null").run(async || Ok::<(), String>(())).await;
    outcome.unwrap();
}

/// An answer of another type is a descriptive error, not a panic or a second run.
#[rule]
async fn an_answer_of_another_kind_is_an_error(test_store: &TestStore) {
    let turno = test_store.turno().await;
    answer(&turno, "k", "text").await;
    let outcome = turno.once("k").run(async || Ok::<u32, String>(1)).await;
    let Err(OnceError::Store(error)) = outcome else {
        panic!("{outcome:?}");
    };
    assert!(error.to_string().contains("another kind"), "{error}");
}
