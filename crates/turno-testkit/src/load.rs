//! Load for fault tests: tasks that take locks, enter them again and give them back, and write down what they were told.
//!
//! What is written down before a question is sent and after its answer has come is enough to judge a whole run afterwards,
//! even if the process that asked was killed half-way.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use turno::Turno;
use turno::lock::{Acquire, Lease, Lock, ReleaseOutcome};

/// How long a lock lives that all tasks want. Short, because one whose holder was killed blocks the others for so long.
const SHARED_TTL: Duration = Duration::from_secs(1);

/// How long a task waits for a lock that all want.
const SHARED_WAIT: Duration = Duration::from_millis(100);

/// How long a lock lives that is kept to see whether it outlives a crash: longer than any test.
const KEPT_TTL: Duration = Duration::from_secs(3600);

/// The beginning of the names that only one owner ever asks for.
pub const KEPT: &str = "kept/";

/// One line of what a task asked and was told. Times are microseconds of the machine's steady clock, which all processes share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Entry {
    /// An acquire is about to be asked for.
    Asking {
        /// What is asked for.
        resource: String,
    },
    /// An acquire was answered with a lease.
    Granted {
        /// What was asked for.
        resource: String,
        /// The fencing token.
        token: i64,
        /// How often its owner holds it.
        holds: u32,
        /// When it was asked for.
        asked_us: i64,
        /// When the answer was there.
        told_us: i64,
        /// For how long it was asked.
        ttl_us: i64,
    },
    /// A release is about to be asked for.
    Releasing {
        /// What is given back.
        resource: String,
        /// The lease's token.
        token: i64,
        /// When.
        asked_us: i64,
    },
    /// A release was answered: done.
    Released {
        /// What was given back.
        resource: String,
        /// The lease's token.
        token: i64,
        /// How often its owner still holds it.
        holds: u32,
    },
    /// A release was answered: the lease is no longer yours.
    Lost {
        /// What was to be given back.
        resource: String,
        /// The lease's token.
        token: i64,
        /// When the answer was there.
        told_us: i64,
    },
    /// A call failed because the store was not there.
    Unavailable,
    /// A call failed in a way that no outage explains.
    Broken {
        /// What the error said.
        error: String,
    },
}

/// What a load is made of.
#[derive(Debug, Clone)]
pub struct Load {
    /// A name that no other load on the same store has, without spaces.
    pub name: String,
    /// How many tasks are under way at once.
    pub tasks: usize,
    /// How many resources they, and all other loads on the store, want.
    pub shared: usize,
}

/// Runs a load until `stop`. Every step is told to `note` before it is taken and after it was answered.
///
/// There is nothing in it that opens a connection again, or repeats a call: an outage is the library's to survive.
///
/// Not cancel-safe: dropped, it aborts its tasks half-way, which is what a crash does.
pub async fn run(
    turno: &Turno,
    load: &Load,
    stop: &CancellationToken,
    note: impl Fn(Entry) + Clone + Send + Sync + 'static,
) {
    let mut tasks = JoinSet::new();
    for task in 0..load.tasks {
        let (turno, load, stop, note) = (turno.clone(), load.clone(), stop.clone(), note.clone());
        tasks.spawn(async move {
            let mut round = 0_u64;
            while !stop.is_cancelled() {
                let resource = format!("shared/{}", fastrand::usize(..load.shared));
                take_and_give_back(&turno, resource, &note).await;
                if round.is_multiple_of(4) {
                    let resource = format!("{KEPT}{}/{task}/{round}", load.name);
                    take_and_keep(&turno, resource, &note).await;
                }
                round += 1;
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        if let Err(error) = ended {
            let error = error.to_string();
            note(Entry::Broken { error });
        }
    }
}

/// A lock that others want too: taken, entered again now and then, given back as often.
async fn take_and_give_back(turno: &Turno, resource: String, note: &impl Fn(Entry)) {
    let lock = turno
        .lock(&resource)
        .owner(owner())
        .ttl(SHARED_TTL)
        .wait(SHARED_WAIT);
    let Some(lease) = acquire(lock.clone(), &resource, SHARED_TTL, note).await else {
        return;
    };
    if fastrand::bool()
        && let Some(again) = acquire(lock, &resource, SHARED_TTL, note).await
    {
        release(again, note).await;
    }
    release(lease, note).await;
}

/// A lock of one's own: taken twice, given back once, and left held.
async fn take_and_keep(turno: &Turno, resource: String, note: &impl Fn(Entry)) {
    let lock = turno.lock(&resource).owner(owner()).ttl(KEPT_TTL);
    let Some(lease) = acquire(lock.clone(), &resource, KEPT_TTL, note).await else {
        return;
    };
    if let Some(again) = acquire(lock, &resource, KEPT_TTL, note).await {
        release(again, note).await;
    }
    lease.detach();
}

async fn acquire(
    lock: Lock,
    resource: &str,
    ttl: Duration,
    note: &impl Fn(Entry),
) -> Option<Lease> {
    let resource = resource.to_owned();
    note(Entry::Asking {
        resource: resource.clone(),
    });
    let asked_us = steady_us();
    match lock.acquire().await {
        Ok(Acquire::Acquired(lease)) => {
            note(Entry::Granted {
                resource,
                token: lease.token().0,
                holds: lease.grant().holds,
                asked_us,
                told_us: steady_us(),
                ttl_us: i64::try_from(ttl.as_micros()).unwrap_or(i64::MAX),
            });
            Some(lease)
        }
        Ok(Acquire::Busy(_)) => None,
        Err(error) => {
            note(failed(&error));
            None
        }
    }
}

async fn release(lease: Lease, note: &impl Fn(Entry)) {
    let (resource, token) = (lease.resource().to_owned(), lease.token().0);
    note(Entry::Releasing {
        resource: resource.clone(),
        token,
        asked_us: steady_us(),
    });
    note(match lease.release().await {
        Ok(ReleaseOutcome::Released { holds }) => Entry::Released {
            resource,
            token,
            holds,
        },
        Ok(ReleaseOutcome::Lost) => Entry::Lost {
            resource,
            token,
            told_us: steady_us(),
        },
        Err(error) => failed(&error),
    });
}

fn failed(error: &turno::Error) -> Entry {
    if error.is_unavailable() {
        return Entry::Unavailable;
    }
    Entry::Broken {
        error: format!("{error:?}"),
    }
}

fn owner() -> String {
    format!("{:032x}", fastrand::u128(..))
}

/// Microseconds of the steady clock that all processes of a machine share, asked of the kernel.
pub fn steady_us() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec * 1_000_000 + now.tv_nsec / 1_000
}
