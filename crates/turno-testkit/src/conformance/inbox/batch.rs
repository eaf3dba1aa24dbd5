//! Many concurrent pushes from one instance, which are batched: each gets its own result.

use std::collections::HashSet;

use tokio::task::JoinSet;
use turno::inbox::{Item, ItemId, ItemState, PushedItem};
use turno::store::{InboxPush, NewItem};
use turno::{CallOptions, Result, Turno};
use uuid::Uuid;

use crate::conformance::inbox::fixtures::*;
use crate::conformance::lock::fixtures::TIMEOUT;
use crate::conformance::{TestStore, rule};

/// More calls than one batch holds.
const CROWD: usize = 200;

/// Creates an item without validation.
fn unchecked(payload: &str) -> NewItem {
    NewItem {
        payload: payload.into(),
        key: None,
        label: None,
        priority: 1,
        due: None,
        group: None,
        max_attempts: 5,
    }
}

/// Runs `CROWD` concurrent pushes and returns their results, in order.
async fn crowd(
    turno: &Turno,
    push: impl Fn(usize) -> (String, Vec<Item>),
) -> Vec<Result<Vec<PushedItem>>> {
    let mut tasks = JoinSet::new();
    for n in 0..CROWD {
        let (queue, items) = push(n);
        let inbox = turno.inbox(queue);
        tasks.spawn(async move { (n, inbox.push_many(items).await) });
    }
    let mut answers = tasks.join_all().await;
    answers.sort_by_key(|(n, _)| *n);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

/// Each caller pushes its own items, to one of several queues: each gets the ids of its own, and they are stored.
#[rule]
async fn each_of_many_pushes_its_own(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let queue = |n: usize| format!("q{}", n % 3);
    let answers = crowd(&turno, |n| {
        let items = (0..n % 4 + 1).map(|i| {
            let item = item(&format!("{n}/{i}")).priority((n % 4) as u8);
            match n % 5 {
                0 => item.delay(LATER),
                1 => item.unique_key(format!("{n}/{i}")),
                _ => item,
            }
        });
        (queue(n), items.collect())
    })
    .await;
    let mut ids = HashSet::new();
    for (n, answer) in answers.into_iter().enumerate() {
        let pushed = answer.unwrap();
        assert_eq!(pushed.len(), n % 4 + 1);
        for (i, pushed) in pushed.into_iter().enumerate() {
            assert!(!pushed.duplicate && ids.insert(pushed.id), "{n}/{i}");
            let state = if n % 5 == 0 {
                ItemState::Scheduled
            } else {
                ItemState::Pending
            };
            // The page that begins with it.
            let before = Some(ItemId(pushed.id.0 - 1));
            let listed = turno.inbox(queue(n)).list(state, before, 1).await.unwrap();
            assert_eq!(listed[0].id, pushed.id);
            assert_eq!(listed[0].payload, Some(format!("\"{n}/{i}\"").into()));
            assert_eq!(listed[0].priority, Some((n % 4) as u8));
        }
    }
    let mut total = 0;
    for queue in ["q0", "q1", "q2"] {
        total += turno.inbox(queue).stats().await.unwrap().total;
    }
    assert_eq!(total, ids.len() as u64);
}

/// Of many concurrent pushes of the same key, one stores it, and all return the same id. The same key in another queue is
/// independent.
#[rule]
async fn of_many_with_a_key_one_stores_it(test_store: &TestStore) {
    let turno = test_store.turno().await;
    for round in 0..3 {
        let key = format!("key {round}");
        let answers = crowd(&turno, |n| {
            let items = vec![item("x").unique_key(&key), item("y")];
            (format!("q{}", n % 2), items)
        })
        .await;
        for queue in 0..2 {
            let keyed: Vec<PushedItem> = answers
                .iter()
                .skip(queue)
                .step_by(2)
                .map(|answer| answer.as_ref().unwrap()[0])
                .collect();
            assert_eq!(keyed.iter().filter(|item| !item.duplicate).count(), 1);
            let ids: HashSet<ItemId> = keyed.iter().map(|item| item.id).collect();
            assert_eq!(ids.len(), 1, "round {round}");
        }
        // Items beside the duplicate are stored, whatever the result for the key.
        let others = answers.iter().map(|answer| answer.as_ref().unwrap()[1]);
        assert!(others.clone().all(|item| !item.duplicate));
        assert_eq!(
            others.map(|item| item.id).collect::<HashSet<_>>().len(),
            CROWD
        );
    }
    for queue in ["q0", "q1"] {
        let pending = turno.inbox(queue).stats().await.unwrap().pending;
        assert_eq!(pending, 3 * (CROWD as u64 / 2 + 1));
    }
}

/// A push that is rejected gets its error, and the others of its batch succeed.
#[rule]
async fn one_who_is_refused_is_alone_with_it(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let mut tasks = JoinSet::new();
    for n in 0..CROWD {
        let store = turno.store().clone();
        tasks.spawn(async move {
            let ask = InboxPush {
                queue: "q".into(),
                // The library would have rejected it; a store is called without validation.
                items: vec![unchecked(if n % 10 == 3 { "{" } else { "1" })],
                request: Uuid::now_v7(),
            };
            (n, store.inbox_push(&ask).await)
        });
    }
    let mut stored = 0;
    for (n, answer) in tasks.join_all().await {
        // SQLite accepts any text; PostgreSQL rejects text that is not JSON.
        if n % 10 == 3 && !test_store.is_sqlite() {
            assert!(answer.is_err(), "{n}");
        } else {
            assert_eq!(answer.unwrap().len(), 1);
            stored += 1;
        }
    }
    assert_eq!(turno.inbox("q").stats().await.unwrap().pending, stored);
}

/// Batched pushes that are sent again, because their responses were lost, return the same results.
#[rule]
async fn a_crowd_that_pushes_again_stores_nothing_more(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    let requests: Vec<Uuid> = (0..CROWD / 2).map(|_| Uuid::now_v7()).collect();
    let mut rounds = Vec::new();
    for turno in [&turno, &turno, &other] {
        // Also each twice at the same time.
        let answers = crowd_with(turno, &requests).await;
        for (first, second) in answers.iter().zip(&answers[requests.len()..]) {
            assert_eq!(first, second);
        }
        rounds.push(answers);
    }
    assert!(rounds.iter().all(|round| *round == rounds[0]));
    let pending = turno.inbox("q").stats().await.unwrap().pending;
    assert_eq!(pending, requests.len() as u64 + 1);
}

async fn crowd_with(turno: &Turno, requests: &[Uuid]) -> Vec<Vec<PushedItem>> {
    let mut tasks = JoinSet::new();
    for (n, request) in requests.iter().chain(requests).copied().enumerate() {
        let (inbox, options) = (turno.inbox("q"), CallOptions::default().request(request));
        let items = [item("x"), item("y").unique_key("key")];
        tasks.spawn(async move { (n, inbox.push_with(items, options).await.unwrap()) });
    }
    let mut answers = tasks.join_all().await;
    answers.sort_by_key(|(n, _)| *n);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

/// A key in an open transaction blocks only pushes of the same key. SQLite has a single writer, which blocks all others.
#[rule(postgres)]
async fn an_open_transaction_delays_no_other_push(test_store: &TestStore) {
    let turno = test_store.turno().await;
    push(&turno.inbox("q"), &["first"]).await;
    let mut client = test_store.postgres_connection().await;
    let mut tx = client.transaction().await.unwrap();
    let open = [item("x").unique_key("taken")];
    turno.inbox("q").push_many_in(&mut tx, open).await.unwrap();
    let waits = turno.inbox("q");
    let mut waiting = tokio::spawn(async move { waits.push(item("x").unique_key("taken")).await });
    let others = crowd(&turno, |n| {
        let item = item("x");
        let item = if n % 2 == 0 {
            item.unique_key(n.to_string())
        } else {
            item
        };
        ("q".into(), vec![item])
    });
    let others = tokio::time::timeout(TIMEOUT, others).await;
    assert!(others.unwrap().into_iter().all(|answer| answer.is_ok()));
    assert!(!waiting.is_finished());
    tx.commit().await.unwrap();
    let pushed = tokio::time::timeout(TIMEOUT, &mut waiting).await.unwrap();
    assert!(pushed.unwrap().unwrap().duplicate);
}

/// The queue of a claim is returned, as long as the claim is valid.
#[rule]
async fn a_claim_tells_its_queue(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let mut claims = Vec::new();
    for queue in ["a", "b", "c"] {
        push(&turno.inbox(queue), &["x"]).await;
        claims.push(take_one(&turno.inbox(queue)).await.claim);
    }
    turno.inbox("b").complete(&claims[1..2]).await.unwrap();
    let mut wrong = claims[0];
    wrong.token = Uuid::now_v7();
    let mut stranger = claims[0];
    stranger.item = claims[2].item;
    claims.extend([wrong, stranger]);
    let queues = turno.store().inbox_queues(&claims).await.unwrap();
    let queues: Vec<Option<&str>> = queues.iter().map(Option::as_deref).collect();
    assert_eq!(queues, [Some("a"), None, Some("c"), None, None]);
    assert_eq!(
        turno.store().inbox_queues(&[]).await.unwrap(),
        Vec::<Option<String>>::new()
    );
}
