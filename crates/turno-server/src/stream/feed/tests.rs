#![allow(clippy::unwrap_used, reason = "a test ends where its expectation does")]

use std::time::Duration;

use tokio::sync::broadcast::error::TryRecvError;
use turno::Turno;
use turno::inbox::QueueStats;
use turno_api::stream::KnownQueues;

use super::*;

async fn feeds() -> Arc<Feeds> {
    let turno = Turno::connect("sqlite::memory:").await.unwrap();
    let overview = OverviewPoller::new(turno, String::new());
    Arc::new(Feeds::new(
        Arc::new(overview),
        Gauge::default(),
        CancellationToken::new(),
    ))
}

fn queue(pending: u64, oldest: Option<u64>) -> Snapshot {
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
    Snapshot {
        queues,
        ..Snapshot::default()
    }
}

fn received(subscription: &mut Subscription) -> Option<String> {
    match subscription.then.try_recv() {
        Ok(text) => Some(String::from_utf8(text.to_vec()).unwrap()),
        Err(TryRecvError::Empty) => None,
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn only_changes_are_sent() {
    let permits = Arc::new(Semaphore::new(2));
    let permit = || permits.clone().try_acquire_owned().unwrap();
    let feed = Feed::new();
    let mut early = feed.subscribe(permit());
    assert!(early.first.is_none(), "nothing was polled yet");
    feed.send_changes(queue(1, Some(10)));
    assert!(received(&mut early).unwrap().contains("event: snapshot\n"));
    // No event for an age that grows as expected.
    feed.send_changes(queue(1, Some(10)));
    assert_eq!(received(&mut early), None);
    // An event for a changed count, and for an age that jumps.
    feed.send_changes(queue(2, Some(10)));
    assert!(received(&mut early).unwrap().contains("event: queues\n"));
    feed.send_changes(queue(2, Some(5)));
    assert!(
        received(&mut early)
            .unwrap()
            .contains("\"oldest_pending_ms\":5000")
    );
    // A late subscriber begins with a snapshot.
    let late = feed.subscribe(permit()).first.unwrap();
    let late = String::from_utf8(late.to_vec()).unwrap();
    assert!(late.starts_with("id: 3\nevent: snapshot\n"), "{late}");
    assert!(late.contains("\"pending\":2"), "{late}");
}

#[tokio::test]
async fn an_outage_and_its_end_are_each_sent_once() {
    let permits = Arc::new(Semaphore::new(2));
    let permit = || permits.clone().try_acquire_owned().unwrap();
    let feed = Feed::new();
    let mut early = feed.subscribe(permit());
    feed.fail("it is down");
    feed.fail("it is down");
    assert!(received(&mut early).unwrap().contains("{\"up\":false}"));
    assert_eq!(received(&mut early), None);
    assert!(
        feed.subscribe(permit()).first.is_some(),
        "a subscriber that joins meanwhile gets it too"
    );
    feed.send_changes(queue(1, None));
    let events = received(&mut early).unwrap();
    assert!(events.contains("{\"up\":true}") && events.contains("event: snapshot\n"));
}

#[tokio::test]
async fn a_slow_subscriber_does_not_delay_the_feed() {
    let feed = Feed::new();
    let permit = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
    let mut slow = feed.subscribe(permit);
    for pending in 0..=MAX_LAG as u64 {
        feed.send_changes(queue(pending, None));
    }
    assert!(matches!(slow.then.try_recv(), Err(TryRecvError::Lagged(1))));
}

#[tokio::test]
async fn the_numbers_of_subscribers_and_feeds_are_limited() {
    let feeds = feeds().await;
    let mut all = Vec::new();
    for prefix in 0..MAX_FEEDS {
        all.push(feeds.subscribe(&prefix.to_string()).unwrap());
    }
    let refused = feeds.subscribe("one more").unwrap_err();
    assert_eq!(refused.code(), ProblemCode::Overloaded);
    // Subscribers of the same prefix share its feed.
    for _ in MAX_FEEDS..MAX_SUBSCRIBERS {
        all.push(feeds.subscribe("0").unwrap());
    }
    assert_eq!(feeds.all().len(), MAX_FEEDS);
    let refused = feeds.subscribe("0").unwrap_err();
    assert_eq!(refused.code(), ProblemCode::Overloaded);
    // A dropped subscription makes room for another, and a feed without subscribers ends.
    all.clear();
    feeds.subscribe("0").unwrap();
    feeds.tasks.close();
    tokio::time::timeout(Duration::from_secs(60), feeds.tasks.wait())
        .await
        .unwrap();
    assert!(feeds.all().is_empty());
}
