//! RequestLimits on the requests in flight, and on the requests per second of each caller.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use governor::clock::{Clock as _, DefaultClock};
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use turno::problem::ProblemCode;

use super::listener::Peer;
use super::problem::Problem;

/// Maximum number of callers with their own rate limit. All others share one.
const MAX_RATE_KEYS: usize = 100_000;
/// How often inactive callers are removed while there are too many.
const CLEANUP_INTERVAL: Duration = Duration::from_secs(1);

/// RateKey of the rate limit.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum RateKey {
    /// An access token, by its id.
    Token(Arc<str>),
    /// A network address, for callers without a token.
    Net(IpAddr),
    /// All other callers.
    Others,
}

impl RateKey {
    pub(crate) fn of(peer: Peer) -> Self {
        RateKey::Net(Self::net(peer))
    }

    /// Returns the address of a host; for IPv6 its /64 network, because one host has many addresses.
    pub(crate) fn net(peer: Peer) -> IpAddr {
        match peer.0.ip().to_canonical() {
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                IpAddr::from([a, b, c, d, 0, 0, 0, 0])
            }
            address => address,
        }
    }
}

type Rate = RateLimiter<RateKey, HashMapStateStore<RateKey>, DefaultClock>;

/// Limits of a server, and their current use.
pub(crate) struct RequestLimits {
    in_flight: Arc<Semaphore>,
    rate: Option<Rate>,
    /// When inactive callers were last removed.
    cleaned_up: Mutex<Instant>,
}

impl RequestLimits {
    pub(crate) fn new(max_in_flight: usize, per_second: Option<u32>) -> Self {
        let max_in_flight = max_in_flight.clamp(1, Semaphore::MAX_PERMITS);
        let rate = per_second.map(|rate| {
            let rate = NonZeroU32::new(rate).unwrap_or(NonZeroU32::MIN);
            RateLimiter::keyed(Quota::per_second(rate))
        });
        RequestLimits {
            in_flight: Arc::new(Semaphore::new(max_in_flight)),
            rate,
            cleaned_up: Mutex::new(Instant::now()),
        }
    }

    /// Admits one more request in flight, until the permit is dropped.
    pub(crate) fn enter(&self) -> Result<OwnedSemaphorePermit, Problem> {
        self.in_flight
            .clone()
            .try_acquire_owned()
            .map_err(|_| Problem::new(ProblemCode::Overloaded))
    }

    /// Counts one more request of a caller against its rate limit.
    pub(crate) fn count(&self, key: RateKey) -> Result<(), Problem> {
        let Some(rate) = &self.rate else {
            return Ok(());
        };
        if rate.len() >= MAX_RATE_KEYS && self.is_cleanup_due() {
            rate.retain_recent();
        }
        let key = if rate.len() >= MAX_RATE_KEYS {
            RateKey::Others
        } else {
            key
        };
        rate.check_key(&key).map_err(|not_until| {
            let wait = not_until.wait_time_from(rate.clock().now());
            Problem::new(ProblemCode::RateLimited).retry_after(wait)
        })
    }

    /// At most once per second, because it is slow.
    fn is_cleanup_due(&self) -> bool {
        let mut cleaned_up = self
            .cleaned_up
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let is_time = cleaned_up.elapsed() >= CLEANUP_INTERVAL;
        if is_time {
            *cleaned_up = Instant::now();
        }
        is_time
    }
}
