//! A broker, and access to its queues.

use std::sync::LazyLock;

use lapin::message::Delivery;
use lapin::options::{
    BasicAckOptions, BasicGetOptions, ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Channel, Connection, ConnectionProperties, ExchangeKind};
use turno_testkit::server;

use crate::unique;

/// Maximum message size of the shared broker, in bytes.
pub const MAX_MESSAGE: usize = 65_536;

/// Returns the broker that is shared by tests that do not damage it.
pub fn shared() -> &'static server::RabbitMq {
    static SHARED: LazyLock<server::RabbitMq> = LazyLock::new(|| {
        server::RabbitMq::start_with(&format!("max_message_size = {MAX_MESSAGE}\n")).unwrap()
    });
    &SHARED
}

/// An exchange with a queue, as seen by an operator.
pub struct Desk {
    _connection: Connection,
    pub channel: Channel,
    pub exchange: String,
    pub queue: String,
}

impl Desk {
    /// Creates an exchange, and a quorum queue that is bound to it for `pattern`.
    pub async fn open(url: &str, pattern: &str) -> Desk {
        Self::open_with(url, pattern, FieldTable::default()).await
    }

    pub async fn open_with(url: &str, pattern: &str, mut arguments: FieldTable) -> Desk {
        let mut desk = Self::connect(url, unique("events"), unique("queue")).await;
        if !arguments.contains_key("x-queue-type") {
            arguments.insert("x-queue-type".into(), text("quorum"));
        }
        let channel = &mut desk.channel;
        let durable = ExchangeDeclareOptions {
            durable: true,
            ..Default::default()
        };
        let exchange = desk.exchange.as_str();
        channel
            .exchange_declare(
                exchange.into(),
                ExchangeKind::Topic,
                durable,
                FieldTable::default(),
            )
            .await
            .unwrap();
        let queue = desk.queue.as_str();
        channel
            .queue_declare(queue.into(), QueueDeclareOptions::durable(), arguments)
            .await
            .unwrap();
        channel
            .queue_bind(
                queue.into(),
                exchange.into(),
                pattern.into(),
                QueueBindOptions::default(),
                FieldTable::default(),
            )
            .await
            .unwrap();
        desk
    }

    /// Connects to an existing exchange and queue.
    pub async fn connect(url: &str, exchange: String, queue: String) -> Desk {
        let connection = Connection::connect(url, ConnectionProperties::default())
            .await
            .unwrap();
        let channel = connection.create_channel().await.unwrap();
        Desk {
            _connection: connection,
            channel,
            exchange,
            queue,
        }
    }

    /// Takes the next message, if there is one.
    pub async fn take(&self) -> Option<Delivery> {
        let got = self
            .channel
            .basic_get(self.queue.as_str().into(), BasicGetOptions::default())
            .await
            .unwrap()?;
        got.delivery.ack(BasicAckOptions::default()).await.unwrap();
        Some(got.delivery)
    }

    /// Takes all messages, and returns their ids in order.
    pub async fn drain(&self) -> Vec<String> {
        let mut ids = Vec::new();
        while let Some(delivery) = self.take().await {
            ids.push(message_id(&delivery));
        }
        ids
    }
}

pub fn message_id(delivery: &Delivery) -> String {
    let id = delivery.properties.message_id().as_ref();
    id.expect("a message id").as_str().to_owned()
}

pub fn text(text: &str) -> AMQPValue {
    AMQPValue::LongString(text.into())
}
