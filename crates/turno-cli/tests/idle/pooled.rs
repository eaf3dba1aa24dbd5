//! Behind a transaction pooler no notification arrives: idle programs poll, with a growing pause.

use std::time::Duration;

use turno::outbox::{Event, Mode};
use turno::{Settings, Turno};
use turno_testkit::{PgBouncer, PoolMode};

use crate::actors::*;
use crate::log::{new_database, server, statements};
use crate::silent::{WINDOW_VARIABLE, soon};

/// After this time a pause between two polls is at least two seconds, less its jitter.
const SETTLED: Duration = Duration::from_secs(20);
const WINDOW: Duration = Duration::from_secs(10);
/// Six polls of two statements, by each of two tasks. Without the growing pause it is between 42 and 380.
const MOST_STATEMENTS: usize = 24;

/// Creates a database per program: the pooler sends a statement when a connection changes its application name.
async fn database(pooler: &PgBouncer) -> (String, Turno, Turno) {
    let (url, name) = new_database();
    let direct = connect(&url, "direct", Settings::default()).await;
    let pooled = connect(&pooler.url(&name), "pooled", Settings::default()).await;
    (name, direct, pooled)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_a_pooler_the_looks_become_rare() {
    let pooler = PgBouncer::start(server(), PoolMode::Transaction).unwrap();
    let (of_worker, work, turno) = database(&pooler).await;
    let mut worker = worker(&turno, "q");
    let (of_claim, claimable, turno) = database(&pooler).await;
    let claim = claim_waiter(&turno, "q");
    let (of_parallel, emitter, turno) = database(&pooler).await;
    let mut parallel = relay(&turno, Mode::Parallel, "parallel");
    let (of_single, other_emitter, turno) = database(&pooler).await;
    let mut single = relay(&turno, Mode::Single, "single");
    let (of_lock, holder, turno) = database(&pooler).await;
    let held = holder.lock("r").ttl(HOUR).acquire().await.unwrap();
    let lock = lock_waiter(&turno, "r", false);
    let (of_once, first, turno) = database(&pooler).await;
    let run = first.once("k").lease(HOUR).begin().await.unwrap();
    let once = once_waiter(&turno, "k");

    let measured = std::env::var(WINDOW_VARIABLE).ok();
    let seconds = |text: &String| Duration::from_secs(text.parse().unwrap());
    let window = measured.as_ref().map_or(WINDOW, seconds);
    tokio::time::sleep(SETTLED).await;
    let databases = [
        ("worker", &of_worker),
        ("claim", &of_claim),
        ("parallel", &of_parallel),
        ("single", &of_single),
        ("lock-waiter", &of_lock),
        ("once-waiter", &of_once),
    ];
    let count = |database: &String| statements(database).get("pooled").copied().unwrap_or(0);
    let before = databases.map(|(_, database)| count(database));
    tokio::time::sleep(window).await;
    for ((name, database), before) in databases.iter().zip(before) {
        let sent = count(database) - before;
        match &measured {
            Some(seconds) => println!("{name}, behind a pooler: {sent} statements in {seconds} s"),
            None => assert!(sent <= MOST_STATEMENTS, "{name}: {sent} statements"),
        }
    }

    // And each finds what it waited for.
    work.inbox("q").push("1").await.unwrap();
    assert_eq!(worker.next().await, "1");
    claimable.inbox("q").push("1").await.unwrap();
    assert_eq!(soon(claim).await, 1);
    for (emitter, relay) in [(&emitter, &mut parallel), (&other_emitter, &mut single)] {
        let event = [Event::new("1", &())];
        emitter.outbox().emit_many(&event).await.unwrap();
        assert_eq!(relay.next().await, "1");
    }
    held.acquired().unwrap().release().await.unwrap();
    assert!(soon(lock).await, "the waiter had the lock");
    let run = run.fresh().unwrap();
    run.complete(&"the answer").await.unwrap();
    assert_eq!(soon(once).await, "the answer");
}
