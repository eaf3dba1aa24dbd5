//! `appsettings.json`, with the document's keys.

use std::path::Path;

use anyhow::{Context, Result};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Serialize};

/// Content of the file. Other sections are ignored.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Settings {
    #[serde(rename = "RabbitMQ")]
    pub(crate) rabbitmq: RabbitMqSettings,
}

/// Section `RabbitMQ`. Missing keys have the defaults of the document; unknown keys are an error.
#[derive(Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "PascalCase")]
pub(crate) struct RabbitMqSettings {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) username: String,
    pub(crate) password: String,
    pub(crate) exchange: String,
}

impl Default for RabbitMqSettings {
    fn default() -> Self {
        RabbitMqSettings {
            host: "localhost".to_owned(),
            port: 5672,
            username: "guest".to_owned(),
            password: "guest".to_owned(),
            exchange: "ticketflow.events".to_owned(),
        }
    }
}

impl Settings {
    pub(crate) fn read(file: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(file)
            .with_context(|| format!("could not read {}", file.display()))?;
        serde_json::from_str(&text).with_context(|| format!("{} is not valid", file.display()))
    }
}

impl RabbitMqSettings {
    /// Returns the broker's URL, on the virtual host `/`.
    pub(crate) fn url(&self) -> String {
        let escaped = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        let (user, password) = (escaped(&self.username), escaped(&self.password));
        format!("amqp://{user}:{password}@{}:{}/%2f", self.host, self.port)
    }

    /// Returns the name of the consumers' queue.
    pub(crate) fn queue(&self) -> String {
        format!("{}.notifications", self.exchange)
    }

    /// Returns the exchange that rejected messages are routed to.
    pub(crate) fn dead_letter_exchange(&self) -> String {
        format!("{}.dlx", self.exchange)
    }

    /// Returns the queue in which they wait for an operator.
    pub(crate) fn dead_letter_queue(&self) -> String {
        format!("{}.dlq", self.queue())
    }
}
