//! An item before it is pushed.

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use crate::check;
use crate::error::{Error, Kind, Result};
use crate::store::{DEFAULT_ATTEMPTS, DEFAULT_PRIORITY, Due, NewItem};

/// An item to be pushed: a payload and its options.
///
/// A reference to anything that serde can serialize converts into an item, so [`Inbox::push`](super::Inbox::push) takes
/// either. A payload that cannot be serialized is reported by the push, not by the constructor.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> turno::Result<()> {
/// use std::time::Duration;
/// use turno::Turno;
/// use turno::inbox::Item;
///
/// let inbox = Turno::connect("sqlite::memory:").await?.inbox("mail");
/// let welcome = Item::new("welcome").unique_key("welcome/42").delay(Duration::from_secs(60));
/// assert!(!inbox.push(welcome.clone()).await?.duplicate);
/// assert!(inbox.push(welcome).await?.duplicate);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[must_use = "it is not pushed yet"]
pub struct Item {
    new: NewItem,
    /// Whether the payload could be written as JSON.
    payload: Result<()>,
}

impl<T: Serialize + ?Sized> From<&T> for Item {
    fn from(payload: &T) -> Self {
        Item::new(payload)
    }
}

impl Item {
    /// Creates an item whose payload is serialized as JSON.
    ///
    /// ```
    /// use turno::inbox::Item;
    ///
    /// let item = Item::new(&serde_json::json!({"to": "ana"}));
    /// assert!(item.payload_error().is_none());
    /// ```
    pub fn new<T: Serialize + ?Sized>(payload: &T) -> Self {
        match serde_json::to_string(payload) {
            Ok(text) => Item::with(text, Ok(())),
            Err(error) => Item::with(
                String::new(),
                Err(Error::caused(
                    Kind::invalid("payload"),
                    format!(
                        "payload cannot be written as JSON ({error}): use types that serde_json can write"
                    ),
                    error,
                )),
            ),
        }
    }

    /// Creates an item from a payload that is JSON text. The text is stored unchanged.
    ///
    /// ```
    /// use turno::inbox::Item;
    ///
    /// assert!(Item::from_json(r#"{"to": "ana"}"#).payload_error().is_none());
    /// assert!(Item::from_json("no JSON").payload_error().is_some());
    /// ```
    pub fn from_json(text: impl Into<String>) -> Self {
        let text = text.into();
        let payload = serde_json::from_str::<serde::de::IgnoredAny>(&text)
            .map(drop)
            .map_err(|error| {
                Error::caused(
                    Kind::invalid("payload"),
                    format!("payload is not JSON ({error}): quote a plain text, as in '\"hello\"'"),
                    error,
                )
            });
        Item::with(text, payload)
    }

    fn with(text: String, payload: Result<()>) -> Self {
        Item {
            new: NewItem {
                payload: text,
                key: None,
                label: None,
                priority: DEFAULT_PRIORITY,
                due: None,
                group: None,
                max_attempts: DEFAULT_ATTEMPTS,
            },
            payload,
        }
    }

    /// Returns why the payload is invalid, if it is. A push returns the same error.
    pub fn payload_error(&self) -> Option<&Error> {
        self.payload.as_ref().err()
    }

    /// Sets the unique key: a second push with the same key to the same queue is a duplicate and stores nothing, while the
    /// first item exists and while the record of its completion is kept. At most 255 bytes. Default: none.
    pub fn unique_key(mut self, key: impl Into<String>) -> Self {
        self.new.key = Some(key.into());
        self
    }

    /// Sets the priority, from 0 (claimed first) to 3. Default: 1.
    pub fn priority(mut self, priority: u8) -> Self {
        self.new.priority = priority;
        self
    }

    /// Makes the item claimable this long after the push, at most ten years. Default: at once.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.new.due = Some(Due::After(delay));
        self
    }

    /// Makes the item claimable at this time of the store's clock, before the year 2200. Default: at once.
    pub fn at(mut self, time: Timestamp) -> Self {
        self.new.due = Some(Due::At(time));
        self
    }

    /// Sets the group, at most 255 bytes. Items of one group are processed one at a time, in the order of their pushes. Default:
    /// none.
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.new.group = Some(group.into());
        self
    }

    /// Sets the number of attempts after which the item counts as failed, 1 to 1000. Default: 5.
    pub fn max_attempts(mut self, attempts: u16) -> Self {
        self.new.max_attempts = attempts;
        self
    }

    pub(super) fn check(&self, max_payload: usize) -> Result<()> {
        self.payload.clone()?;
        check::item(&self.new, max_payload)
    }

    /// Returns the item as stores take it, if it is valid.
    pub(crate) fn into_checked(self, max_payload: usize) -> Result<NewItem> {
        self.check(max_payload)?;
        Ok(self.new)
    }
}
