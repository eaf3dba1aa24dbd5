//! Shared holders, or holders of permits, that release together: a waiter gets the lock right after the last of them, by a
//! notification. Leases last an hour, so a waiter without a notification does not get the lock by an expiry.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use turno::lock::{Lease, WaitOrder};
use turno::store::{
    Attribution, LockAcquire, LockLeave, LockMode, LockOutcome, LockRelease, LockWait, WaitOutcome,
};
use turno::{Token, Turno};
use uuid::Uuid;

use crate::conformance::lock::fixtures::*;
use crate::conformance::{TestStore, rule};

/// Number of rounds of each rule on each store; `ROUNDS_VARIABLE` overrides it.
const DEFAULT_ROUNDS: usize = 40;
const ROUNDS_VARIABLE: &str = "TURNO_READER_ROUNDS";
/// Minimum and maximum number of readers in a round.
const FEWEST_READERS: usize = 2;
const MOST_READERS: usize = 8;
/// Lease that does not expire while a rule runs.
const LEASE: Duration = Duration::from_secs(60 * 60);
/// Pause before another look at a row that was being changed; the same as the library's.
const CHANGING: Duration = Duration::from_millis(20);

fn rounds() -> usize {
    match std::env::var(ROUNDS_VARIABLE) {
        Ok(rounds) => rounds.parse().unwrap(),
        Err(_) => DEFAULT_ROUNDS,
    }
}

/// Number of readers of a round.
fn readers_of(round: usize) -> usize {
    FEWEST_READERS + round % (MOST_READERS - FEWEST_READERS + 1)
}

async fn machines(test_store: &TestStore) -> [Turno; 3] {
    [
        test_store.turno().await,
        test_store.turno().await,
        test_store.turno().await,
    ]
}

/// Acquires `many` shared holds, from all machines.
async fn hold(machines: &[Turno], mode: LockMode, many: usize) -> Vec<Lease> {
    let mut entering = JoinSet::new();
    for n in 0..many {
        let lock = machines[n % machines.len()]
            .lock("r")
            .owner(format!("holder {n}"))
            .ttl(LEASE)
            .wait(TIMEOUT);
        let lock = match mode {
            LockMode::Permits(permits) => lock.permits(permits),
            _ => lock.shared(),
        };
        entering.spawn(async move { acquired(lock).await });
    }
    entering.join_all().await
}

/// Releases all at the same moment. Returns the time at which the last release returned.
async fn release_together(leases: Vec<Lease>) -> Instant {
    let start = Arc::new(Barrier::new(leases.len()));
    let mut releases = JoinSet::new();
    for lease in leases {
        let start = start.clone();
        releases.spawn(async move {
            start.wait().await;
            lease.release().await.unwrap();
        });
    }
    releases.join_all().await;
    Instant::now()
}

/// A waiter and its mode.
#[derive(Clone)]
struct Waiter {
    turno: Turno,
    owner: String,
    mode: LockMode,
    order: WaitOrder,
}

impl Waiter {
    /// Waits for the lock.
    async fn wait(self, waiting: Waiting) -> Granted {
        match waiting {
            Waiting::ForWakeUps => self.wait_for_a_wake_up().await,
            Waiting::AsTheLibrary => self.wait_as_the_library_does().await,
        }
    }

    async fn wait_as_the_library_does(self) -> Granted {
        let lock = self
            .turno
            .lock("r")
            .owner(&*self.owner)
            .ttl(LEASE)
            .wait(LEASE);
        let lock = match self.mode {
            LockMode::Exclusive => lock,
            LockMode::Shared => lock.shared(),
            LockMode::Permits(permits) => lock.permits(permits),
        };
        let lock = match self.order {
            WaitOrder::Any => lock,
            WaitOrder::Fifo => lock.fifo(),
        };
        let lease = acquired(lock).await.detach();
        Granted {
            at: Instant::now(),
            turno: self.turno,
            token: lease.token,
        }
    }

    /// Waits as the library does, but without polls: a missed notification is never compensated.
    async fn wait_for_a_wake_up(self) -> Granted {
        let store = self.turno.store();
        let watch = store.wakers().watch("r");
        let registration = LockWait {
            resource: "r".into(),
            owner: self.owner.clone(),
            order: self.order,
            attribution: Attribution::default(),
        };
        loop {
            while store.lock_wait(&registration).await.unwrap() == WaitOutcome::TryAgain {
                tokio::task::yield_now().await;
            }
            let woken = watch.next();
            let ask = LockAcquire {
                mode: self.mode,
                ttl: LEASE,
                ..ask("r", &self.owner)
            };
            let is_changing = match store.lock_acquire(&ask).await.unwrap() {
                LockOutcome::Acquired(grant) => {
                    let at = Instant::now();
                    let leave = LockLeave {
                        resource: "r".into(),
                        owner: self.owner.clone(),
                    };
                    store.lock_leave(&leave).await.unwrap();
                    return Granted {
                        at,
                        turno: self.turno.clone(),
                        token: grant.token,
                    };
                }
                LockOutcome::Busy(busy) => busy.remaining.is_zero(),
            };
            // A single exclusive waiter has no competitor: the notification of the last release always leads to a grant.
            if is_changing && self.mode != LockMode::Exclusive {
                drop(timeout(CHANGING, woken).await);
            } else {
                woken.await;
            }
        }
    }
}

/// How a waiter waits.
#[derive(Debug, Clone, Copy)]
enum Waiting {
    /// It tries only after a notification.
    ForWakeUps,
    /// As the library does: through a server, which waits for its clients, or behind a pooler, without notifications.
    AsTheLibrary,
}

/// A lock that a waiter got.
struct Granted {
    at: Instant,
    turno: Turno,
    token: Token,
}

impl Granted {
    async fn release(&self) {
        let release = LockRelease {
            resource: "r".into(),
            token: self.token,
            hold: None,
            request: Uuid::now_v7(),
        };
        self.turno.store().lock_release(&release).await.unwrap();
    }
}

/// Returns how the waiters of this test store can wait.
async fn waiting(test_store: &TestStore, turno: &Turno) -> Waiting {
    let is_direct =
        test_store.is_direct() && ["sqlite", "postgres"].contains(&turno.store().name());
    if !is_direct {
        return Waiting::AsTheLibrary;
    }
    // A watcher makes the store listen; it continues for some time after the last one.
    let _watch = turno.store().wakers().watch("r");
    crate::eventually_async(TIMEOUT, "wake-ups", async || {
        turno.store().wakers().is_live().then_some(())
    })
    .await;
    Waiting::ForWakeUps
}

/// Runs rounds with waiters, which all get the lock in the end. Prints the longest time between the last release and the last
/// grant.
async fn play(
    test_store: &TestStore,
    waiters: impl Fn(usize, &[Turno; 3]) -> (LockMode, usize, Vec<Waiter>),
) {
    let machines = machines(test_store).await;
    let how = waiting(test_store, &machines[2]).await;
    let mut longest = Duration::ZERO;
    for round in 0..rounds() {
        let (mode, many, waiters) = waiters(round, &machines);
        let leases = hold(&machines[..2], mode, many).await;
        let count = waiters.len() as u64;
        let mut waiting = JoinSet::new();
        for waiter in waiters {
            waiting.spawn(waiter.wait(how));
        }
        until_waiting(&machines[0], "r", count).await;
        let released = release_together(leases).await;
        let Ok(granted) = timeout(TIMEOUT, waiting.join_all()).await else {
            panic!("round {round}: {many} released together, and a waiter was not woken");
        };
        for granted in granted {
            longest = longest.max(granted.at.saturating_duration_since(released));
            granted.release().await;
        }
    }
    println!(
        "{} rounds on {}: a waiter got in {longest:?} after the last release at the latest",
        rounds(),
        machines[2].store().name()
    );
}

/// A waiting exclusive owner gets the lock when the last of several shared holders has released it.
#[rule]
async fn the_last_of_several_readers_lets_a_writer_in(test_store: &TestStore) {
    play(test_store, |round, machines| {
        let writer = Waiter {
            turno: machines[2].clone(),
            owner: "writer".into(),
            mode: LockMode::Exclusive,
            order: match round % 2 {
                0 => WaitOrder::Any,
                _ => WaitOrder::Fifo,
            },
        };
        (LockMode::Shared, readers_of(round), vec![writer])
    })
    .await;
}

/// An exclusive acquire after the last of several releases succeeds at the first attempt.
#[rule]
async fn readers_that_release_together_leave_the_lock_free(test_store: &TestStore) {
    let machines = machines(test_store).await;
    let mut longest = Duration::ZERO;
    for round in 0..rounds() {
        let leases = hold(&machines[..2], LockMode::Shared, readers_of(round)).await;
        let released = release_together(leases).await;
        let writer = if round % 2 == 0 {
            let lock = machines[2].lock("r").owner("writer").wait(Duration::ZERO);
            vec![acquired(lock).await.detach()]
        } else {
            let both = machines[2].locks(["r", "s"]);
            let taken = both.wait(Duration::ZERO).acquire().await.unwrap();
            taken.acquired().unwrap().detach()
        };
        longest = longest.max(released.elapsed());
        for lease in writer {
            let released = machines[2].lock(&lease.resource).release(lease.token);
            released.await.unwrap();
        }
    }
    println!(
        "{} rounds on {}: a writer got in {longest:?} after the last release at the latest",
        rounds(),
        machines[2].store().name()
    );
}

/// Permits that are released together are granted to as many waiters, in order or not.
#[rule]
async fn permits_given_back_together_let_as_many_in(test_store: &TestStore) {
    play(test_store, |round, machines| {
        let permits = 2 + round % 3;
        let mode = LockMode::Permits(u32::try_from(permits).unwrap());
        let order = match round % 2 {
            0 => WaitOrder::Any,
            _ => WaitOrder::Fifo,
        };
        let waiters = (0..permits).map(|n| Waiter {
            turno: machines[1 + n % 2].clone(),
            owner: format!("waiter {n}"),
            mode,
            order,
        });
        (mode, permits, waiters.collect())
    })
    .await;
}
