//! Every call, and what comes of it.

use std::time::Duration;

use turno::access::Role;
use turno::history::{HistoryEvent, Part};
use turno::inbox::{Again, ClaimId, Failure, ItemId, ItemState};
use turno::once::{OnceResolved, OnceSettled, OnceState, Released};
use turno::outbox::EventState;
use turno::store::{
    BreakOutcome, Grant, LockAllOutcome, LockOutcome, OnceForget, OnceOutcome, ReleaseOutcome,
    RenewOutcome,
};
use turno_client::api::admin::SweepRequest;
use turno_client::api::duration::WireDuration;
use turno_client::api::inbox::{
    Claim, CompleteClaims, ExtendClaims, FailClaims, FailedItems, Push, PushItem, Reset,
};
use turno_client::api::lock::{Acquire, AcquireAll, Renew};
use turno_client::api::once::{AfterUnknown, Begin, Complete, Extend, Resolve};
use turno_client::api::outbox::{Discard, Emit, NewEvent, RequeueEvents};
use turno_client::{Client, Page};

use crate::common::{LONG, Running};

fn ask(resource: &str, owner: &str) -> Acquire {
    Acquire {
        resource: resource.into(),
        owner: Some(owner.into()),
        user: Some("ana".into()),
        ..Acquire::default()
    }
}

async fn acquired(client: &Client, ask: &Acquire) -> Grant {
    match client.acquire(ask).await.unwrap() {
        LockOutcome::Acquired(grant) => {
            assert!(!grant.reentered, "{grant:?}");
            grant
        }
        LockOutcome::Busy(busy) => panic!("{busy:?}"),
    }
}

#[tokio::test]
async fn locks() {
    let server = Running::start().await;
    let client = server.client();
    // A name that needs to be encoded, in every place of a path.
    let name = "PRÉSTAMO/1 %2F?#@;..";
    let lease = acquired(&client, &ask(name, "a")).await;
    assert_eq!((lease.resource.as_str(), lease.holds), (name, 1));
    let again = client.acquire(&ask(name, "a")).await.unwrap();
    assert!(
        matches!(again, LockOutcome::Acquired(again) if again.reentered && again.token == lease.token)
    );
    let LockOutcome::Busy(busy) = client.acquire(&ask(name, "b")).await.unwrap() else {
        panic!("it is held");
    };
    assert_eq!(busy.holder.unwrap().user.as_deref(), Some("ana"));

    let ttl = Renew {
        ttl: Some(WireDuration(Duration::from_secs(90))),
    };
    let id = lease.id();
    let RenewOutcome::Renewed { expires_at, .. } = client.renew(&id, &ttl).await.unwrap() else {
        panic!("it is held");
    };
    assert!(expires_at > lease.expires_at);
    for holds in [1, 0] {
        let released = client.release(&id, None).await.unwrap();
        assert_eq!(released, ReleaseOutcome::Released { holds });
    }
    let lost = client.release(&id, None).await.unwrap();
    assert_eq!(lost, ReleaseOutcome::Lost);
    let lost = client.renew(&id, &Renew::default()).await.unwrap();
    assert_eq!(lost, RenewOutcome::Lost);
    assert!(client.lock_status(name).await.unwrap().holders.is_empty());
}

#[tokio::test]
async fn locks_that_are_looked_at_and_broken() {
    let server = Running::start().await;
    let client = server.client();
    let all = AcquireAll {
        resources: ["l/3", "l/1", "l/2"].map(String::from).to_vec(),
        owner: Some("a".into()),
        ..AcquireAll::default()
    };
    let LockAllOutcome::Acquired(grants) = client.acquire_all(&all).await.unwrap() else {
        panic!("they are free");
    };
    assert_eq!(grants.len(), 3);
    let again = client.acquire_all(&all).await.unwrap();
    assert!(
        matches!(again, LockAllOutcome::Acquired(again) if again.iter().all(|grant| grant.reentered))
    );
    let other = AcquireAll {
        owner: Some("b".into()),
        ..all
    };
    let busy = client.acquire_all(&other).await.unwrap();
    assert!(matches!(busy, LockAllOutcome::Busy(_)));

    let mut page = Page {
        limit: Some(2),
        after: None,
    };
    let first = client.locks("l/", &page).await.unwrap();
    page.after = first.next;
    let second = client.locks("l/", &page).await.unwrap();
    let names = first.locks.iter().chain(&second.locks);
    let names: Vec<&str> = names.map(|lock| lock.resource.as_str()).collect();
    assert_eq!((names, second.next), (vec!["l/1", "l/2", "l/3"], None));

    let token = grants[0].token;
    let wrong = turno::Token(token.0 - 1);
    let not_held = client.break_lock("l/1", wrong, "gone", None).await;
    assert_eq!(not_held.unwrap(), BreakOutcome::NotHeld);
    let broken = client.break_lock("l/1", token, "gone & done", Some("eva"));
    assert_eq!(broken.await.unwrap(), BreakOutcome::Broken);
    let history = client
        .history(None, Some("l/1"), "", &Page::default())
        .await;
    let entry = &history.unwrap().history[0];
    assert_eq!(entry.reason.as_deref(), Some("gone & done"));
    assert_eq!(entry.actor.as_deref(), Some("eva"));
}

#[tokio::test]
async fn a_lock_that_is_waited_for() {
    let server = Running::start().await;
    let client = server.client();
    let lease = acquired(&client, &ask("it", "a")).await;
    let waiting = Acquire {
        wait: Some(WireDuration(LONG)),
        ..ask("it", "b")
    };
    let (waited, released) = tokio::join!(acquired(&client, &waiting), async {
        turno_testkit::eventually_async(LONG, "the waiter to stand in line", async || {
            (client.lock_status("it").await.unwrap().waiters == 1).then_some(())
        })
        .await;
        client.release(&lease.id(), None).await.unwrap()
    });
    assert_eq!(released, ReleaseOutcome::Released { holds: 0 });
    assert!(waited.token > lease.token);
}

fn item(text: &str) -> PushItem {
    PushItem {
        payload: text.into(),
        key: None,
        priority: None,
        delay: None,
        run_at: None,
        group: None,
        max_attempts: None,
    }
}

fn push(items: &[&str]) -> Push {
    Push {
        items: items.iter().map(|text| item(text)).collect(),
        request: None,
    }
}

fn claim(limit: u32) -> Claim {
    Claim {
        worker: "w".into(),
        limit: Some(limit),
        lease: None,
        wait: None,
        request: None,
    }
}

fn complete(claims: Vec<ClaimId>) -> CompleteClaims {
    CompleteClaims {
        claims,
        request: None,
    }
}

#[tokio::test]
async fn work() {
    let server = Running::start().await;
    let client = server.client();
    let queue = "mail/out";
    // A number that no float can hold.
    let pushed = client
        .push(queue, &push(&["12345678901234567890.10", "2", "3", "4"]))
        .await
        .unwrap();
    assert_eq!(pushed.ids.len(), 4);
    let claimed = client.claim(queue, &claim(4)).await.unwrap().items;
    assert_eq!(claimed[0].payload.as_str(), "12345678901234567890.10");
    let one = |place: usize| claimed[place].claim;
    let both = ExtendClaims {
        claims: vec![one(0).into(), one(1).into()],
        request: None,
    };
    let extended = client.extend(queue, &both).await;
    assert_eq!(extended.unwrap().done, 2);
    let done = client
        .complete(queue, &complete(vec![one(0)]))
        .await
        .unwrap();
    assert_eq!((done.done, done.stale), (1, vec![]));
    let again = client
        .complete(queue, &complete(vec![one(0)]))
        .await
        .unwrap();
    assert_eq!(again.stale, [claimed[0].claim]);
    let failed = FailClaims {
        claims: vec![Failure {
            error: "no".into(),
            again: Again::Never,
            ..one(1).into()
        }],
        request: None,
    };
    assert_eq!(client.fail(queue, &failed).await.unwrap().done, 1);
    let given = client.give_back(queue, &complete(vec![one(2)])).await;
    assert_eq!(given.unwrap().done, 1);

    let missing = client.queue("mail/uot").await.unwrap_err();
    assert_eq!(missing.code(), Some("no_queue"));
    let stats = client.queue(queue).await.unwrap();
    assert_eq!(
        [
            stats.completed,
            stats.failed,
            stats.pending,
            stats.processing
        ],
        [1; 4]
    );
    let mut listed = client.queues("mail/").await.unwrap().queues;
    // An age grows by itself.
    listed[0].oldest_pending = stats.oldest_pending;
    assert_eq!(listed, [stats]);
    let page = Page::<ItemId>::default();
    let items = client.items(queue, ItemState::Failed, &page).await.unwrap();
    assert_eq!(items.items[0].errors[0].error, "no");
    let ask = FailedItems {
        ids: Some(vec![claimed[1].id]),
        reason: Some("looked".into()),
        ..FailedItems::default()
    };
    assert_eq!(client.requeue(queue, &ask).await.unwrap().requeued, 1);
    let discarded = client.discard_items(queue, &ask).await.unwrap();
    assert_eq!(discarded.discarded, 0, "it has not failed any more");
    let ask = Reset {
        older_than: Some(WireDuration(Duration::ZERO)),
        reason: Some("looked".into()),
        ..Reset::default()
    };
    assert_eq!(client.reset(queue, &ask).await.unwrap().reset, 1);
    let page = Page::default();
    let history = client.history(Some(Part::Inbox), Some(queue), "", &page);
    let history = history.await.unwrap().history;
    let events: Vec<_> = history.iter().map(|entry| entry.event).collect();
    assert_eq!(events, [HistoryEvent::Reset, HistoryEvent::Requeued]);
    let because = history.iter().map(|entry| entry.reason.as_deref());
    assert!(because.into_iter().all(|why| why == Some("looked")));
}

#[tokio::test]
async fn events() {
    let server = Running::start().await;
    let client = server.client();
    let event = |kind: &str| NewEvent {
        kind: kind.into(),
        payload: r#"{"n":1}"#.into(),
        key: Some("k".into()),
        correlation_id: None,
        traceparent: None,
        tracestate: None,
        headers: [("a".to_owned(), "b".to_owned())].into(),
        delay: None,
        id: None,
    };
    let emit = Emit {
        events: vec![event("A"), event("B")],
        request: None,
    };
    let ids = client.emit(&emit).await.unwrap().ids;
    assert_eq!(client.outbox().await.unwrap().pending, 2);
    let page = Page::default();
    let events = client.events(EventState::Pending, &page).await.unwrap();
    let found: Vec<_> = events.events.iter().map(|event| event.id).collect();
    assert_eq!(found, ids);
    let found = client.event(ids[1]).await.unwrap().unwrap();
    assert_eq!(found.kind.as_deref(), Some("B"));
    assert_eq!(found.payload.unwrap().as_str(), r#"{"n":1}"#);
    assert!(client.event(uuid::Uuid::nil()).await.unwrap().is_none());
    let requeue = RequeueEvents {
        ids: Some(ids.clone()),
        reason: Some("looked".into()),
        ..RequeueEvents::default()
    };
    assert_eq!(client.requeue_events(&requeue).await.unwrap().requeued, 0);
    let discard = Discard {
        ids,
        ..Discard::default()
    };
    assert_eq!(client.discard(&discard).await.unwrap().discarded, 0);
}

#[tokio::test]
async fn once() {
    let server = Running::start().await;
    let client = server.client();
    let key = "pago/77 ñ";
    let begin = Begin {
        key: key.into(),
        fingerprint: Some("f".into()),
        ..Begin::default()
    };
    let begun = async |begin: &Begin| client.begin(begin).await.unwrap();
    let OnceOutcome::Fresh(fresh) = begun(&begin).await else {
        panic!("it is new");
    };
    assert!(matches!(begun(&begin).await, OnceOutcome::InFlight(run) if run.attempt == 1));
    let other = Begin {
        fingerprint: Some("g".into()),
        ..begin.clone()
    };
    assert_eq!(begun(&other).await, OnceOutcome::Mismatch);
    let extended = client.extend_once(&fresh.claim, &Extend::default()).await;
    assert_eq!(extended.unwrap(), OnceSettled::Done);
    let doubted = client.release_once(&fresh.claim, Released::Unknown).await;
    assert_eq!(doubted.unwrap(), OnceSettled::Done);
    assert!(matches!(begun(&begin).await, OnceOutcome::Unknown(_)));
    let rerun = Begin {
        unknown: Some(AfterUnknown::Rerun),
        ..begin.clone()
    };
    let OnceOutcome::Fresh(second) = begun(&rerun).await else {
        panic!("it may be run again");
    };
    let null = Complete {
        answer: Some("null".into()),
        ttl: None,
    };
    let stale = client.complete_once(&fresh.claim, &null).await.unwrap();
    assert_eq!(stale, OnceSettled::Stale);
    let done = client.complete_once(&second.claim, &null).await.unwrap();
    assert_eq!(done, OnceSettled::Done);
    let answer = Some("null".to_owned());
    assert_eq!(begun(&begin).await, OnceOutcome::Replay { answer });

    let keys = client
        .keys(Some(OnceState::Done), "pago/", &Page::default())
        .await;
    assert_eq!(keys.unwrap().keys[0].key, key);
    assert_eq!(client.key(key).await.unwrap().unwrap().claim, second.claim);
    let forget = OnceForget {
        key: key.to_owned(),
        user: Some("eva".into()),
        reason: Some("not paid & done".into()),
    };
    assert!(client.forget_with(&forget).await.unwrap().forgotten);
    let page = Page::default();
    let history = client.history(Some(Part::Once), None, "", &page);
    let entry = &history.await.unwrap().history[0];
    assert_eq!(entry.actor, forget.user);
    assert_eq!(entry.reason, forget.reason);
    assert!(client.key(key).await.unwrap().is_none());

    let resolve = Resolve {
        answer: Some("7".into()),
        user: Some("eva".into()),
        reason: Some("paid & done".into()),
    };
    let gone = client.resolve(key, &resolve).await.unwrap();
    assert_eq!(gone, OnceResolved::NotFound);
    let OnceOutcome::Fresh(fresh) = begun(&begin).await else {
        panic!("it was forgotten");
    };
    let running = client.resolve(key, &resolve).await.unwrap();
    assert!(matches!(running, OnceResolved::InFlight(run) if run.attempt == 1));
    client
        .release_once(&fresh.claim, Released::Unknown)
        .await
        .unwrap();
    let resolved = client.resolve(key, &resolve).await.unwrap();
    assert_eq!(resolved, OnceResolved::Resolved);
    let again = client.resolve(key, &resolve).await.unwrap();
    assert_eq!(again, OnceResolved::Answered);
    let history = client.history(Some(Part::Once), None, "", &page);
    let entry = &history.await.unwrap().history[0];
    assert_eq!(
        (&entry.actor, &entry.reason),
        (&resolve.user, &resolve.reason)
    );
}

#[tokio::test]
async fn operator_actions() {
    let server = Running::start().await;
    let client = server.client();
    assert_eq!(client.health().await.unwrap().status, "ok");
    assert_eq!(client.ready().await.unwrap().status, "ok");
    let me = client.whoami().await.unwrap();
    assert_eq!((me.name.as_str(), me.role), ("anonymous", Role::Admin));
    let examined = client.doctor().await.unwrap();
    assert!(
        examined
            .findings
            .iter()
            .any(|finding| finding.check == "schema")
    );
    let ask = Acquire {
        ttl: Some(WireDuration(Duration::from_millis(1))),
        ..ask("gone", "a")
    };
    acquired(&client, &ask).await;
    turno_testkit::eventually_async(LONG, "an expired lease to be closed", async || {
        (client
            .sweep(&SweepRequest::default())
            .await
            .unwrap()
            .expired
            == 1)
            .then_some(())
    })
    .await;
}

#[tokio::test]
async fn changes_are_streamed() {
    let server = Running::start().await;
    let client = server.client();
    let mut stream = client.stream("events/").await.unwrap();
    acquired(&client, &ask("untold/1", "a")).await;
    acquired(&client, &ask("events/1", "a")).await;
    let events = async {
        loop {
            let event = stream.next().await.unwrap().unwrap();
            assert!(!event.data.contains("untold"), "{event:?}");
            if event.data.contains("events/1") {
                return;
            }
        }
    };
    tokio::time::timeout(LONG, events).await.unwrap();
}

#[tokio::test]
async fn what_is_wrong_is_named() {
    let server = Running::start().await;
    let client = server.client();
    let bad = Acquire {
        ttl: Some(WireDuration(Duration::ZERO)),
        ..ask("it", "a")
    };
    let error = client.acquire(&bad).await.unwrap_err();
    assert!(error.is_invalid() && !error.is_unavailable(), "{error:?}");
    assert_eq!(
        (error.field(), error.code()),
        (Some("ttl"), Some("invalid"))
    );
    let known = turno::Error::from(error);
    assert!(known.is_invalid());
    assert_eq!(known.field(), Some("ttl"));
}
