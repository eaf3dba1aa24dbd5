use super::super::super::SqliteStore;
use super::*;
use std::time::Instant;

async fn push(
    store: &SqliteStore,
    queue: &str,
    total: usize,
    make: impl Fn(usize) -> NewItem,
) -> f64 {
    let began = Instant::now();
    for call in 0..total / 1000 {
        let ask = InboxPush {
            queue: queue.to_owned(),
            items: (0..1000).map(|n| make(call * 1000 + n)).collect(),
            request: Uuid::now_v7(),
        };
        store.inbox_push(&ask).await.unwrap();
    }
    total as f64 / began.elapsed().as_secs_f64()
}

async fn drain(store: &SqliteStore, queue: &str, most: usize) -> (usize, f64) {
    let began = Instant::now();
    let mut done = Vec::new();
    let mut count = 0;
    loop {
        let ask = InboxTurn {
            complete: InboxComplete {
                claims: std::mem::take(&mut done),
                request: Uuid::now_v7(),
            },
            claim: InboxClaim {
                queue: queue.to_owned(),
                worker: "worker-1".to_owned(),
                limit: 500,
                lease: LEASE,
                request: Uuid::now_v7(),
            },
        };
        let (settled, claimed) = store.inbox_turn(&ask).await.unwrap();
        assert!(settled.stale.is_empty());
        count += settled.done as usize;
        done = claims(&claimed.items);
        if done.is_empty() || count >= most {
            break;
        }
    }
    (count, count as f64 / began.elapsed().as_secs_f64())
}

async fn probe(store: &SqliteStore, queue: &str, what: &str) {
    let ask = InboxClaim {
        queue: queue.to_owned(),
        worker: "w".into(),
        limit: 1,
        lease: LEASE,
        request: Uuid::now_v7(),
    };
    let began = Instant::now();
    let n = store.inbox_claim(&ask).await.unwrap().items.len();
    let claim = began.elapsed();
    let began = Instant::now();
    let s = store
        .inbox_stats(&InboxStats {
            queue: Some(queue.to_owned()),
            prefix: String::new(),
        })
        .await
        .unwrap();
    let stats = began.elapsed();
    let began = Instant::now();
    for state in ItemState::ALL {
        store
            .inbox_list(&InboxList {
                queue: queue.to_owned(),
                state,
                after: None,
                limit: 100,
            })
            .await
            .unwrap();
    }
    println!(
        "{what}: claim of one {claim:?} ({n}), stats {stats:?}, all lists {:?}: {s:?}",
        began.elapsed()
    );
}

#[tokio::test]
#[ignore]
async fn speed() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("t.db").to_str().unwrap())
        .await
        .unwrap();
    store.migrate().await.unwrap();
    let payload = format!("{{\"x\":\"{}\"}}", "y".repeat(100));
    for round in 0..3 {
        println!(
            "push plain {round}: {:.0}/s",
            push(&store, "a", 200_000, |_| item(&payload)).await
        );
        println!("drain plain: {:?}", drain(&store, "a", usize::MAX).await);
    }
    println!(
        "push keyed: {:.0}/s",
        push(&store, "k", 200_000, |n| keyed(
            &payload,
            &format!("key-{n}")
        ))
        .await
    );
    println!("drain keyed: {:?}", drain(&store, "k", usize::MAX).await);
    println!(
        "push groups: {:.0}/s",
        push(&store, "g", 100_000, |n| grouped(
            &payload,
            &format!("g{}", n % 5000)
        ))
        .await
    );
    println!("drain groups: {:?}", drain(&store, "g", usize::MAX).await);
    println!(
        "push timed: {:.0}/s",
        push(&store, "t", 100_000, |n| after(
            &payload,
            Duration::from_micros(1 + n as u64 * 7)
        ))
        .await
    );
    println!("drain timed: {:?}", drain(&store, "t", usize::MAX).await);
    println!(
        "push 2M: {:.0}/s",
        push(&store, "big", 2_000_000, |_| item(&payload)).await
    );
    println!(
        "push stuck: {:.0}/s",
        push(&store, "stuck", 100_000, |_| grouped(&payload, "one")).await
    );
    println!(
        "push far: {:.0}/s",
        push(&store, "far", 2_000_000, |n| after(
            &payload,
            secs(86400 + n as u64)
        ))
        .await
    );
    probe(&store, "big", "2M pending").await;
    probe(&store, "stuck", "stuck group").await;
    probe(&store, "stuck", "stuck group, held").await;
    probe(&store, "far", "2M far").await;
    println!("drain from 2M: {:?}", drain(&store, "big", 400_000).await);
    probe(&store, "big", "after draining").await;
    probe(&store, "a", "600k completed").await;
}

#[tokio::test]
#[ignore]
async fn quick() {
    let folder = tempfile::tempdir().unwrap();
    let payload = format!("{{\"x\":\"{}\"}}", "y".repeat(100));
    for place in [
        ":memory:".to_owned(),
        folder.path().join("t.db").to_str().unwrap().to_owned(),
    ] {
        let store = SqliteStore::open(&place).await.unwrap();
        store.migrate().await.unwrap();
        for round in 0..3 {
            println!(
                "{place} push plain {round}: {:.0}/s",
                push(&store, "a", 200_000, |_| item(&payload)).await
            );
            println!("drain plain: {:?}", drain(&store, "a", usize::MAX).await);
        }
    }
    // the cost of a sync
    use std::io::Write;
    let mut f = std::fs::File::create(folder.path().join("x")).unwrap();
    let buf = vec![1u8; 280_000];
    let began = Instant::now();
    for _ in 0..200 {
        f.write_all(&buf).unwrap();
        f.sync_data().unwrap();
    }
    println!("280 KB and sync: {:?}", began.elapsed() / 200);
}

#[tokio::test]
#[ignore]
async fn filed() {
    let folder = tempfile::tempdir().unwrap();
    let payload = format!("{{\"x\":\"{}\"}}", "y".repeat(100));
    let store = SqliteStore::open(folder.path().join("t.db").to_str().unwrap())
        .await
        .unwrap();
    store.migrate().await.unwrap();
    println!(
        "push plain: {:.0}/s",
        push(&store, "a", 100_000, |_| item(&payload)).await
    );
    if std::env::var("PUSH").is_err() {
        println!("drain plain: {:?}", drain(&store, "a", usize::MAX).await);
    }
}
