//! Live state of the store for `GET /v1/stream`.

pub(crate) mod diff;
pub(crate) mod feed;
pub(crate) mod frame;
pub(crate) mod poller;
pub(crate) mod subscriber;
