#![allow(clippy::unwrap_used, reason = "a test ends where its expectation does")]

use std::time::Duration;

use tokio::sync::broadcast::error::TryRecvError;
use turno::inbox::QueueStats;
use turno_api::stream::KnownQueues;

use super::*;

async fn feeds() -> Arc<Feeds> {
    let turno = Turno::connect("sqlite::memory:").await.unwrap();
    let metrics = Arc::new(Metrics::new(&turno));
    Arc::new(Feeds::new(turno, metrics, CancellationToken::new()))
}

fn queue(pending: u64, oldest: Option<u64>) -> Seen {
    let stats = QueueStats {
        queue: "q".into(),
        total: pending,
        pending,
        scheduled: 0,
        processing: 0,
        completed: 0,
        failed: 0,
        oldest_pending: oldest.map(Duration::from_secs),
    };
    let queues = KnownQueues {
        queues: vec![stats],
        more: false,
    };
    Seen {
        queues: Some(queues),
        ..Seen::default()
    }
}

fn heard(subscription: &mut Subscription) -> Option<String> {
    match subscription.then.try_recv() {
        Ok(text) => Some(String::from_utf8(text.to_vec()).unwrap()),
        Err(TryRecvError::Empty) => None,
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn only_what_changes_is_told() {
    let seats = Arc::new(Semaphore::new(2));
    let seat = || seats.clone().try_acquire_owned().unwrap();
    let feed = Feed::new();
    let mut early = feed.subscribe(seat());
    assert!(early.first.is_none(), "nothing is known yet");
    feed.tell(queue(1, Some(10)));
    assert!(heard(&mut early).unwrap().contains("event: snapshot\n"));
    // No event for an empty poll, or for an age that grows as expected.
    feed.tell(Seen::default());
    feed.tell(queue(1, Some(10)));
    assert_eq!(heard(&mut early), None);
    // An event for a changed count, and for an age that jumps.
    feed.tell(queue(2, Some(10)));
    assert!(heard(&mut early).unwrap().contains("event: queues\n"));
    feed.tell(queue(2, Some(5)));
    assert!(
        heard(&mut early)
            .unwrap()
            .contains("\"oldest_pending_ms\":5000")
    );
    // A late subscriber begins with a snapshot.
    let late = feed.subscribe(seat()).first.unwrap();
    let late = String::from_utf8(late.to_vec()).unwrap();
    assert!(late.starts_with("id: 3\nevent: snapshot\n"), "{late}");
    assert!(late.contains("\"pending\":2"), "{late}");
}

#[tokio::test]
async fn an_outage_is_told_once_and_its_end() {
    let seats = Arc::new(Semaphore::new(2));
    let seat = || seats.clone().try_acquire_owned().unwrap();
    let feed = Feed::new();
    let mut early = feed.subscribe(seat());
    feed.fail("it is down");
    feed.fail("it is down");
    assert!(heard(&mut early).unwrap().contains("{\"up\":false}"));
    assert_eq!(heard(&mut early), None);
    assert!(
        feed.subscribe(seat()).first.is_some(),
        "told to who comes meanwhile"
    );
    feed.tell(queue(1, None));
    let told = heard(&mut early).unwrap();
    assert!(told.contains("{\"up\":true}") && told.contains("event: snapshot\n"));
}

#[tokio::test]
async fn who_does_not_read_is_not_waited_for() {
    let feed = Feed::new();
    let seat = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
    let mut slow = feed.subscribe(seat);
    for pending in 0..=BEHIND as u64 {
        feed.tell(queue(pending, None));
    }
    assert!(matches!(slow.then.try_recv(), Err(TryRecvError::Lagged(1))));
}

#[tokio::test]
async fn as_many_listen_as_may() {
    let feeds = feeds().await;
    let mut all = Vec::new();
    for prefix in 0..FEEDS {
        all.push(feeds.subscribe(&prefix.to_string()).unwrap());
    }
    let refused = feeds.subscribe("one more").unwrap_err();
    assert_eq!(refused.code(), Code::Overloaded);
    // Subscribers of the same prefix share its feed.
    for _ in FEEDS..SUBSCRIBERS {
        all.push(feeds.subscribe("0").unwrap());
    }
    assert_eq!(feeds.all().len(), FEEDS);
    let refused = feeds.subscribe("0").unwrap_err();
    assert_eq!(refused.code(), Code::Overloaded);
    // A dropped subscription makes room for another, and a feed without subscribers ends.
    all.clear();
    feeds.subscribe("0").unwrap();
    feeds.tasks.close();
    tokio::time::timeout(Duration::from_secs(60), feeds.tasks.wait())
        .await
        .unwrap();
    assert!(feeds.all().is_empty());
}
