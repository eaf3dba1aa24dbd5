//! The access tokens that were shown lately, and what the store said of them: neither a busy caller nor somebody who guesses
//! makes the store look each time.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tokio::sync::{Mutex as Turns, Semaphore};
use tokio::time::Instant;
use turno::Turno;
use turno::access::AccessView;

use super::access::{Admitted, within};
use super::caller::Caller;
use super::limit::Key;
use super::listen::Peer;
use super::problem::Problem;
use super::words::Code;

/// How long a good token is good without a look: revoking one holds after this.
const GOOD: Duration = Duration::from_secs(5);
/// How long a wrong one is wrong.
const WRONG: Duration = Duration::from_secs(1);
/// The longest look.
pub(super) const SHORT: Duration = Duration::from_secs(5);
/// How many are remembered, and how many addresses that guess.
const MOST: usize = 10_000;
/// How many looks go on at once: those who guess do not take the store from those who work.
const AT_ONCE: usize = 4;
/// How many wrong tokens one address may show in a while before its new ones are looked at one by one, behind all others. They
/// are still looked at: behind one address there may be many clients, and a right token among the wrong ones.
const GUESSES: (u32, Duration) = (100, Duration::from_secs(10));

/// What is remembered is a hash: nobody finds a token in this process's memory because it was shown once.
type Hash = [u8; 32];

pub(super) struct Seen {
    entries: Mutex<HashMap<Hash, Arc<Turns<Option<Found>>>>>,
    guesses: Mutex<HashMap<IpAddr, (u32, Instant)>>,
    looks: Semaphore,
    /// The looks for addresses that have shown many wrong tokens.
    slow_looks: Semaphore,
}

/// What the store said, and when it was asked.
struct Found {
    at: Instant,
    said: Said,
}

enum Said {
    Good(Admitted),
    Wrong,
    /// It did not answer, or was not asked: those who wait for the same look are told so too, and not one after the other.
    Nothing(Problem),
}

impl Found {
    fn is_fresh(&self) -> bool {
        let good_for = if self.is_good() { GOOD } else { WRONG };
        self.at.elapsed() < good_for
    }

    fn is_good(&self) -> bool {
        matches!(self.said, Said::Good(_))
    }
}

impl Default for Seen {
    fn default() -> Self {
        Seen {
            entries: Mutex::default(),
            guesses: Mutex::default(),
            looks: Semaphore::new(AT_ONCE),
            slow_looks: Semaphore::new(1),
        }
    }
}

impl Seen {
    /// Whose token this is.
    pub(super) async fn admit(
        &self,
        turno: &Turno,
        text: &str,
        peer: Peer,
    ) -> Result<Admitted, Problem> {
        let entry = self.entry(Sha256::digest(text.as_bytes()).into());
        // Whoever shows the same token meanwhile waits for what this look finds.
        let mut found = entry.lock().await;
        let known = match found.take() {
            Some(known) if known.is_fresh() => known,
            before => {
                // Whoever guesses must not lock out others at the same address who were in before.
                let was_good = before.is_some_and(|before| before.is_good());
                let stranger = (!was_good).then(|| Key::net(peer));
                self.look(turno, text, stranger).await
            }
        };
        match &found.insert(known).said {
            Said::Good(admitted) => Ok(admitted.clone()),
            Said::Wrong => Err(Problem::new(Code::Unauthorized)),
            Said::Nothing(problem) => Err(problem.clone()),
        }
    }

    async fn look(&self, turno: &Turno, text: &str, stranger: Option<IpAddr>) -> Found {
        let asked = Instant::now();
        let slow = stranger.and_then(|net| self.slowed_for(net));
        let looks = if slow.is_some() {
            &self.slow_looks
        } else {
            &self.looks
        };
        let look = within(async {
            let _turn = looks.acquire().await;
            turno.access_verify(text).await
        });
        let (at, said) = match (look.await, slow) {
            // Counted from before it was asked: it may have been revoked while the answer came.
            (Ok(Some(view)), _) => (asked, Said::Good(admitted(view))),
            (Ok(None), _) => {
                stranger.inspect(|net| self.guessed(*net));
                (Instant::now(), Said::Wrong)
            }
            (Err(error), Some(wait)) if error.is_unavailable() => {
                (Instant::now(), Said::Nothing(too_many(wait)))
            }
            (Err(error), _) => (Instant::now(), Said::Nothing(error.into())),
        };
        Found { at, said }
    }

    fn entry(&self, hash: Hash) -> Arc<Turns<Option<Found>>> {
        let mut entries = lock(&self.entries);
        if let Some(entry) = entries.get(&hash) {
            return entry.clone();
        }
        if entries.len() >= MOST {
            // Those that are being looked at are in somebody's hand, and fill themselves.
            entries.retain(|_, entry| {
                let found = entry.try_lock();
                found.is_ok_and(|found| {
                    found
                        .as_ref()
                        .is_some_and(|it| it.is_fresh() && it.is_good())
                })
            });
        }
        if entries.len() >= MOST {
            entries.clear();
        }
        entries.entry(hash).or_default().clone()
    }

    /// For how long an address is behind all others; `None` if it is not.
    fn slowed_for(&self, net: IpAddr) -> Option<Duration> {
        let guesses = lock(&self.guesses);
        let (many, since) = guesses.get(&net)?;
        let left = GUESSES.1.checked_sub(since.elapsed())?;
        (*many >= GUESSES.0).then_some(left)
    }

    fn guessed(&self, net: IpAddr) {
        let mut guesses = lock(&self.guesses);
        if guesses.len() >= MOST {
            guesses.retain(|_, (_, since)| since.elapsed() < GUESSES.1);
        }
        if guesses.len() >= MOST {
            guesses.clear();
        }
        let (many, since) = guesses.entry(net).or_insert((0, Instant::now()));
        if since.elapsed() >= GUESSES.1 {
            (*many, *since) = (0, Instant::now());
        }
        *many += 1;
    }
}

fn too_many(wait: Duration) -> Problem {
    Problem::new(Code::RateLimited)
        .because(
            "too many wrong access tokens came from this address: wait as long as Retry-After says",
        )
        .retry_after(wait)
}

fn admitted(view: AccessView) -> Admitted {
    Admitted {
        caller: Caller::new(&view.name, view.role, &view.prefix),
        key: Key::Token(view.id.into()),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
