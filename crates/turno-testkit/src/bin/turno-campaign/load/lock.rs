//! Locks: exclusive, shared and with permits, renewed, entered again, guarded, released or left to expire.

use std::time::Duration;

use anyhow::Result;
use turno::lock::{Acquire, LeaseId, Lock, ReleaseOutcome, RenewOutcome};
use turno_testkit::history::lock::{Answer, Call, Mode};
use turno_testkit::history::{self, Pending};

use super::{Load, epoch, pause, unknown};
use crate::application::{Application, Ended, Part, Table, Wanted};

/// Resources of an epoch. The last ones are shared, or have permits.
const RESOURCES: usize = 8;
const FIRST_SHARED: usize = 5;
const PERMITS: usize = 7;
/// Leases are shorter than most pauses of a process.
const TTLS_MS: [u64; 3] = [200, 500, 1000];

pub async fn run(load: Load, task: usize) -> Result<()> {
    let mut application = Application::open(&load.url)?;
    let mut number = 0;
    while !load.stop.is_cancelled() {
        number += 1;
        let owner = super::unique(&load, task, number);
        hold(&load, &mut application, owner).await;
        pause().await;
    }
    Ok(())
}

/// One lease, from its acquire to its end.
async fn hold(load: &Load, application: &mut Application, owner: String) {
    // There have to be more callers than permits.
    let index = fastrand::usize(..RESOURCES + 3).min(PERMITS);
    let resource = format!("r{}-{index}", epoch());
    let mode = match index {
        PERMITS => Mode::Permits(3),
        FIRST_SHARED.. if fastrand::bool() => Mode::Shared,
        _ => Mode::Exclusive,
    };
    let ttl = Duration::from_millis(*fastrand::choice(&TTLS_MS).unwrap_or(&500));
    let held = Held {
        load,
        resource,
        owner,
        mode,
        ttl,
    };
    let Some(lease) = held.acquire(fastrand::bool()).await else {
        return;
    };
    for _ in 0..fastrand::usize(..4) {
        match fastrand::u8(..6) {
            0 => held.renew(&lease).await,
            // Another hold of the same owner.
            1 if mode == Mode::Exclusive => {
                if held.acquire(false).await.is_some() {
                    held.release(&lease).await;
                }
            }
            2..=4 => held.guarded(application, &lease).await,
            // Some leases expire while they are used.
            _ if fastrand::bool() => tokio::time::sleep(ttl / 3).await,
            _ => tokio::time::sleep(ttl + ttl / 4).await,
        }
    }
    // Some are never released.
    if fastrand::u8(..10) > 0 {
        held.release(&lease).await;
    }
}

struct Held<'a> {
    load: &'a Load,
    resource: String,
    owner: String,
    mode: Mode,
    ttl: Duration,
}

impl Held<'_> {
    fn lock(&self) -> Lock {
        let lock = self
            .load
            .turno
            .lock(&self.resource)
            .owner(&self.owner)
            .ttl(self.ttl);
        match self.mode {
            Mode::Exclusive => lock,
            Mode::Shared => lock.shared(),
            Mode::Permits(permits) => lock.permits(permits),
        }
    }

    fn ttl_us(&self) -> i64 {
        i64::try_from(self.ttl.as_micros()).unwrap_or(i64::MAX)
    }

    fn call(&self, call: Call) -> Pending {
        self.load.recorder.call(history::Call::Lock(call))
    }

    async fn acquire(&self, waits: bool) -> Option<LeaseId> {
        let mut lock = self.lock();
        if waits {
            lock = lock.wait(Duration::from_millis(100));
        }
        let pending = self.call(Call::Acquire {
            resource: self.resource.clone(),
            owner: self.owner.clone(),
            mode: self.mode,
            ttl_us: self.ttl_us(),
        });
        match lock.acquire().await {
            Ok(Acquire::Acquired(lease)) => {
                let (token, holds) = (lease.token().0, lease.grant().holds);
                record(pending, Answer::Granted { token, holds });
                Some(lease.detach())
            }
            Ok(Acquire::Busy(_)) => {
                record(pending, Answer::Busy);
                None
            }
            Err(error) => {
                pending.failed(&error);
                None
            }
        }
    }

    async fn renew(&self, lease: &LeaseId) {
        let pending = self.call(Call::Renew {
            resource: self.resource.clone(),
            token: lease.token.0,
            ttl_us: self.ttl_us(),
        });
        match self.lock().renew(lease.token).await {
            Ok(RenewOutcome::Renewed { .. }) => record(pending, Answer::Renewed),
            Ok(RenewOutcome::Lost) => record(pending, Answer::Lost),
            Err(error) => pending.failed(&error),
        }
    }

    async fn release(&self, lease: &LeaseId) {
        let pending = self.call(Call::Release {
            resource: self.resource.clone(),
            token: lease.token.0,
        });
        match self.lock().release(lease.token).await {
            Ok(ReleaseOutcome::Released { holds }) => record(pending, Answer::Released { holds }),
            Ok(ReleaseOutcome::Lost) => record(pending, Answer::Lost),
            Err(error) => pending.failed(&error),
        }
    }

    async fn guarded(&self, application: &mut Application, lease: &LeaseId) {
        let pending = self.call(Call::Guarded {
            resource: self.resource.clone(),
            token: lease.token.0,
        });
        let token = lease.token.to_string();
        let part = Part::Guard(lease);
        let written = application
            .write(Table::Guarded, &self.resource, &token, part, Wanted::Commit)
            .await;
        match written {
            Ok(Ended::Committed { .. }) => record(pending, Answer::Committed),
            Ok(Ended::Lost | Ended::RolledBack) => record(pending, Answer::Lost),
            Err(error) => unknown(pending, &error),
        }
    }
}

fn record(pending: Pending, answer: Answer) {
    pending.answer(history::Answer::Lock(answer));
}
