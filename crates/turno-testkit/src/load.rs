//! Load for fault tests: tasks that acquire locks, also reentrantly, release them, and record the results.
//!
//! Each call is recorded before the request is sent and after the response has arrived. This is enough to check a whole run
//! afterwards, even if the process was killed in between.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use turno::Turno;
use turno::lock::{Acquire, Lease, Lock, ReleaseOutcome};

/// TTL of a shared resource's lock. Short, because the lock of a killed holder blocks the others for this long.
const SHARED_TTL: Duration = Duration::from_secs(1);

/// How long a task waits for the lock of a shared resource.
const SHARED_WAIT: Duration = Duration::from_millis(100);

/// TTL of a lock that is kept to check that it survives a crash: longer than any test.
const KEPT_TTL: Duration = Duration::from_secs(3600);

/// Prefix of resources that only one owner ever acquires.
pub const KEPT: &str = "kept/";

/// One record of a task's log. Times are microseconds of the machine's monotonic clock, which all processes share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Entry {
    /// An acquire is about to be sent.
    Asking {
        /// Resource to acquire.
        resource: String,
    },
    /// An acquire returned a lease.
    Granted {
        /// Acquired resource.
        resource: String,
        /// Fencing token.
        token: i64,
        /// Number of holds of the owner.
        holds: u32,
        /// Time of the request.
        asked_us: i64,
        /// Time of the response.
        answered_us: i64,
        /// Requested TTL.
        ttl_us: i64,
    },
    /// A release is about to be sent.
    Releasing {
        /// Resource to release.
        resource: String,
        /// The lease's token.
        token: i64,
        /// Time of the request.
        asked_us: i64,
    },
    /// A release was successful.
    Released {
        /// Released resource.
        resource: String,
        /// The lease's token.
        token: i64,
        /// Number of remaining holds of the owner.
        holds: u32,
    },
    /// A release returned that the lease is lost.
    Lost {
        /// Resource to release.
        resource: String,
        /// The lease's token.
        token: i64,
        /// Time of the response.
        answered_us: i64,
    },
    /// A call failed because the store was unavailable.
    Unavailable,
    /// A call failed in a way that an outage does not explain.
    Broken {
        /// Text of the error.
        error: String,
    },
}

/// Parameters of a load.
#[derive(Debug, Clone)]
pub struct Load {
    /// Name, unique among the loads on the same store, without spaces.
    pub name: String,
    /// Number of concurrent tasks.
    pub tasks: usize,
    /// Number of resources that these tasks share with all other loads on the store.
    pub shared: usize,
}

/// Runs a load until `stop`. Each step is passed to `note` before its request and after its response.
///
/// The load neither reconnects nor retries: the library has to survive an outage.
///
/// Not cancel-safe: on drop, it aborts its tasks at any point, as a crash does.
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

/// Acquires a shared resource, sometimes reentrantly, and releases all holds.
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

/// Acquires an exclusive resource twice, releases one hold, and keeps the other.
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
                answered_us: steady_us(),
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
            answered_us: steady_us(),
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

/// Returns microseconds of the monotonic clock that all processes of a machine share, from the kernel.
pub fn steady_us() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec * 1_000_000 + now.tv_nsec / 1_000
}
