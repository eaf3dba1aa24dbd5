//! Outbox: tickets whose events reach RabbitMQ if and only if they are committed.

fn main() {}
