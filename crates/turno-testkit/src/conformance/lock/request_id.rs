//! Requests with a request id of the caller: sent again, they return the same result.

use turno::CallOptions;
use turno::inbox::{Again, Failure};
use turno::lock::{BreakOutcome, ReleaseOutcome};
use turno::once::Begin;
use turno::outbox::Event;
use uuid::Uuid;

use crate::conformance::inbox::fixtures::{counts, item, push_all, take as take_items};
use crate::conformance::lock::fixtures::*;
use crate::conformance::{TestStore, rule};

/// An acquire that is sent again returns the same hold, also through another instance.
#[rule]
async fn a_lock_asked_for_again_is_the_same_lease(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    let request = Uuid::now_v7();
    let mut tokens = Vec::new();
    for turno in [&turno, &other] {
        let lock = turno.lock("r").owner("a").request(request).wait(TIMEOUT);
        let lease = acquired(lock).await;
        assert_eq!(lease.grant().holds, 1);
        tokens.push(lease.token());
        lease.detach();
    }
    assert_eq!(tokens[0], tokens[1]);
    let another = turno.lock("r").owner("a").request(Uuid::now_v7());
    let again = acquired(another).await;
    assert_eq!(again.grant().holds, 2);
    again.detach();

    let request = Uuid::now_v7();
    let mut ids = Vec::new();
    for turno in [&turno, &other] {
        let both = turno.locks(["x", "y"]).request(request);
        let both = both.each(|lock| lock.owner("a")).acquire().await.unwrap();
        let both = both.acquired().unwrap();
        for lease in both.leases() {
            assert_eq!(lease.grant().holds, 1);
        }
        ids.push(both.detach());
    }
    assert_eq!(ids[0], ids[1]);
}

/// A release and a break by id are applied once, however often they are sent.
#[rule]
async fn a_release_or_break_by_name_is_sent_again(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let token = take(&turno, "r", "a").await.detach().token;
    take(&turno, "r", "a").await.detach();
    let lock = turno.lock("r").request(Uuid::now_v7());
    for _ in 0..2 {
        let released = lock.clone().release(token).await.unwrap();
        assert_eq!(released, ReleaseOutcome::Released { holds: 1 });
    }
    let lock = turno.lock("r").user("1").request(Uuid::now_v7());
    for _ in 0..2 {
        let broken = lock.clone().force_break(token, "it hangs").await.unwrap();
        assert_eq!(broken, BreakOutcome::Broken);
    }
    assert!(turno.lock("r").status().await.unwrap().holders.is_empty());
}

/// Pushes, claims and settlements that are sent again return the first result.
#[rule]
async fn an_inbox_is_asked_again(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    let queue = |which: usize| [&turno, &other][which].inbox("q");
    let options = || CallOptions::default().request(Uuid::now_v7());
    let again = options();
    let first = queue(0).push_with([item("a")], again).await.unwrap();
    let second = queue(1).push_with([item("a")], again).await.unwrap();
    assert_eq!(first, second);
    push_all(&turno.inbox("q"), [item("b"), item("c"), item("d")]).await;

    // The token of its claims is the request id.
    let request = Uuid::now_v7();
    let claim = |which| {
        queue(which)
            .claim()
            .request(request)
            .limit(2)
            .wait(TIMEOUT)
            .take()
    };
    let (first, second) = (claim(0).await.unwrap(), claim(1).await.unwrap());
    assert_eq!(first, second);
    assert!(first.iter().all(|item| item.claim.token == request));
    assert_eq!(counts(&turno.inbox("q")).await, [2, 0, 2, 0, 0]);

    let again = options();
    for which in [0, 1] {
        let settled = queue(which)
            .complete_with(&[first[0].claim], again)
            .await
            .unwrap();
        assert_eq!((settled.done, settled.stale.len()), (1, 0));
    }
    let again = options();
    let failure = Failure {
        claim: first[1].claim,
        error: "no".into(),
        retry_in: None,
        again: Again::Never,
    };
    for which in [0, 1] {
        let failures = std::slice::from_ref(&failure);
        let failed = queue(which).fail_with(failures, again).await.unwrap();
        assert_eq!(failed.done, 1);
    }
    let again = options();
    let left = take_items(&turno.inbox("q"), 1).await;
    for which in [0, 1] {
        let given = queue(which)
            .give_back_with(&[left[0].claim], again)
            .await
            .unwrap();
        assert_eq!(given.done, 1);
    }
    assert_eq!(counts(&turno.inbox("q")).await, [2, 0, 0, 1, 1]);
}

/// A request id belongs to one call: the same handle stores each of its pushes and events.
#[rule]
async fn a_handle_stores_each_of_its_calls(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let (inbox, outbox) = (turno.inbox("q"), turno.outbox());
    let again = CallOptions::default().request(Uuid::now_v7());
    inbox.push_with([item("a")], again).await.unwrap();
    let second = inbox.push(item("b")).await.unwrap();
    let third = inbox.push(item("b")).await.unwrap();
    assert_ne!(second.id, third.id);
    assert_eq!(counts(&inbox).await[0], 3);
    outbox.emit_with([Event::new("A", &1)], again).await.ok();
    outbox.emit(Event::new("A", &1)).await.unwrap();
    outbox.emit(Event::new("A", &1)).await.unwrap();
    assert!(outbox.stats().await.unwrap().pending >= 2);
}

/// Concurrent claims with request ids can each be sent again: they are not batched.
#[rule]
async fn claims_of_a_crowd_are_asked_for_again(test_store: &TestStore) {
    let turno = test_store.turno().await;
    push_all(&turno.inbox("q"), (0..40).map(|_| item("x"))).await;
    let requests: Vec<Uuid> = (0..20).map(|_| Uuid::now_v7()).collect();
    let mut rounds = Vec::new();
    for _ in 0..2 {
        let mut tasks = tokio::task::JoinSet::new();
        for (place, request) in requests.iter().copied().enumerate() {
            let claim = turno.inbox("q").claim().request(request).worker("w");
            tasks.spawn(async move { (place, claim.take().await.unwrap()) });
        }
        let mut claimed = tasks.join_all().await;
        claimed.sort_by_key(|(place, _)| *place);
        rounds.push(claimed);
    }
    assert_eq!(rounds[0], rounds[1]);
    assert_eq!(counts(&turno.inbox("q")).await, [20, 0, 20, 0, 0]);
}

/// Events that are emitted again outside a transaction are the same events.
#[rule]
async fn an_emission_by_itself_is_sent_again(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let (outbox, again) = (
        turno.outbox(),
        CallOptions::default().request(Uuid::now_v7()),
    );
    let events = [Event::new("A", &1), Event::new("B", &2)];
    let first = outbox.emit_with(&events, again).await.unwrap();
    assert_eq!(outbox.emit_with(&events, again).await.unwrap(), first);
    assert_eq!(turno.outbox().stats().await.unwrap().pending, 2);
}

/// A begin with the same request id returns the same claim; with another, it is in flight.
#[rule]
async fn a_begin_asked_for_again_is_the_same_claim(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    let request = Uuid::now_v7();
    let mut claims = Vec::new();
    for turno in [&turno, &other] {
        let begun = turno.once("k").request(request).begin().await.unwrap();
        claims.push(begun.fresh().unwrap().detach());
    }
    assert_eq!(claims[0], claims[1]);
    let another = turno.once("k").request(Uuid::now_v7()).begin().await;
    assert!(matches!(another.unwrap(), Begin::InFlight(_)));
}

/// A request id that is used for two different calls is rejected or both are applied; no call is reported as done that was
/// not.
#[rule]
async fn a_request_is_not_taken_for_one_of_another_kind(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let again = CallOptions::default().request(Uuid::now_v7());
    let (inbox, outbox) = (turno.inbox("q"), turno.outbox());
    inbox.push_with([item("a")], again).await.unwrap();
    let claimed = take_items(&inbox, 1).await;
    match inbox.give_back_with(&[claimed[0].claim], again).await {
        Ok(settled) => assert_eq!(settled.done, 1),
        Err(error) => assert_eq!(error.field(), Some("request"), "{error}"),
    }
    match outbox.emit_with([Event::new("A", &1)], again).await {
        Ok(ids) => assert_eq!(ids.len(), 1),
        Err(error) => assert_eq!(error.field(), Some("request"), "{error}"),
    }
    let again = CallOptions::default().request(Uuid::now_v7());
    let event = Event::new("B", &1);
    outbox.emit_with([event], again).await.unwrap();
    let before = counts(&turno.inbox("q")).await;
    let pushed = inbox.push_with([item("b")], again).await;
    let after = counts(&turno.inbox("q")).await;
    match pushed {
        Ok(_) => assert_ne!(before, after),
        Err(error) => assert_eq!(error.field(), Some("request"), "{error}"),
    }
}
