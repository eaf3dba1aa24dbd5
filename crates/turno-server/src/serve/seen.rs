//! Cache of recent token verifications, so that neither load nor brute force reaches the store with every request.

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

/// How long a valid token is cached. A revocation takes effect after this time at the latest.
const GOOD: Duration = Duration::from_secs(5);
/// How long an invalid token is cached.
const WRONG: Duration = Duration::from_secs(1);
/// Timeout of a verification.
pub(super) const SHORT: Duration = Duration::from_secs(5);
/// Maximum number of cached tokens, and of addresses with invalid tokens.
const MOST: usize = 10_000;
/// Maximum number of concurrent verifications, so that brute force does not take the store away from other work.
const AT_ONCE: usize = 4;
/// Number of invalid tokens that one address may send within this period. After that, its new tokens are verified one at a time,
/// in a queue of their own. They are still verified: one address may have many clients, and a valid token among invalid ones.
const GUESSES: (u32, Duration) = (100, Duration::from_secs(10));

/// The cache stores hashes, so that a token that was sent once does not stay in the memory of this process.
type Hash = [u8; 32];

pub(super) struct Seen {
    entries: Mutex<HashMap<Hash, Arc<Turns<Option<Found>>>>>,
    guesses: Mutex<HashMap<IpAddr, (u32, Instant)>>,
    looks: Semaphore,
    /// For addresses that have sent many invalid tokens.
    slow_looks: Semaphore,
}

/// Result of a verification, and its time.
struct Found {
    at: Instant,
    said: Said,
}

enum Said {
    Good(Admitted),
    Wrong,
    /// The store was unavailable or was not queried. Callers that waited for the same verification get the same error at once.
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
    /// Returns the caller of a token.
    pub(super) async fn admit(
        &self,
        turno: &Turno,
        text: &str,
        peer: Peer,
    ) -> Result<Admitted, Problem> {
        let entry = self.entry(Sha256::digest(text.as_bytes()).into());
        // Requests with the same token wait for the result of this verification.
        let mut found = entry.lock().await;
        let known = match found.take() {
            Some(known) if known.is_fresh() => known,
            before => {
                // Brute force must not lock out callers at the same address that were authenticated before.
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
            // The time before the query: the token may have been revoked while the response was on its way.
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
            // Entries whose verification is running are dropped here too. The requests that wait for them hold a reference.
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

    /// Returns how long an address stays in the slow queue; `None` if it is not in it.
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
