//! What the RabbitMQ sink and the consumer share: an address, a connection, and what its faults mean.

pub(crate) mod address;
pub(crate) mod fault;
pub(crate) mod link;

pub(crate) use address::Address;
pub(crate) use link::Link;
