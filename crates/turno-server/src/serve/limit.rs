//! How much is let in: so many requests in flight, and of each caller so many a second.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use governor::clock::{Clock as _, DefaultClock};
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::Options;
use super::listen::Peer;
use super::problem::Problem;
use super::words::Code;

/// How many callers are told apart; those beyond are counted as one.
const MOST_KEYS: usize = 100_000;
/// How often those are forgotten who have not asked lately, if there are too many.
const TIDY: Duration = Duration::from_secs(1);

/// Whose requests are counted together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Key {
    /// One access token's, by its id.
    Token(Arc<str>),
    /// One address's, where there are no tokens.
    Net(IpAddr),
    /// All others'.
    Others,
}

impl Key {
    pub(super) fn of(peer: Peer) -> Self {
        Key::Net(Self::net(peer))
    }

    /// The address, as far as it tells one host from others: of IPv6, each has as many as it likes.
    pub(super) fn net(peer: Peer) -> IpAddr {
        match peer.0.ip().to_canonical() {
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                IpAddr::from([a, b, c, d, 0, 0, 0, 0])
            }
            address => address,
        }
    }
}

type Rate = RateLimiter<Key, HashMapStateStore<Key>, DefaultClock>;

pub(super) struct Limits {
    in_flight: Arc<Semaphore>,
    rate: Option<Rate>,
    /// When callers were last forgotten who have not asked lately.
    tidied: Mutex<Instant>,
}

impl Limits {
    pub(super) fn new(options: &Options) -> Self {
        let most = options.max_in_flight.clamp(1, Semaphore::MAX_PERMITS);
        let rate = options.rate.map(|rate| {
            let rate = NonZeroU32::new(rate).unwrap_or(NonZeroU32::MIN);
            RateLimiter::keyed(Quota::per_second(rate))
        });
        Limits {
            in_flight: Arc::new(Semaphore::new(most)),
            rate,
            tidied: Mutex::new(Instant::now()),
        }
    }

    /// Room for one more request, until this is dropped.
    pub(super) fn enter(&self) -> Result<OwnedSemaphorePermit, Problem> {
        self.in_flight
            .clone()
            .try_acquire_owned()
            .map_err(|_| Problem::new(Code::Overloaded))
    }

    /// Counts one more request of a caller.
    pub(super) fn count(&self, key: Key) -> Result<(), Problem> {
        let Some(rate) = &self.rate else {
            return Ok(());
        };
        if rate.len() >= MOST_KEYS && self.is_time_to_tidy() {
            rate.retain_recent();
        }
        let key = if rate.len() >= MOST_KEYS {
            Key::Others
        } else {
            key
        };
        rate.check_key(&key).map_err(|not_until| {
            let wait = not_until.wait_time_from(rate.clock().now());
            Problem::new(Code::RateLimited).retry_after(wait)
        })
    }

    /// At most once a second: it takes time.
    fn is_time_to_tidy(&self) -> bool {
        let mut tidied = self.tidied.lock().unwrap_or_else(PoisonError::into_inner);
        let is_time = tidied.elapsed() >= TIDY;
        if is_time {
            *tidied = Instant::now();
        }
        is_time
    }
}
