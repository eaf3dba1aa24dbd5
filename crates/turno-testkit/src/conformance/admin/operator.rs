//! Operator actions are in the history: user, reason, object and number.

use std::time::Duration;

use turno::Turno;
use turno::history::{History, HistoryEntry, HistoryEvent, Part};
use turno::once::{OnceResolved, OnceState};
use turno::outbox::OnDead;
use turno::store::Order;
use uuid::Uuid;

use crate::conformance::inbox::fixtures::{push, set_aside, take};
use crate::conformance::lock::fixtures::{acquired, history as of_lock, secs, take as lock};
use crate::conformance::once::fixtures as once_kit;
use crate::conformance::outbox::fixtures as outbox_kit;
use crate::conformance::{TestStore, rule};

/// A recorded action: component, event, object, number, user and reason. Lists are newest first.
type HistoryLine = (Part, HistoryEvent, String, Option<u64>, String, String);

fn line(entry: HistoryEntry) -> HistoryLine {
    assert_eq!((entry.token, entry.mode, entry.owner), (None, None, None));
    (
        entry.part,
        entry.event,
        entry.resource,
        entry.count,
        entry.actor.unwrap_or_default(),
        entry.reason.unwrap_or_default(),
    )
}

fn expected(part: Part, event: HistoryEvent, of: &str, many: u64, why: &str) -> HistoryLine {
    (part, event, of.into(), Some(many), "ana".into(), why.into())
}

async fn asked(turno: &Turno, ask: History) -> Vec<HistoryEntry> {
    turno.store().history(&ask).await.unwrap()
}

async fn lines(turno: &Turno) -> Vec<HistoryLine> {
    let all = asked(turno, History::default()).await;
    all.into_iter().map(line).collect()
}

/// Creates failed items.
async fn failed(turno: &Turno, queue: &str, many: u32) {
    let inbox = turno.inbox(queue);
    for _ in 0..many {
        push(&inbox, &["1"]).await;
    }
    for item in take(&inbox, many).await {
        set_aside(&inbox, item.claim).await;
    }
}

/// Creates dead events: some that are set aside, and one that blocks its key.
async fn dead(turno: &Turno) -> Vec<Uuid> {
    use outbox_kit::{emit_keyed, kill, take};
    let ids = emit_keyed(turno, &["a", "b", "c"], 1).await;
    kill(turno, &take(turno, 1, Order::ByKey).await, OnDead::Block).await;
    kill(turno, &take(turno, 2, Order::ByKey).await, OnDead::Skip).await;
    ids
}

/// A requeue of items is recorded once, however many there are. A requeue of no items is not recorded.
#[rule]
async fn a_requeue_is_in_the_history(test_store: &TestStore) {
    let turno = test_store.turno().await;
    failed(&turno, "mail", 3).await;
    let inbox = turno.inbox("mail").user("ana").reason("it is back");
    assert_eq!(inbox.requeue(None).await.unwrap(), 3);
    let only = [expected(
        Part::Inbox,
        HistoryEvent::Requeued,
        "mail",
        3,
        "it is back",
    )];
    assert_eq!(lines(&turno).await, only);
    assert_eq!(inbox.requeue(None).await.unwrap(), 0);
    let nowhere = turno.inbox("nowhere").user("ana");
    assert_eq!(nowhere.requeue(None).await.unwrap(), 0);
    assert_eq!(lines(&turno).await, only);
}

/// The same for a discard of items.
#[rule]
async fn a_discard_is_in_the_history(test_store: &TestStore) {
    let turno = test_store.turno().await;
    failed(&turno, "mail", 3).await;
    let inbox = turno.inbox("mail").user("ana").reason("spam");
    assert_eq!(inbox.discard(None).await.unwrap(), 3);
    assert_eq!(inbox.discard(None).await.unwrap(), 0);
    let only = [expected(
        Part::Inbox,
        HistoryEvent::Discarded,
        "mail",
        3,
        "spam",
    )];
    assert_eq!(lines(&turno).await, only);
}

/// The same for a reset.
#[rule]
async fn a_reset_is_in_the_history(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let inbox = turno.inbox("mail").user("ana").reason("w hangs");
    push(&inbox, &["1", "2"]).await;
    assert_eq!(take(&inbox, 2).await.len(), 2);
    assert_eq!(inbox.reset(secs(3600)).await.unwrap(), 0);
    assert_eq!(lines(&turno).await, []);
    assert_eq!(inbox.reset(Duration::ZERO).await.unwrap(), 2);
    let only = [expected(
        Part::Inbox,
        HistoryEvent::Reset,
        "mail",
        2,
        "w hangs",
    )];
    assert_eq!(lines(&turno).await, only);
}

/// The same for dead and blocked events. The outbox has no name, so the entries do not match a prefix.
#[rule]
async fn what_is_done_to_events_is_in_the_history(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let ids = dead(&turno).await;
    let outbox = turno.outbox().user("ana").reason("routed now");
    assert_eq!(outbox.requeue(Some(&ids[..2])).await.unwrap(), 2);
    let outbox = turno.outbox().reason("a test");
    assert_eq!(outbox.discard(&ids[2..], "ana").await.unwrap(), 1);
    assert_eq!(outbox.discard(&ids[2..], "ana").await.unwrap(), 0);
    assert_eq!(outbox.requeue(None).await.unwrap(), 0);
    let all = [
        expected(Part::Outbox, HistoryEvent::Discarded, "", 1, "a test"),
        expected(Part::Outbox, HistoryEvent::Requeued, "", 2, "routed now"),
    ];
    assert_eq!(lines(&turno).await, all);
    for prefix in ["$", "$outbox", "o", "outbox"] {
        let begun = History {
            prefix: prefix.into(),
            ..History::default()
        };
        assert_eq!(asked(&turno, begun).await, [], "{prefix}");
        let named = History {
            resource: Some(prefix.into()),
            ..History::default()
        };
        assert_eq!(asked(&turno, named).await, [], "{prefix}");
    }
    // The control: with a name, the entry would be visible to callers with rights for that name.
    test_store
        .run("update turno.operator_action set resource = 'outbox'")
        .await;
    let begun = History {
        prefix: "outbox".into(),
        ..History::default()
    };
    assert_eq!(asked(&turno, begun).await.len(), 2);
}

/// The same for a key that is forgotten. A key in flight is not forgotten, and leaves no entry.
#[rule]
async fn a_forgotten_key_is_in_the_history(test_store: &TestStore) {
    let turno = test_store.turno().await;
    once_kit::answer(&turno, "pago/77", "paid").await;
    once_kit::take(&turno, "pago/78").await.detach();
    let once = |key: &str| turno.once(key).user("ana").reason("it was not");
    assert!(once("pago/77").forget().await.unwrap());
    for gone in ["pago/77", "pago/78", "pago/79"] {
        assert!(!once(gone).forget().await.unwrap(), "{gone}");
    }
    let only = [expected(
        Part::Once,
        HistoryEvent::Forgotten,
        "pago/77",
        1,
        "it was not",
    )];
    assert_eq!(lines(&turno).await, only);
}

/// The same of an unknown key whose work was done; one that is in flight, done or gone leaves nothing.
#[rule]
async fn a_resolved_key_is_in_the_history(test_store: &TestStore) {
    let turno = test_store.turno().await;
    once_kit::take(&turno, "pago/77").await.detach();
    test_store.expire_once("pago/77").await;
    once_kit::take(&turno, "pago/78").await.detach();
    let once = |key: &str| turno.once(key).user("ana").reason("the bank has it");
    let resolved = once("pago/77").resolve(None).await.unwrap();
    assert_eq!(resolved, OnceResolved::Resolved);
    for other in ["pago/77", "pago/78", "pago/79"] {
        let resolved = once(other).resolve(None).await.unwrap();
        assert_ne!(resolved, OnceResolved::Resolved, "{other}");
    }
    let only = [expected(
        Part::Once,
        HistoryEvent::Resolved,
        "pago/77",
        1,
        "the bank has it",
    )];
    assert_eq!(lines(&turno).await, only);
}

/// What cannot be recorded is not done.
#[rule]
async fn an_operator_action_without_its_record_is_undone(test_store: &TestStore) {
    let turno = test_store.turno().await;
    failed(&turno, "mail", 2).await;
    once_kit::answer(&turno, "pago/77", "paid").await;
    once_kit::take(&turno, "pago/78").await.detach();
    test_store.expire_once("pago/78").await;
    test_store.run("drop table turno.operator_action").await;
    turno.inbox("mail").requeue(None).await.unwrap_err();
    turno.inbox("mail").discard(None).await.unwrap_err();
    turno.once("pago/77").forget().await.unwrap_err();
    turno.once("pago/78").resolve(None).await.unwrap_err();
    let unknown = once_kit::status(&turno, "pago/78").await;
    assert_eq!(unknown.state, OnceState::Unknown);
    assert_eq!(turno.inbox("mail").stats().await.unwrap().failed, 2);
    assert!(turno.once("pago/77").status().await.unwrap().is_some());
}

/// User and reason have maximum lengths, which are checked before anything is done.
#[rule]
async fn a_bad_reason_does_nothing(test_store: &TestStore) {
    let turno = test_store.turno().await;
    failed(&turno, "mail", 1).await;
    once_kit::answer(&turno, "pago/77", "paid").await;
    let long = "x".repeat(1001);
    for bad in ["", "a\nb", "a\u{0}b", &long] {
        let fields = [
            turno.inbox("mail").reason(bad).requeue(None).await,
            turno.inbox("mail").reason(bad).discard(None).await,
            turno.inbox("mail").reason(bad).reset(secs(0)).await,
            turno.outbox().reason(bad).requeue(None).await,
            turno.outbox().reason(bad).discard(&[], "ana").await,
        ];
        for refused in fields {
            assert_eq!(refused.unwrap_err().field(), Some("reason"), "{bad:?}");
        }
        let forget = turno.once("pago/77").user(bad);
        let refused = forget.forget().await.unwrap_err();
        assert_eq!(refused.field(), Some("user"), "{bad:?}");
        let resolve = turno.once("pago/77").reason(bad);
        let refused = resolve.resolve(None).await.unwrap_err();
        assert_eq!(refused.field(), Some("reason"), "{bad:?}");
        let user = turno.inbox("mail").user(bad);
        let refused = user.requeue(None).await.unwrap_err();
        assert_eq!(refused.field(), Some("user"), "{bad:?}");
    }
    assert_eq!(turno.inbox("mail").stats().await.unwrap().failed, 1);
    assert_eq!(lines(&turno).await, []);
    let longest = "x".repeat(1000);
    let inbox = turno.inbox("mail").reason(&longest);
    assert_eq!(inbox.requeue(None).await.unwrap(), 1);
    assert_eq!(lines(&turno).await[0].5, longest);
}

/// A lock, a queue and a key of the same name are distinguished, and all entries are ordered by one id, page by page.
#[rule]
async fn the_history_is_of_everything(test_store: &TestStore) {
    let turno = test_store.turno().await;
    failed(&turno, "r", 1).await;
    assert_eq!(turno.inbox("r").requeue(None).await.unwrap(), 1);
    lock(&turno, "r", "a").await.release().await.unwrap();
    once_kit::answer(&turno, "r", "done").await;
    assert!(turno.once("r").forget().await.unwrap());
    lock(&turno, "r", "b").await.release().await.unwrap();
    lock(&turno, "other", "a").await.release().await.unwrap();

    let events = |entries: &[HistoryEntry]| -> Vec<(Part, HistoryEvent)> {
        entries
            .iter()
            .map(|entry| (entry.part, entry.event))
            .collect()
    };
    let all = [
        (Part::Lock, HistoryEvent::Released),
        (Part::Once, HistoryEvent::Forgotten),
        (Part::Lock, HistoryEvent::Released),
        (Part::Inbox, HistoryEvent::Requeued),
    ];
    let named = History {
        resource: Some("r".into()),
        ..History::default()
    };
    let begun = History {
        prefix: "r".into(),
        ..History::default()
    };
    for ask in [&named, &begun] {
        assert_eq!(events(&asked(&turno, ask.clone()).await), all);
        for part in Part::ALL {
            let ask = History {
                part: Some(part),
                ..ask.clone()
            };
            let of_it: Vec<_> = all.into_iter().filter(|(of, _)| *of == part).collect();
            assert_eq!(events(&asked(&turno, ask).await), of_it, "{part}");
        }
        let (mut seen, mut before) = (Vec::new(), None);
        loop {
            let page = History {
                before,
                limit: 1,
                ..ask.clone()
            };
            let page = asked(&turno, page).await;
            assert!(page.len() <= 1);
            let Some(last) = page.last() else { break };
            before = last.id;
            seen.extend(events(&page));
        }
        assert_eq!(seen, all);
    }
    // A query for locks returns only locks.
    let locks = of_lock(&turno, "r").await;
    assert_eq!(events(&locks), [all[0], all[2]]);
    assert!(locks.iter().all(|entry| entry.token.is_some()));
}

/// A query for locks begins with current holds.
#[rule]
async fn the_history_begins_with_what_is_held(test_store: &TestStore) {
    let turno = test_store.turno().await;
    once_kit::answer(&turno, "r", "done").await;
    assert!(turno.once("r").forget().await.unwrap());
    let held = acquired(turno.lock("r")).await;
    let ask = |part| History {
        part,
        ..History::default()
    };
    for (part, events) in [
        (None, &[HistoryEvent::Acquired, HistoryEvent::Forgotten][..]),
        (Some(Part::Lock), &[HistoryEvent::Acquired]),
        (Some(Part::Once), &[HistoryEvent::Forgotten]),
        (Some(Part::Outbox), &[]),
    ] {
        let found = turno.history(ask(part)).await.unwrap();
        let found: Vec<_> = found.iter().map(|entry| entry.event).collect();
        assert_eq!(found, events, "{part:?}");
    }
    held.release().await.unwrap();
}

/// A stale release finds its lease after any number of operator actions on the same name.
#[rule]
async fn operator_actions_do_not_hide_a_lease(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let old = lock(&turno, "r", "a").await.detach();
    test_store.expire("r").await;
    let new = lock(&turno, "r", "b").await;
    for _ in 0..101 {
        once_kit::answer(&turno, "r", "done").await;
        assert!(turno.once("r").forget().await.unwrap());
    }
    turno.lock("r").release(old.token).await.unwrap();
    let events: Vec<_> = of_lock(&turno, "r").await;
    let events: Vec<_> = events.iter().map(|entry| entry.event).collect();
    assert_eq!(events, [HistoryEvent::Late, HistoryEvent::TakenOver]);
    new.release().await.unwrap();
}

/// A sweep deletes old operator actions with the rest of the history.
#[rule]
async fn a_sweep_deletes_old_operator_actions(test_store: &TestStore) {
    let turno = test_store.turno().await;
    for _ in 0..3 {
        once_kit::answer(&turno, "r", "done").await;
        assert!(turno.once("r").forget().await.unwrap());
    }
    let small = turno::lock::Sweep {
        batch: 2,
        ..Default::default()
    };
    assert_eq!(turno.sweep(&small).await.unwrap().history, 0);
    test_store.age_history(secs(91 * 24 * 60 * 60)).await;
    assert_eq!(turno.sweep(&small).await.unwrap().history, 3);
    assert_eq!(lines(&turno).await, []);
}
