//! Status and lists of requests, for operators.

use turno::once::{OnceList, OnceState, OnceView};
use turno::{Turno, clock};

use crate::conformance::lock::fixtures::secs;
use crate::conformance::once::fixtures::*;
use crate::conformance::{TestStore, rule};

async fn list(turno: &Turno, state: Option<OnceState>, prefix: &str) -> Vec<String> {
    let ask = OnceList {
        state,
        prefix: prefix.into(),
        after: String::new(),
        limit: 1000,
    };
    let page = turno.once_list(ask).await.unwrap();
    page.into_iter().map(|view| view.key).collect()
}

/// A status has all data of a key, in each state.
#[rule]
async fn a_status_of_a_key_tells_everything(test_store: &TestStore) {
    let turno = test_store.turno().await;
    assert_eq!(turno.once("k").status().await.unwrap(), None);
    let once = turno.once("k").worker("w").fingerprint("f").lease(LONG);
    let claim = fresh(once.quota("s", 5).begin().await.unwrap());
    let running = status(&turno, "k").await;
    let expected = OnceView {
        claim: claim.id().clone(),
        key: "k".into(),
        state: OnceState::InFlight,
        attempt: 1,
        fingerprint: Some("f".into()),
        worker: Some("w".into()),
        scope: Some("s".into()),
        began_at: running.began_at,
        expires_at: claim.grant().expires_at,
        late: 0,
        answer: None,
    };
    assert_eq!(running, expected);
    let ago = clock::machine().duration_since(running.began_at);
    assert!(ago.abs() < jiff::SignedDuration::from_secs(20), "{ago}");
    test_store.expire_once("k").await;
    let gone = status(&turno, "k").await;
    assert_eq!(gone.state, OnceState::Unknown);
    assert!(gone.expires_at < clock::machine());
    claim.complete("done").await.unwrap();
    let done = status(&turno, "k").await;
    assert_eq!(done.state, OnceState::Done);
    assert_eq!(done.answer.as_deref(), Some(r#""done""#));
    assert!(done.expires_at > clock::machine() + DAY / 2);
    assert_eq!((done.claim, done.worker), (gone.claim, gone.worker));
}

/// A list has the keys in flight, done or unknown, in order, by state and by prefix, without the answers.
#[rule]
async fn a_list_has_what_is_known(test_store: &TestStore) {
    let turno = test_store.turno().await;
    take(&turno, "b/running").await.detach();
    answer(&turno, "a/done", "secret").await;
    take(&turno, "c/unknown")
        .await
        .release_unknown()
        .await
        .unwrap();
    take(&turno, "a/given back").await.release().await.unwrap();
    answer(&turno, "a/over", "old").await;
    test_store.age_once("a/over", DAY + secs(1)).await;
    take(&turno, "a/long gone").await.detach();
    test_store.age_once("a/long gone", DAY * 3).await;
    assert_eq!(
        list(&turno, None, "").await,
        ["a/done", "b/running", "c/unknown"]
    );
    for (state, key) in [
        (OnceState::InFlight, "b/running"),
        (OnceState::Done, "a/done"),
        (OnceState::Unknown, "c/unknown"),
    ] {
        assert_eq!(list(&turno, Some(state), "").await, [key]);
        assert_eq!(list(&turno, Some(state), &key[..2]).await, [key]);
        assert_eq!(list(&turno, Some(state), "d").await, [""; 0]);
    }
    // The default is the first page, of 100 keys.
    let all = turno.once_list(OnceList::default()).await.unwrap();
    assert_eq!((all.len(), OnceList::default().limit), (3, 100));
    for view in all {
        let mut alone = status(&turno, &view.key).await;
        alone.answer = None;
        assert_eq!(view, alone);
    }
}

/// A prefix is literal text, not a pattern.
#[rule]
async fn a_prefix_of_keys_is_no_pattern(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let keys = ["a%b", "a_b", "axb", "A%b", "a\\b", "añb", "añc", "🔒1"];
    for key in keys {
        take(&turno, key).await.detach();
    }
    for (prefix, found) in [
        ("a%", vec!["a%b"]),
        ("a_", vec!["a_b"]),
        ("a\\", vec!["a\\b"]),
        ("añ", vec!["añb", "añc"]),
        ("A", vec!["A%b"]),
        ("🔒", vec!["🔒1"]),
        ("z", vec![]),
    ] {
        assert_eq!(list(&turno, None, prefix).await, found, "{prefix:?}");
    }
    let mut sorted = keys;
    sorted.sort_unstable();
    assert_eq!(
        list(&turno, None, "").await,
        sorted,
        "in order of the bytes"
    );
}

/// The pages together have each key once.
#[rule]
async fn pages_of_keys_are_complete(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let mut all = Vec::new();
    for n in 0..12 {
        let key = format!("p/{n:02}");
        match n % 3 {
            0 => drop(take(&turno, &key).await.detach()),
            1 => answer(&turno, &key, "done").await,
            _ => drop(take(&turno, &key).await.release_unknown().await.unwrap()),
        }
        all.push(key);
    }
    take(&turno, "q").await.detach();
    for limit in [0, 1, 5, 12, 5000] {
        let (mut seen, mut after) = (Vec::new(), String::new());
        loop {
            let ask = OnceList {
                state: None,
                prefix: "p/".into(),
                after: after.clone(),
                limit,
            };
            let page = turno.once_list(ask).await.unwrap();
            assert!(page.len() <= limit.max(1) as usize);
            let Some(last) = page.last() else { break };
            after = last.key.clone();
            seen.extend(page.into_iter().map(|view| view.key));
        }
        assert_eq!(seen, all, "in pages of {limit}");
    }
}
