//! Invalid arguments are rejected with their field named, and nothing is stored.

use std::convert::Infallible;
use std::time::Duration;

use turno::inbox::{ClaimId, Item, ItemId, ItemState, Job};
use turno::{Error, Turno};
use uuid::Uuid;

use crate::conformance::inbox::fixtures::*;
use crate::conformance::lock::fixtures::secs;
use crate::conformance::{TestStore, rule};

#[track_caller]
fn is_invalid(error: Error, field: &str) {
    assert!(error.is_invalid(), "{field}: {error:?}");
    assert_eq!(error.field(), Some(field), "{error}");
    assert!(error.to_string().contains(field), "{error}");
}

fn bad_items() -> Vec<(&'static str, Item)> {
    let long = "x".repeat(256);
    let years = secs(11 * 366 * 24 * 60 * 60);
    vec![
        ("payload", item(&"x".repeat(100))),
        ("key", item("x").unique_key("")),
        ("key", item("x").unique_key(&long)),
        ("key", item("x").unique_key("a\nb")),
        ("group", item("x").group("")),
        ("group", item("x").group(&long)),
        ("group", item("x").group("a\u{0}b")),
        ("priority", item("x").priority(4)),
        ("priority", item("x").priority(255)),
        ("max_attempts", item("x").max_attempts(0)),
        ("max_attempts", item("x").max_attempts(1001)),
        ("delay", item("x").delay(years)),
        ("delay", item("x").delay(Duration::MAX)),
    ]
}

/// One invalid item rejects the whole push.
#[rule]
async fn a_bad_item_refuses_the_whole_push(test_store: &TestStore) {
    let turno = Turno::builder().max_payload(100).connect(test_store.url());
    let turno = turno.await.unwrap();
    let inbox = turno.inbox("q");
    for (field, bad) in bad_items() {
        let alone = inbox.push(bad.clone()).await.unwrap_err();
        is_invalid(alone, field);
        let beside = [item("good").unique_key("k"), bad, item("good")];
        is_invalid(inbox.push_many(beside).await.unwrap_err(), field);
    }
    let many = (0..10_001).map(|_| item("x"));
    is_invalid(inbox.push_many(many).await.unwrap_err(), "items");
    assert_eq!(turno.inbox_stats("").await.unwrap(), []);
    assert_eq!(test_store.stored_items().await, 0);
    let good = inbox.push(item("good").unique_key("k")).await.unwrap();
    assert!(!good.duplicate, "its key was not taken");
    // With its quotes, exactly the maximum size.
    push(&inbox, &[&"x".repeat(98)]).await;
}

/// A payload that is not JSON is rejected.
#[rule]
async fn a_payload_is_json(test_store: &TestStore) {
    let inbox = test_store.turno().await.inbox("q");
    for text in ["", "{", "hello", "{\"a\":1}x"] {
        is_invalid(
            inbox.push(Item::from_json(text)).await.unwrap_err(),
            "payload",
        );
    }
    let odd = "[\"\\u0000\", \"\\ud83e\\udd80\", -0, 1e400]";
    inbox.push(Item::from_json(odd)).await.unwrap();
    assert_eq!(take_one(&inbox).await.payload, odd);
}

/// Each call that has a queue checks its name.
#[rule]
async fn a_queue_has_a_name(test_store: &TestStore) {
    let turno = test_store.turno().await;
    for name in ["", "a\nb", "a\u{7f}", &"x".repeat(256)] {
        let inbox = turno.inbox(name);
        is_invalid(inbox.push(&1).await.unwrap_err(), "queue");
        is_invalid(inbox.claim().take().await.unwrap_err(), "queue");
        is_invalid(inbox.requeue(None).await.unwrap_err(), "queue");
        is_invalid(inbox.discard(None).await.unwrap_err(), "queue");
        is_invalid(inbox.reset(secs(0)).await.unwrap_err(), "queue");
        is_invalid(inbox.stats().await.unwrap_err(), "queue");
        let page = inbox.list(ItemState::Failed, None, 1).await;
        is_invalid(page.unwrap_err(), "queue");
        let worker = inbox.worker(ignore);
        let ran = worker.run(std::future::pending()).await;
        is_invalid(ran.unwrap_err(), "queue");
    }
    let longest = "ñ/".repeat(85);
    push(&turno.inbox(&longest), &["x"]).await;
    assert_eq!(take(&turno.inbox(&longest), 1).await.len(), 1);
    let stats = turno.inbox_stats("").await.unwrap();
    assert_eq!(stats.len(), 1, "{stats:?}");
}

async fn ignore(_: Job<String>) -> Result<(), Infallible> {
    Ok(())
}

/// Claims and workers have limits, too.
#[rule]
async fn a_bad_claim_claims_nothing(test_store: &TestStore) {
    let inbox = test_store.turno().await.inbox("q");
    push(&inbox, &["x"]).await;
    let day = 24 * 60 * 60;
    for (field, claim) in [
        ("worker", inbox.claim().worker("")),
        ("worker", inbox.claim().worker("a\tb")),
        ("lease", inbox.claim().lease(secs(0))),
        ("lease", inbox.claim().lease(secs(day + 1))),
        ("limit", inbox.claim().limit(0)),
        ("limit", inbox.claim().limit(10_001)),
        ("wait", inbox.claim().wait(secs(day + 1))),
    ] {
        is_invalid(claim.take().await.unwrap_err(), field);
    }
    for (field, worker) in [
        ("worker", inbox.worker(ignore).name("")),
        ("lease", inbox.worker(ignore).lease(secs(0))),
        ("concurrency", inbox.worker(ignore).concurrency(0)),
        ("concurrency", inbox.worker(ignore).concurrency(10_001)),
        ("prefetch", inbox.worker(ignore).prefetch(10_001)),
    ] {
        let ran = worker.run(std::future::pending()).await;
        is_invalid(ran.unwrap_err(), field);
    }
    assert_eq!(counts(&inbox).await, [1, 0, 0, 0, 0]);
}

/// An invalid change changes nothing.
#[rule]
async fn a_bad_change_changes_nothing(test_store: &TestStore) {
    let inbox = test_store.turno().await.inbox("q");
    push(&inbox, &["1", "2"]).await;
    let held = claims(&take(&inbox, 2).await);
    let years = secs(11 * 366 * 24 * 60 * 60);
    let late = [failure(held[0], None), failure(held[1], Some(years))];
    is_invalid(inbox.fail(&late).await.unwrap_err(), "retry_in");
    for lease in [secs(0), secs(24 * 60 * 60 + 1)] {
        is_invalid(inbox.extend(&held, lease).await.unwrap_err(), "lease");
    }
    is_invalid(inbox.reset(years).await.unwrap_err(), "older_than");
    let many = vec![held[0]; 10_001];
    is_invalid(inbox.complete(&many).await.unwrap_err(), "claims");
    is_invalid(inbox.give_back(&many).await.unwrap_err(), "claims");
    is_invalid(inbox.extend(&many, LONG).await.unwrap_err(), "claims");
    let failures = vec![failure(held[0], None); 10_001];
    is_invalid(inbox.fail(&failures).await.unwrap_err(), "claims");
    assert_eq!(counts(&inbox).await, [0, 0, 2, 0, 0]);
    assert_eq!(inbox.complete(&held).await.unwrap(), all_done(2));
}

/// A malformed claim is rejected when it is parsed; a claim that never existed is stale.
#[rule]
async fn a_claim_is_read_strictly(test_store: &TestStore) {
    let inbox = test_store.turno().await.inbox("q");
    let token = Uuid::now_v7();
    for text in ["", "17", "17@", "@", "x@y", &format!("x@{token}"), "17@12"] {
        is_invalid(text.parse::<ClaimId>().unwrap_err(), "claim");
    }
    for item in [i64::MIN, -1, 0, i64::MAX] {
        let claim = ClaimId {
            item: ItemId(item),
            token,
        };
        assert_eq!(claim.to_string().parse::<ClaimId>().unwrap(), claim);
        let settled = inbox.complete(&[claim]).await.unwrap();
        assert_eq!(settled, all_stale(&[claim]));
    }
}

/// The maximum size of a payload is a setting, and can be larger or smaller than the default.
#[rule]
async fn a_larger_payload_can_be_allowed(test_store: &TestStore) {
    const MIB: usize = 1024 * 1024;
    let large = item(&"x".repeat(MIB + MIB / 2));
    let turno = test_store.turno().await;
    let refused = turno.inbox("q").push(large.clone()).await;
    is_invalid(refused.unwrap_err(), "payload");
    let turno = Turno::builder()
        .max_payload(2 * MIB)
        .connect(test_store.url());
    let inbox = turno.await.unwrap().inbox("q");
    inbox.push(large).await.unwrap();
    assert!(take_one(&inbox).await.payload.len() > MIB);
}
