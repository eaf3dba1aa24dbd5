//! Cache of recent token verifications, so that neither load nor brute force reaches the store with every request.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tokio::sync::{Mutex as AsyncMutex, Semaphore};
use tokio::time::Instant;
use turno::access::AccessView;
use turno::problem::ProblemCode;
use turno::{Error, Turno};

use super::caller::{Admitted, Caller};
use crate::http::listener::Peer;
use crate::http::problem::Problem;
use crate::http::rate_limit::RateKey;

/// How long a valid token is cached. A revocation takes effect after this time at the latest.
const VALID_TOKEN_TTL: Duration = Duration::from_secs(5);
/// How long an invalid token is cached.
const INVALID_TOKEN_TTL: Duration = Duration::from_secs(1);
/// Timeout of a verification.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of cached tokens, and of addresses with invalid tokens.
const MAX_ENTRIES: usize = 10_000;
/// Maximum number of concurrent verifications, so that brute force does not take the store away from other work.
const MAX_CONCURRENT_LOOKUPS: usize = 4;
/// Number of invalid tokens that one address may send within [`INVALID_TOKENS_PERIOD`]. After that, its new tokens are verified
/// one at a time, in a queue of their own. They are still verified: one address may have many clients, and a valid token among
/// invalid ones.
const MAX_INVALID_TOKENS: u32 = 100;
/// Period of [`MAX_INVALID_TOKENS`].
const INVALID_TOKENS_PERIOD: Duration = Duration::from_secs(10);

/// The cache stores hashes, so that a token that was sent once does not stay in the memory of this process.
type Hash = [u8; 32];

/// Cache of token verifications.
pub(crate) struct TokenCache {
    entries: Mutex<HashMap<Hash, Arc<AsyncMutex<Option<CacheEntry>>>>>,
    invalid_tokens: Mutex<HashMap<IpAddr, (u32, Instant)>>,
    lookups: Semaphore,
    /// For addresses that have sent many invalid tokens.
    slow_lookups: Semaphore,
}

/// Result of a verification, and its time.
struct CacheEntry {
    at: Instant,
    verdict: Verdict,
}

enum Verdict {
    Valid(Admitted),
    Invalid,
    /// The store was unavailable or was not queried. Callers that waited for the same verification get the same error at once.
    NotChecked(Problem),
}

impl CacheEntry {
    fn is_fresh(&self) -> bool {
        let ttl = if self.is_valid() {
            VALID_TOKEN_TTL
        } else {
            INVALID_TOKEN_TTL
        };
        self.at.elapsed() < ttl
    }

    fn is_valid(&self) -> bool {
        matches!(self.verdict, Verdict::Valid(_))
    }
}

impl Default for TokenCache {
    fn default() -> Self {
        TokenCache {
            entries: Mutex::default(),
            invalid_tokens: Mutex::default(),
            lookups: Semaphore::new(MAX_CONCURRENT_LOOKUPS),
            slow_lookups: Semaphore::new(1),
        }
    }
}

impl TokenCache {
    /// Returns the caller of a token.
    pub(crate) async fn admit(
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
                let was_valid = before.is_some_and(|before| before.is_valid());
                let unknown_net = (!was_valid).then(|| RateKey::net(peer));
                self.look_up(turno, text, unknown_net).await
            }
        };
        match &found.insert(known).verdict {
            Verdict::Valid(admitted) => Ok(admitted.clone()),
            Verdict::Invalid => Err(Problem::new(ProblemCode::Unauthorized)),
            Verdict::NotChecked(problem) => Err(problem.clone()),
        }
    }

    async fn look_up(&self, turno: &Turno, text: &str, unknown_net: Option<IpAddr>) -> CacheEntry {
        let began = Instant::now();
        let slow = unknown_net.and_then(|net| self.slowed_for(net));
        let lookups = if slow.is_some() {
            &self.slow_lookups
        } else {
            &self.lookups
        };
        let lookup = with_timeout(async {
            let _permit = lookups.acquire().await;
            turno.access_verify(text).await
        });
        let (at, verdict) = match (lookup.await, slow) {
            // The time before the query: the token may have been revoked while the response was on its way.
            (Ok(Some(view)), _) => (began, Verdict::Valid(admitted(view))),
            (Ok(None), _) => {
                unknown_net.inspect(|net| self.count_invalid(*net));
                (Instant::now(), Verdict::Invalid)
            }
            (Err(error), Some(wait)) if error.is_unavailable() => {
                (Instant::now(), Verdict::NotChecked(too_many(wait)))
            }
            (Err(error), _) => (Instant::now(), Verdict::NotChecked(error.into())),
        };
        CacheEntry { at, verdict }
    }

    fn entry(&self, hash: Hash) -> Arc<AsyncMutex<Option<CacheEntry>>> {
        let mut entries = lock(&self.entries);
        if let Some(entry) = entries.get(&hash) {
            return entry.clone();
        }
        if entries.len() >= MAX_ENTRIES {
            // Entries whose verification is running are dropped here too. The requests that wait for them hold a reference.
            entries.retain(|_, entry| {
                let found = entry.try_lock();
                found.is_ok_and(|found| {
                    found
                        .as_ref()
                        .is_some_and(|it| it.is_fresh() && it.is_valid())
                })
            });
        }
        if entries.len() >= MAX_ENTRIES {
            entries.clear();
        }
        entries.entry(hash).or_default().clone()
    }

    /// Returns how long an address stays in the slow queue; `None` if it is not in it.
    fn slowed_for(&self, net: IpAddr) -> Option<Duration> {
        let invalid_tokens = lock(&self.invalid_tokens);
        let (many, since) = invalid_tokens.get(&net)?;
        let left = INVALID_TOKENS_PERIOD.checked_sub(since.elapsed())?;
        (*many >= MAX_INVALID_TOKENS).then_some(left)
    }

    fn count_invalid(&self, net: IpAddr) {
        let mut invalid_tokens = lock(&self.invalid_tokens);
        if invalid_tokens.len() >= MAX_ENTRIES {
            invalid_tokens.retain(|_, (_, since)| since.elapsed() < INVALID_TOKENS_PERIOD);
        }
        if invalid_tokens.len() >= MAX_ENTRIES {
            invalid_tokens.clear();
        }
        let (many, since) = invalid_tokens.entry(net).or_insert((0, Instant::now()));
        if since.elapsed() >= INVALID_TOKENS_PERIOD {
            (*many, *since) = (0, Instant::now());
        }
        *many += 1;
    }
}

/// Applies a timeout to a lookup of the store, so that no request waits long for authentication.
pub(super) async fn with_timeout<T>(
    lookup: impl Future<Output = turno::Result<T>>,
) -> turno::Result<T> {
    match tokio::time::timeout(LOOKUP_TIMEOUT, lookup).await {
        Ok(found) => found,
        Err(_) => Err(Error::unavailable(
            "the store did not verify the access token in time",
        )),
    }
}

fn too_many(wait: Duration) -> Problem {
    Problem::new(ProblemCode::RateLimited)
        .because(
            "too many wrong access tokens came from this address: wait as long as Retry-After says",
        )
        .retry_after(wait)
}

fn admitted(view: AccessView) -> Admitted {
    Admitted {
        caller: Caller::new(&view.name, view.role, &view.prefix),
        rate_key: RateKey::Token(view.id.into()),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
