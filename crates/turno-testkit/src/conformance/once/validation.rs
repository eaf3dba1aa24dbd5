//! Valid and invalid arguments.

use std::time::Duration;

use turno::once::{OnceClaim, OnceError, OnceSettled};
use turno::{Token, Turno};

use crate::conformance::lock::fixtures::secs;
use crate::conformance::once::fixtures::*;
use crate::conformance::{TestStore, rule};

/// Maximum TTL of an answer: ten years, all counted as leap years.
const TEN_YEARS: Duration = Duration::from_secs(10 * 366 * 24 * 60 * 60);

/// A key may be any printable text, and is never interpreted.
#[rule]
async fn keys_may_be_anything_printable(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let long = "ñ".repeat(127) + "x";
    let keys = [
        "préstamo/ñandú",
        "リクエスト",
        "🔒",
        "o'brien",
        "\"quoted\"",
        "'; drop table turno.once; --",
        "a%b_c\\d",
        " spaces ",
        "a@7",
        "@",
        "$1 {} ?1 :key",
        "{a,b}",
        "NULL",
        "null",
        "e\u{301}",
        "é",
        "A",
        "a",
        &long,
    ];
    for key in keys {
        let once = turno.once(key).fingerprint(key).worker(key);
        let claim = fresh(once.clone().quota(key, 1).begin().await.unwrap());
        assert_eq!(claim.key(), key);
        let read: OnceClaim = claim.id().to_string().parse().unwrap();
        assert_eq!(read, *claim.id());
        let run = in_flight(once.begin().await.unwrap());
        assert_eq!(run.worker.as_deref(), Some(key));
        let view = status(&turno, key).await;
        assert_eq!(
            (view.fingerprint.as_deref(), view.scope.as_deref()),
            (Some(key), Some(key))
        );
        let extended = turno.once_extend(claim.id(), LONG).await.unwrap();
        assert_eq!(extended, OnceSettled::Done);
        assert_eq!(claim.complete(key).await.unwrap(), OnceSettled::Done);
        let outcome = once.run(async || Err::<String, _>("never run")).await;
        assert_eq!(outcome.unwrap(), key);
    }
    assert_eq!(
        test_store.stored_keys().await,
        keys.len() as i64,
        "every one is a key of its own"
    );
    for key in keys {
        assert!(turno.once(key).forget().await.unwrap(), "{key:?}");
    }
}

/// Invalid arguments are rejected with their field named, and nothing is stored.
#[rule]
async fn a_bad_question_names_its_field(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let long = "x".repeat(256);
    let once = || turno.once("k");
    let attempts = [
        ("key", turno.once("")),
        ("key", turno.once(&long)),
        ("key", turno.once("a\nb")),
        ("key", turno.once("a\u{0}b")),
        ("key", turno.once("a\u{85}b")),
        ("fingerprint", once().fingerprint("")),
        ("fingerprint", once().fingerprint(&long)),
        ("fingerprint", once().fingerprint("a\tb")),
        ("worker", once().worker("")),
        ("worker", once().worker("a\u{7f}")),
        ("lease", once().lease(Duration::ZERO)),
        ("lease", once().lease(Duration::from_micros(999))),
        ("lease", once().lease(DAY + secs(1))),
        ("lease", once().lease(Duration::MAX)),
        ("ttl", once().ttl(TEN_YEARS + secs(1))),
        ("ttl", once().ttl(Duration::MAX)),
        ("wait", once().wait(DAY + secs(1))),
        ("scope", once().quota("", 1)),
        ("scope", once().quota(&long, 1)),
        ("scope", once().quota("a\nb", 1)),
        ("quota", once().quota("a", 0)),
        ("quota", once().quota("a", 1_000_001)),
    ];
    for (field, once) in attempts {
        let error = once.begin().await.unwrap_err();
        assert_eq!(
            (error.is_invalid(), error.field()),
            (true, Some(field)),
            "{once:?}: {error}"
        );
        assert!(error.to_string().contains(field), "{error}");
        let outcome = once.run(async || Ok::<_, String>(1)).await;
        assert!(matches!(outcome, Err(OnceError::Store(_))), "{outcome:?}");
    }
    for key in ["", &long] {
        let errors = [
            turno.once(key).status().await.unwrap_err(),
            turno.once(key).forget().await.unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.field(), Some("key"));
        }
    }
    assert_eq!(test_store.stored_keys().await, 0);
}

/// The store also accepts the minimum and maximum values.
#[rule]
async fn the_extremes_are_allowed(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let once = turno.once("most").lease(DAY).ttl(TEN_YEARS);
    let claim = fresh(once.quota("a", 1_000_000).begin().await.unwrap());
    turno.once_extend(claim.id(), DAY).await.unwrap();
    let settled = claim.complete_for("done", TEN_YEARS).await.unwrap();
    assert_eq!(settled, OnceSettled::Done);
    test_store.age_once("most", DAY * 3659).await;
    replay(begin(&turno, "most").await);
    let least = turno.once("least").lease(Duration::from_millis(1));
    fresh(least.ttl(Duration::ZERO).begin().await.unwrap()).detach();
}

/// An answer is JSON of limited size. After an invalid one, the key is in flight as before.
#[rule]
async fn a_bad_answer_names_its_field(test_store: &TestStore) {
    let small = Turno::builder().max_payload(100);
    let turno = small.connect(test_store.url()).await.unwrap();
    let claim = take(&turno, "k").await;
    let before = status(&turno, "k").await;
    for text in [
        "",
        "{",
        "{'a': 1}",
        "nul",
        "1 2",
        "\"a",
        "NaN",
        "01",
        &"1".repeat(101),
    ] {
        let outcome = turno.once_complete(claim.id(), Some(text), None).await;
        assert_eq!(outcome.unwrap_err().field(), Some("answer"), "{text}");
    }
    let error = claim.complete(&"x".repeat(101)).await.unwrap_err();
    assert_eq!(error.field(), Some("answer"), "{error}");
    // A map with keys that are not text is not valid JSON.
    let map: std::collections::BTreeMap<(u8, u8), u8> = [((1, 2), 3)].into();
    let error = claim.complete(&map).await.unwrap_err();
    assert_eq!(error.field(), Some("answer"), "{error}");
    let error = claim.complete_for("done", TEN_YEARS * 2).await.unwrap_err();
    assert_eq!(error.field(), Some("ttl"), "{error}");
    let error = turno.once_extend(claim.id(), secs(0)).await.unwrap_err();
    assert_eq!(error.field(), Some("lease"), "{error}");
    assert_eq!(status(&turno, "k").await, before);
    let settled = claim.complete(&"x".repeat(98)).await.unwrap();
    assert_eq!(settled, OnceSettled::Done);
}

/// The maximum size of an answer is a setting, and large ones are replayed completely.
#[rule]
async fn a_larger_answer_can_be_allowed(test_store: &TestStore) {
    let large = Turno::builder().max_payload(4 * 1024 * 1024);
    let turno = large.connect(test_store.url()).await.unwrap();
    let text = "ñ\"\\".repeat(500_000);
    answer(&turno, "k", &text).await;
    let outcome = turno.once("k").run(async || Err::<String, _>("never run"));
    assert!(outcome.await.unwrap() == text);
}

/// A claim that no store can know is stale, whatever its content.
#[rule]
async fn a_strange_claim_is_stale(test_store: &TestStore) {
    let turno = test_store.turno().await;
    take(&turno, "k").await.detach();
    for token in [0, 1, 999_999_999_999_999_999] {
        let claim = OnceClaim {
            key: "k".into(),
            token: Token(token),
        };
        let settled = turno.once_complete(&claim, Some("1"), None).await;
        assert_eq!(settled.unwrap(), OnceSettled::Stale, "{claim}");
        let extended = turno.once_extend(&claim, LONG).await.unwrap();
        assert_eq!(extended, OnceSettled::Stale, "{claim}");
    }
}
