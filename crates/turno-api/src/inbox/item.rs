//! Items: parameters, outcomes, views and bodies of push and list.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::duration::WireDuration;
use crate::ids::ItemId;
use crate::json::JsonText;
use crate::names::named;
#[cfg(feature = "schema")]
use crate::openapi_types::{Json, Name};
use crate::request::request;

/// An item to push.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewItem {
    /// The payload, as JSON text.
    pub payload: String,
    /// The unique key: at most one item with this key exists in the queue, for as long as the item or the record of its
    /// completion exists.
    pub key: Option<String>,
    /// Stored in the key's place when there is no key; not unique. The outbox stores an event's id here.
    pub label: Option<String>,
    /// The priority: 0 is claimed first, 3 last.
    pub priority: u8,
    /// The due time. Default: at once.
    pub due: Option<Due>,
    /// Items of one group are processed in the order of their pushes, one at a time.
    pub group: Option<String>,
    /// Maximum number of attempts; then the item has failed. 0 is no limit, for events of the outbox only.
    pub max_attempts: u16,
}

/// When an item may be claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// This long after the push, on the store's clock.
    After(Duration),
    /// At this time, on the store's clock.
    At(Timestamp),
}

/// Parameters of `InboxStore::inbox_push`.
#[derive(Debug, Clone)]
pub struct InboxPush {
    /// The queue.
    pub queue: String,
    /// The items, in order.
    pub items: Vec<NewItem>,
    /// The request id: a repeated call changes nothing.
    pub request: Uuid,
}

/// The outcome of one pushed item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PushedItem {
    /// The item's id; that of the existing item, if it is a duplicate.
    pub id: ItemId,
    /// Whether an item with this key existed already.
    pub duplicate: bool,
}

named! {
    /// The state of an item.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
    #[serde(rename_all = "snake_case")]
    pub enum ItemState as "state" {
        /// Waiting for a worker.
        Pending = "pending",
        /// Waiting for its due time.
        Scheduled = "scheduled",
        /// Claimed by a worker.
        Processing = "processing",
        /// Completed.
        Completed = "completed",
        /// Failed: no attempts left.
        Failed = "failed",
    }
}

/// Parameters of `InboxStore::inbox_list`.
#[derive(Debug, Clone)]
pub struct InboxList {
    /// The queue.
    pub queue: String,
    /// Only items in this state.
    pub state: ItemState,
    /// The last item of the previous page.
    pub after: Option<ItemId>,
    /// The size of the page.
    pub limit: u32,
}

/// An item of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ItemView {
    /// The item's id.
    pub id: ItemId,
    /// The state.
    pub state: ItemState,
    /// The payload; not kept for a completed item.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::json::present"
    )]
    #[cfg_attr(feature = "schema", schema(value_type = Json, required = false))]
    pub payload: Option<JsonText>,
    /// The unique key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The priority: 0 is claimed first, 3 last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    /// Number of attempts that failed or were abandoned.
    pub attempts: u32,
    /// Number of attempts that were abandoned: the claim expired.
    pub abandoned: u32,
    /// The worker that processes the item, or did last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// When the item was pushed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pushed_at: Option<Timestamp>,
    /// When the state began; for a scheduled item, its due time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// The last errors, oldest first.
    pub errors: Vec<AttemptError>,
}

/// The error of one attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct AttemptError {
    /// The attempt, counted from one.
    pub attempt: u32,
    /// When the attempt ended.
    pub at: Timestamp,
    /// `failed`: the handler reported an error. `abandoned`: the claim expired.
    pub kind: String,
    /// The error text.
    pub error: String,
    /// The worker.
    pub worker: Option<String>,
}

request! {
    /// Pushes items: `POST /v1/inbox/{queue}`
    pub struct Push {
        /// The items, in order; all or none are stored.
        #[cfg_attr(feature = "schema", schema(min_items = 1, max_items = 10_000))]
        #[serde(deserialize_with = "crate::object::objects")]
        items: Vec<PushItem>,
    } optional {
        /// The request id: a repeated request changes nothing and has the same response.
        request: Uuid,
    }
}

request! {
    /// An item to push.
    pub struct PushItem {
        /// The payload: any JSON.
        payload: JsonText as Json,
    } optional {
        /// The unique key: at most one item with this key exists in the queue.
        key: String as Name,
        /// The priority: 0 is claimed first, 3 last. Default: 1.
        #[cfg_attr(feature = "schema", schema(minimum = 0, maximum = 3))]
        priority: u8,
        /// The time until the item is due.
        delay: WireDuration,
        /// The due time; instead of `delay`.
        run_at: Timestamp,
        /// Items of one group are processed in order, one at a time.
        group: String as Name,
        /// Maximum number of attempts; then the item has failed. Default: 5.
        #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 1000))]
        max_attempts: u16,
    }
}

/// The outcome of pushed items.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct Pushed {
    /// One id per item, in their order; that of the existing item, if it is a duplicate.
    pub ids: Vec<ItemId>,
    /// The ids of the items that existed already.
    pub duplicates: Vec<ItemId>,
    /// Their positions in the request, from 0.
    pub duplicate_places: Vec<u32>,
}

impl Pushed {
    /// Returns the outcomes of the items, in their order.
    pub fn items(&self) -> Vec<PushedItem> {
        let new = |&id: &ItemId| PushedItem {
            id,
            duplicate: false,
        };
        let mut items: Vec<PushedItem> = self.ids.iter().map(new).collect();
        for place in &self.duplicate_places {
            if let Some(item) = items.get_mut(*place as usize) {
                item.duplicate = true;
            }
        }
        items
    }

    /// Converts the outcomes of pushed items, in their order.
    pub fn of(items: &[PushedItem]) -> Self {
        let duplicates = || items.iter().enumerate().filter(|(_, item)| item.duplicate);
        Pushed {
            ids: items.iter().map(|item| item.id).collect(),
            duplicates: duplicates().map(|(_, item)| item.id).collect(),
            duplicate_places: duplicates()
                .map(|(place, _)| u32::try_from(place).unwrap_or(u32::MAX))
                .collect(),
        }
    }
}

/// One page of items: `GET /v1/inbox/{queue}/items`
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Items {
    /// In order of their ids; completed ones newest first.
    pub items: Vec<ItemView>,
    /// Cursor of the next page (`after`); absent if this is the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<ItemId>,
}
