//! The same through the store itself: its writer, its readers, files and memory.

use super::super::super::SqliteStore;
use super::*;

async fn drain(path: &str) {
    let store = SqliteStore::open(path).await.unwrap();
    store.migrate().await.unwrap();
    let push = InboxPush {
        queue: QUEUE.to_owned(),
        items: (0..10).map(|n| item(&n.to_string())).collect(),
        request: Uuid::new_v4(),
    };
    let pushed = store.inbox_push(&push).await.unwrap();
    assert_eq!(store.inbox_push(&push).await.unwrap(), pushed);
    let mut turn = InboxTurn {
        complete: InboxComplete {
            claims: Vec::new(),
            request: Uuid::new_v4(),
        },
        claim: InboxClaim {
            queue: QUEUE.to_owned(),
            worker: "w".to_owned(),
            limit: 4,
            lease: LEASE,
            request: Uuid::new_v4(),
            batching: crate::Batching::Batched,
        },
    };
    let mut seen = Vec::new();
    loop {
        let (settled, claimed) = store.inbox_turn(&turn).await.unwrap();
        assert_eq!(settled.done, turn.complete.claims.len() as u64);
        let again = store.inbox_turn(&turn).await.unwrap();
        assert_eq!((again.0, &again.1), (settled, &claimed));
        if claimed.is_empty() {
            break;
        }
        seen.extend(claimed.iter().map(|item| item.claim.item));
        turn.complete.claims = claims(&claimed);
        (turn.complete.request, turn.claim.request) = (Uuid::new_v4(), Uuid::new_v4());
    }
    assert_eq!(seen, ids(&pushed));
    store.inbox_wait(QUEUE).await.unwrap();
    let ask = InboxStats::default();
    let all = store.inbox_stats(&ask).await.unwrap();
    assert_eq!((all.len(), all[0].completed, all[0].total), (1, 10, 10));
    let list = InboxList {
        queue: QUEUE.to_owned(),
        state: ItemState::Completed,
        after: None,
        limit: 100,
    };
    assert_eq!(store.inbox_list(&list).await.unwrap().len(), 10);
    store.close().await;
}

#[tokio::test]
async fn in_memory() {
    drain(":memory:").await;
}

#[tokio::test]
async fn in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    drain(folder.path().join("turno.db").to_str().unwrap()).await;
}
