//! Schedules: each tick is pushed once, with any number of instances.

use std::io;
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use tracing::instrument::WithSubscriber as _;
use turno::Turno;
use turno::inbox::{Item, ItemState};
use turno::schedule::Missed;
use turno::store::{ScheduleTick, TickOutcome};

use crate::conformance::inbox::fixtures::counts;
use crate::conformance::lock::fixtures::secs;
use crate::conformance::{TestStore, rule};
use crate::eventually_async;

const LONG: std::time::Duration = secs(60);

/// Moves a schedule's last tick into the past.
async fn sleep_for(test_store: &TestStore, hours: u64) {
    let us = hours * 3600 * 1_000_000;
    test_store
        .run(&format!(
            "update turno.schedule set last = last - {{us:{us}}}"
        ))
        .await;
}

/// Returns the number of items that were pushed to a queue.
async fn pushed(turno: &Turno, queue: &str) -> u64 {
    counts(&turno.inbox(queue)).await.iter().sum()
}

/// Three instances run the same schedule, every second: there are as many items as seconds.
#[rule]
async fn a_tick_is_pushed_once(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let name = "every-second";
    let begun = turno.store().schedule_state(name).await.unwrap().last;
    let stop = tokio_util::sync::CancellationToken::new();
    let mut instances = tokio::task::JoinSet::new();
    for _ in 0..3 {
        let (turno, stop) = (test_store.turno().await, stop.clone());
        instances.spawn(async move {
            let schedule = turno.schedule(name, "* * * * * *").item("tick");
            schedule.run(stop.cancelled_owned()).await
        });
    }
    let inbox = turno.inbox(name);
    eventually_async(LONG, "two ticks", async || {
        (pushed(&turno, name).await >= 2).then_some(())
    })
    .await;
    stop.cancel();
    while let Some(ended) = instances.join_next().await {
        ended.unwrap().unwrap();
    }
    let last = turno.store().schedule_state(name).await.unwrap().last;
    let seconds = last.as_second() - begun.as_second();
    assert_eq!(i64::try_from(pushed(&turno, name).await), Ok(seconds));
    let items = inbox.list(ItemState::Pending, None, 10).await.unwrap();
    assert_eq!(items[0].payload.as_deref(), Some("\"tick\""));
}

/// The same tick twice is pushed by the first caller; an earlier tick is over.
#[rule]
async fn a_tick_belongs_to_the_first_caller(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let name = "jobs";
    let state = turno.store().schedule_state(name).await.unwrap();
    let tick = |seconds: i64| ScheduleTick {
        name: name.to_owned(),
        tick: Timestamp::from_second(state.last.as_second() + seconds).unwrap(),
        queue: name.to_owned(),
        item: None,
    };
    let ask = async |seconds| turno.store().schedule_tick(&tick(seconds)).await.unwrap();
    assert_eq!(ask(20).await, TickOutcome::Ticked(None));
    assert_eq!(ask(20).await, TickOutcome::Already);
    assert_eq!(ask(10).await, TickOutcome::Already);
    assert_eq!(ask(30).await, TickOutcome::Ticked(None));
    assert_eq!(pushed(&turno, name).await, 0);
}

/// A new schedule has no missed ticks.
#[rule]
async fn a_new_schedule_begins_now(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let schedule = turno
        .schedule("yearly", "0 0 1 1 *")
        .missed(Missed::CatchUp);
    let pause = schedule.tick().await.unwrap();
    assert!(pause <= secs(366 * 24 * 3600), "{pause:?}");
    assert_eq!(pushed(&turno, "yearly").await, 0);
}

/// Ticks that were missed are skipped, unless the last one is only just over.
#[rule]
async fn missed_ticks_are_skipped(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let schedule = turno.schedule("hourly", "0 0 * * * *").queue("work");
    schedule.tick().await.unwrap();
    sleep_for(test_store, 5).await;
    let pause = schedule.tick().await.unwrap();
    assert!(pause <= secs(3600), "{pause:?}");
    let late = secs(3600) - pause;
    assert_eq!(
        pushed(&turno, "work").await,
        u64::from(late <= secs(60)),
        "{late:?} after the hour"
    );
}

/// Ticks that are skipped are in the log, with the schedule and the first of them; ticks that are caught up with are not.
#[rule]
async fn skipped_ticks_are_logged(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let logged = async |name: &str, missed: Missed| {
        let schedule = turno.schedule(name, "0 0 * * * *").missed(missed);
        schedule.tick().await.unwrap();
        sleep_for(test_store, 5).await;
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        schedule.tick().with_subscriber(subscriber).await.unwrap();
        log.text()
    };
    let skipped = logged("skipping", Missed::Skip).await;
    let lines = skipped.lines().filter(|line| line.contains("are skipped"));
    let [line] = <[_; 1]>::try_from(lines.collect::<Vec<_>>()).unwrap();
    for part in ["WARN", "schedule=\"skipping\"", "since="] {
        assert!(line.contains(part), "{line}");
    }
    let caught_up = logged("catching up", Missed::CatchUp).await;
    assert!(!caught_up.contains("are skipped"), "{caught_up}");
}

/// What was logged.
#[derive(Debug, Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl io::Write for Log {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(text)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Or each of them is pushed, once.
#[rule]
async fn missed_ticks_are_caught_up_with(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let schedule = turno
        .schedule("hourly", "0 0 * * * *")
        .item(Item::new("late").priority(0))
        .missed(Missed::CatchUp);
    schedule.tick().await.unwrap();
    sleep_for(test_store, 5).await;
    let (first, second) = tokio::join!(schedule.tick(), schedule.tick());
    assert!(first.is_ok() && second.is_ok());
    // Five hours back, and perhaps one more if a new hour has just begun.
    let inbox = turno.inbox("hourly");
    let pushed = inbox.stats().await.unwrap().total;
    assert!((5..=6).contains(&pushed), "{pushed}");
    let items = inbox.list(ItemState::Pending, None, 10).await.unwrap();
    assert!(items.iter().all(|item| item.priority == Some(0)));
}

/// The error for an invalid argument names the field, and nothing is stored.
#[rule]
async fn a_schedule_out_of_rule_is_refused(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let field = async |schedule: turno::schedule::Schedule| {
        let error = schedule.tick().await.unwrap_err();
        error.field().unwrap_or("none").to_owned()
    };
    let good = |name: &str| turno.schedule(name, "0 3 * * *");
    assert_eq!(field(good("")).await, "schedule");
    assert_eq!(field(turno.schedule("a", "at noon")).await, "cron");
    assert_eq!(field(turno.schedule("a", "0 3 31 2 *")).await, "cron");
    assert_eq!(
        field(good("a").time_zone("Mars/Olympus")).await,
        "time_zone"
    );
    assert_eq!(field(good("a").queue("x\ny")).await, "queue");
    assert_eq!(
        field(good("a").item(&"x".repeat(2_000_000))).await,
        "payload"
    );
}

/// Hours are those of the schedule's time zone.
#[rule]
async fn a_schedule_knows_its_time_zone(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let pause = async |zone: &str| {
        let schedule = turno
            .schedule(format!("noon/{zone}"), "0 12 * * *")
            .time_zone(zone);
        schedule.tick().await.unwrap().as_secs()
    };
    let (utc, kolkata) = (pause("UTC").await, pause("Asia/Kolkata").await);
    // Five and a half hours apart, whichever precedes the other today; a second or two pass between the two calls.
    let apart = (86_400 + utc - kolkata) % 86_400;
    assert!((apart as i64 - 19_800).abs() < 60, "{apart}");
}
