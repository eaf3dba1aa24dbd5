//! Options of a gate, with their defaults.

use std::time::Duration;

use turno::once::Identities;

/// Default of [`Options::answer_timeout`].
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// Default of [`Options::body_timeout`].
pub const BODY_TIMEOUT: Duration = Duration::from_secs(60);
/// Default of [`Options::stream_timeout`].
pub const STREAM_TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// Default of [`Options::drain`].
pub const DRAIN: Duration = Duration::from_secs(30);
/// Default of [`Options::max_connections`].
pub const MAX_CONNECTIONS: usize = 1024;

/// Which `Host` header the service gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HostHeader {
    /// The client's `Host` header.
    #[default]
    Client,
    /// Host and port of the upstream's address.
    Upstream,
}

/// Options of a gate.
#[derive(Debug, Clone)]
pub struct Options {
    /// How once keys are derived from requests. All gates of one service need the same secret.
    pub identities: Identities,
    /// Which `Host` header the service gets. A service that speaks HTTP/2 always gets its own.
    pub host: HostHeader,
    /// Timeout for the head of the service's response and, under a policy, for each further part. The claim is extended
    /// meanwhile. Default: 60 seconds.
    pub answer_timeout: Duration,
    /// How long a client may send nothing of its body before the response begins; then it gets 408. Under a policy, the policy's
    /// `body_timeout` limits the whole body. Default: 60 seconds.
    pub body_timeout: Duration,
    /// For routes without a policy: how long the service may send nothing of its response, the client may send nothing more of
    /// its body, and the client may read nothing. Default: 10 minutes.
    pub stream_timeout: Duration,
    /// How long requests in flight may take to end at shutdown. Default: 30 seconds.
    pub drain: Duration,
    /// Maximum number of connected clients. Further clients wait. Default: 1024.
    pub max_connections: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            identities: Identities::new(),
            host: HostHeader::Client,
            answer_timeout: ANSWER_TIMEOUT,
            body_timeout: BODY_TIMEOUT,
            stream_timeout: STREAM_TIMEOUT,
            drain: DRAIN,
            max_connections: MAX_CONNECTIONS,
        }
    }
}
