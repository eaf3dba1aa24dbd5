//! Limits on the requests in flight, and on the requests per second of each caller.

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

/// Maximum number of callers with their own rate limit. All others share one.
const MOST_KEYS: usize = 100_000;
/// How often inactive callers are removed while there are too many.
const TIDY: Duration = Duration::from_secs(1);

/// Key of the rate limit.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Key {
    /// An access token, by its id.
    Token(Arc<str>),
    /// A network address, for callers without a token.
    Net(IpAddr),
    /// All other callers.
    Others,
}

impl Key {
    pub(super) fn of(peer: Peer) -> Self {
        Key::Net(Self::net(peer))
    }

    /// Returns the address of a host; for IPv6 its /64 network, because one host has many addresses.
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
    /// When inactive callers were last removed.
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

    /// Admits one more request in flight, until the permit is dropped.
    pub(super) fn enter(&self) -> Result<OwnedSemaphorePermit, Problem> {
        self.in_flight
            .clone()
            .try_acquire_owned()
            .map_err(|_| Problem::new(Code::Overloaded))
    }

    /// Counts one more request of a caller against its rate limit.
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

    /// At most once per second, because it is slow.
    fn is_time_to_tidy(&self) -> bool {
        let mut tidied = self.tidied.lock().unwrap_or_else(PoisonError::into_inner);
        let is_time = tidied.elapsed() >= TIDY;
        if is_time {
            *tidied = Instant::now();
        }
        is_time
    }
}
