//! An item on its way into a queue.

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use crate::error::{Error, Kind, Result};
use crate::store::{DEFAULT_ATTEMPTS, DEFAULT_PRIORITY, Due, NewItem};

/// An item to be pushed: its payload, and what is special about it.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> turno::Result<()> {
/// use std::time::Duration;
/// use turno::Turno;
/// use turno::inbox::Item;
///
/// let inbox = Turno::connect("sqlite::memory:").await?.inbox("mail");
/// let item = || Item::new("welcome").map(|item| item.key("welcome/42").delay(Duration::from_secs(60)));
/// assert!(!inbox.push_item(item()?).await?.duplicate);
/// assert!(inbox.push_item(item()?).await?.duplicate);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[must_use = "it is not pushed yet"]
pub struct Item {
    pub(crate) new: NewItem,
}

impl Item {
    /// An item with a payload that serde can write as JSON.
    ///
    /// # Errors
    /// If it cannot.
    pub fn new<T: Serialize + ?Sized>(payload: &T) -> Result<Self> {
        let json = serde_json::to_string(payload).map_err(|error| {
            Error::caused(
                Kind::invalid("payload"),
                format!("payload cannot be written as JSON ({error}): use types that serde_json can write"),
                error,
            )
        })?;
        Ok(Item::of(json))
    }

    /// An item whose payload is JSON text already.
    ///
    /// # Errors
    /// If it is not.
    pub fn json(text: impl Into<String>) -> Result<Self> {
        let text = text.into();
        match serde_json::from_str::<serde::de::IgnoredAny>(&text) {
            Ok(_) => Ok(Item::of(text)),
            Err(error) => Err(Error::caused(
                Kind::invalid("payload"),
                format!("payload is not JSON ({error}): quote a plain text, as in '\"hello\"'"),
                error,
            )),
        }
    }

    fn of(payload: String) -> Self {
        Item {
            new: NewItem {
                payload,
                key: None,
                label: None,
                priority: DEFAULT_PRIORITY,
                due: None,
                group: None,
                max_attempts: DEFAULT_ATTEMPTS,
            },
        }
    }

    /// Pushed again with the same key, it is answered as a duplicate and not stored again: for as long as the
    /// first one is in the queue, and then as long as the record of its completion is kept.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.new.key = Some(key.into());
        self
    }

    /// From 0, the most urgent, to 3; 1 otherwise.
    pub fn priority(mut self, priority: u8) -> Self {
        self.new.priority = priority;
        self
    }

    /// Not before this long after the push.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.new.due = Some(Due::After(delay));
        self
    }

    /// Not before this time, on the store's clock.
    pub fn at(mut self, time: Timestamp) -> Self {
        self.new.due = Some(Due::At(time));
        self
    }

    /// Items of one group run one at a time, in the order of their pushes.
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.new.group = Some(group.into());
        self
    }

    /// After this many attempts it is set aside as failed; 5 otherwise.
    pub fn max_attempts(mut self, attempts: u16) -> Self {
        self.new.max_attempts = attempts;
        self
    }
}
