//! Sealed answers: they cannot be read in the database without the key.

use turno::Turno;
use turno::once::{AnswerKeys, OnceSettled};

use crate::conformance::caller_writes::Write;
use crate::conformance::once::fixtures::*;
use crate::conformance::{TestStore, rule};

async fn with(test_store: &TestStore, keys: AnswerKeys) -> Turno {
    let sealing = Turno::builder().answer_keys(keys);
    sealing.connect(test_store.url()).await.unwrap()
}

fn key(id: &str, byte: u8) -> AnswerKeys {
    AnswerKeys::new(id, [byte; 32]).unwrap()
}

/// Returns the number of stored answers that contain a text.
async fn stored_with(test_store: &TestStore, text: &str) -> i64 {
    let cast = if test_store.is_sqlite() {
        "text"
    } else {
        "varchar"
    };
    test_store
        .number(&format!(
            "select count(*) from turno.once where cast(answer as {cast}) like '%{text}%'"
        ))
        .await
}

/// The stored form contains nothing of the answer; a caller with the key gets it.
#[rule]
async fn a_sealed_answer_is_not_in_the_table(test_store: &TestStore) {
    let turno = with(test_store, key("one", 1)).await;
    let secret = "4242 secret";
    answer(&turno, "k", secret).await;
    for caller in test_store.callers() {
        let key = format!("{caller:?}");
        let claim = std::sync::Arc::new(take(&turno, &key).await);
        let write = Write::Answer(claim.clone(), secret.into(), turno.clone(), Vec::new());
        let tx = test_store.open_inbox(*caller, write).await.unwrap();
        tx.commit().await;
        assert_eq!(claim.complete(secret).await.unwrap(), OnceSettled::Done);
        let outcome = answered(&turno, &key).await;
        assert_eq!(outcome.as_deref(), Some(r#""4242 secret""#), "{caller:?}");
    }
    assert_eq!(stored_with(test_store, "secret").await, 0);
    assert_eq!(
        stored_with(test_store, "turno_sealed").await,
        1 + test_store.callers().len() as i64
    );
    let outcome = turno.once("k").run(async || Err::<String, _>("never run"));
    assert_eq!(outcome.await.unwrap(), secret);
    let view = status(&turno, "k").await;
    assert_eq!(view.answer.as_deref(), Some(r#""4242 secret""#));
    // Without an answer there is nothing to seal.
    take(&turno, "none").await.complete_without().await.unwrap();
    assert_eq!(answered(&turno, "none").await, None);
    // The control: without keys, the answer is stored in plain text.
    answer(&test_store.turno().await, "plain", secret).await;
    assert_eq!(stored_with(test_store, "secret").await, 1);
}

/// Without the key, or with another one, the result is an error; the work is not done again.
#[rule]
async fn another_key_is_refused(test_store: &TestStore) {
    let turno = with(test_store, key("one", 1)).await;
    answer(&turno, "k", "secret").await;
    for other in [
        test_store.turno().await,
        with(test_store, key("two", 2)).await,
        with(test_store, key("one", 3)).await,
    ] {
        for error in [
            other.once("k").begin().await.unwrap_err(),
            other.once("k").status().await.unwrap_err(),
        ] {
            assert!(error.is_refused(), "{error}");
        }
        let outcome = other.once("k").run(async || Ok::<_, String>(1)).await;
        assert!(outcome.is_err());
    }
    assert_eq!(
        answered(&turno, "k").await.as_deref(),
        Some(r#""secret""#),
        "it is still there"
    );
}

/// An answer is bound to one request: stored under another once key, it cannot be opened.
#[rule]
async fn a_sealed_answer_cannot_be_moved(test_store: &TestStore) {
    let turno = with(test_store, key("one", 1)).await;
    answer(&turno, "rich", "1000000").await;
    answer(&turno, "poor", "1").await;
    test_store.run(
        "update turno.once set answer = (select o.answer from turno.once o where o.key = 'rich') where key = 'poor'",
    )
    .await;
    let error = turno.once("poor").begin().await.unwrap_err();
    assert!(error.is_refused(), "{error}");
}

/// Keys can be rotated: an answer that was sealed with the old key can be opened as long as that key is configured.
#[rule]
async fn keys_can_be_changed(test_store: &TestStore) {
    answer(&test_store.turno().await, "plain", "0").await;
    let old = with(test_store, key("old", 1)).await;
    answer(&old, "old", "1").await;
    let both = with(test_store, key("new", 2).and("old", [1; 32]).unwrap()).await;
    answer(&both, "new", "2").await;
    for (key, text) in [("plain", "0"), ("old", "1"), ("new", "2")] {
        let outcome = answered(&both, key).await;
        assert_eq!(outcome, Some(format!("\"{text}\"")), "{key}");
    }
    let new = with(test_store, key("new", 2)).await;
    assert_eq!(answered(&new, "new").await.as_deref(), Some(r#""2""#));
    assert!(new.once("old").begin().await.is_err());
}
