//! Shared by the RabbitMQ sink and the consumer: address, connection, and classification of errors.

pub(crate) mod address;
pub(crate) mod fault;
pub(crate) mod link;

pub(crate) use address::Address;
pub(crate) use link::Link;
