//! Bodies of the inbox: items and claims.

use jiff::Timestamp;
use serde::de::{self, MapAccess, Visitor, value::MapAccessDeserializer};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use turno::inbox::{AttemptError, ClaimId, ItemId, ItemState, QueueStats};
use uuid::Uuid;

use super::Span;
#[cfg(feature = "schema")]
use super::rules::{ClaimName, Json, LeaseSpan, Name, Text, WaitSpan};

/// Stores items: `POST /v1/inbox/{queue}`
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Push {
    /// The items, in order; all or none are stored.
    #[cfg_attr(feature = "schema", schema(min_items = 1, max_items = 10_000))]
    #[serde(deserialize_with = "super::object::objects")]
    pub items: Vec<PushItem>,
    /// The identity of this request: sent twice, it changes nothing more, and is answered the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Uuid>,
}

/// An item to be stored.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PushItem {
    /// The work: any JSON.
    #[cfg_attr(feature = "schema", schema(value_type = Json))]
    pub payload: Box<RawValue>,
    /// Pushed twice with one key, it is stored once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Name>))]
    pub key: Option<String>,
    /// From 0, the most urgent, to 3; 1, if not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 0, maximum = 3))]
    pub priority: Option<u8>,
    /// Not before this has passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Span>,
    /// Not before this time; instead of `delay`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_at: Option<Timestamp>,
    /// Items of one group run one at a time, in order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Name>))]
    pub group: Option<String>,
    /// After this many attempts it is set aside as failed; 5, if not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 1000))]
    pub max_attempts: Option<u16>,
}

/// What became of pushed items.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Pushed {
    /// One for each item, in their order; that of the one already there, if it is a duplicate.
    #[cfg_attr(feature = "schema", schema(value_type = Vec<i64>))]
    pub ids: Vec<ItemId>,
    /// The ids of those that were there already.
    #[cfg_attr(feature = "schema", schema(value_type = Vec<i64>))]
    pub duplicates: Vec<ItemId>,
    /// Their places in the request, from 0.
    pub duplicate_places: Vec<u32>,
}

/// Takes items: `POST /v1/inbox/{queue}/claim`
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Who claims, as people see it.
    #[cfg_attr(feature = "schema", schema(value_type = Name))]
    pub worker: String,
    /// At the most so many; 1, if not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 10_000))]
    pub limit: Option<u32>,
    /// For how long, unless extended; 30 seconds, if neither this nor the server's file says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<LeaseSpan>))]
    pub lease: Option<Span>,
    /// Wait this long for a first item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<WaitSpan>))]
    pub wait: Option<Span>,
    /// The identity of this request: sent twice, it answers what it claimed the first time, as far as that is still held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Uuid>,
}

/// Items in a worker's hands.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Claimed {
    /// In the order in which they should be begun; none, if there is nothing to do.
    pub items: Vec<ClaimedItem>,
}

/// An item in a worker's hands.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ClaimedItem {
    /// Its number.
    #[cfg_attr(feature = "schema", schema(value_type = i64))]
    pub id: ItemId,
    /// What every change to it has to present.
    #[cfg_attr(feature = "schema", schema(value_type = ClaimName))]
    pub claim: ClaimId,
    /// Counted from one, those of vanished workers included.
    pub attempt: u32,
    /// The attempt after which it is set aside.
    pub max_attempts: u32,
    /// How many of the attempts before ended because the worker vanished.
    pub abandoned: u32,
    /// The work.
    #[cfg_attr(feature = "schema", schema(value_type = Json))]
    pub payload: Box<RawValue>,
    /// Its unique key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Its group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// From 0, the most urgent, to 3.
    pub priority: u8,
    /// When it was pushed, on the store's clock.
    pub pushed_at: Timestamp,
    /// When the claim ends unless extended, on the store's clock.
    pub expires_at: Timestamp,
}

/// Settles or lengthens claims: `POST /v1/inbox/{queue}/complete`, `/fail`, `/extend`, `/give-back`
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Settle {
    /// The claims, each by itself or with what there is to say of it.
    #[cfg_attr(feature = "schema", schema(value_type = Vec<ClaimOrMore>, min_items = 1, max_items = 10_000))]
    pub claims: Vec<SettleClaim>,
    /// The identity of this request: sent twice, it changes nothing more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Uuid>,
}

/// A claim, and what there is to say of it. Written as a text, it is the claim alone.
#[derive(Debug, Clone, Serialize)]
pub struct SettleClaim {
    /// The claim.
    pub claim: ClaimId,
    /// `fail`: what went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// `fail`: try again after this; after a longer pause each time, if not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_in: Option<Span>,
    /// `fail`: whether another attempt makes sense.
    #[serde(rename = "final", skip_serializing_if = "Option::is_none")]
    pub last: Option<bool>,
    /// `extend`: for how long from now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease: Option<Span>,
}

impl From<ClaimId> for SettleClaim {
    fn from(claim: ClaimId) -> Self {
        SettleClaim {
            claim,
            error: None,
            retry_in: None,
            last: None,
            lease: None,
        }
    }
}

/// A claim and more, as it is written.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", schema(as = ClaimAndMore))]
struct More {
    /// The claim.
    #[cfg_attr(feature = "schema", schema(value_type = ClaimName))]
    claim: ClaimId,
    /// `fail`: what went wrong.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>, max_length = 10_000))]
    error: Option<String>,
    /// `fail`: try again after this; after a longer pause each time, if not said.
    #[serde(default)]
    retry_in: Option<Span>,
    /// `fail`: do not try again, set it aside at once.
    #[serde(default, rename = "final")]
    last: Option<bool>,
    /// `extend`: for how long from now; 30 seconds, if neither this nor the server's file says.
    #[serde(default)]
    lease: Option<Span>,
}

/// By hand, because an untagged enum could not say which field is wrong.
impl<'de> Deserialize<'de> for SettleClaim {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = SettleClaim;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a claim, or an object with one")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<SettleClaim, E> {
                let claim: ClaimId = text.parse().map_err(E::custom)?;
                Ok(claim.into())
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<SettleClaim, A::Error> {
                let more = More::deserialize(MapAccessDeserializer::new(map))?;
                Ok(SettleClaim {
                    claim: more.claim,
                    error: more.error,
                    retry_in: more.retry_in,
                    last: more.last,
                    lease: more.lease,
                })
            }
        }

        deserializer.deserialize_any(Either)
    }
}

/// A claim by itself, or with more.
#[cfg(feature = "schema")]
#[derive(utoipa::ToSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "only described")]
enum ClaimOrMore {
    /// The claim alone.
    Alone(ClaimName),
    /// The claim, and what there is to say of it.
    More(More),
}

/// What became of claims.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Settled {
    /// How many it was applied to.
    pub done: u64,
    /// The claims that were no longer right, in their order; nothing was applied to these.
    #[cfg_attr(feature = "schema", schema(value_type = Vec<ClaimName>))]
    pub stale: Vec<ClaimId>,
}

/// Statistics of queues: `GET /v1/inbox`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Queues {
    /// In order of their names.
    pub queues: Vec<QueueStats>,
}

/// One page of items: `GET /v1/inbox/{queue}/items`
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Items {
    /// In order of their ids; completed ones newest first.
    pub items: Vec<Item>,
    /// Where the next page begins (`after`); none if this is the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<i64>))]
    pub next: Option<ItemId>,
}

/// An item as people see it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Item {
    /// Its number.
    #[cfg_attr(feature = "schema", schema(value_type = i64))]
    pub id: ItemId,
    /// Its state.
    pub state: ItemState,
    /// The work; a completed item's is not kept.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "super::of::said"
    )]
    #[cfg_attr(feature = "schema", schema(value_type = Json, required = false))]
    pub payload: Option<Box<RawValue>>,
    /// Its unique key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Its group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// From 0, the most urgent, to 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    /// The attempts that ended, in failure or because the worker vanished.
    pub attempts: u32,
    /// How many of them because the worker vanished.
    pub abandoned: u32,
    /// Who works on it, or did last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// When it was pushed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pushed_at: Option<Timestamp>,
    /// When its state began or, for a scheduled one, ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// Its last errors, oldest first.
    pub errors: Vec<AttemptError>,
}

/// Failed items that are revived, `POST /v1/inbox/{queue}/requeue`, or discarded, `POST /v1/inbox/{queue}/discard`
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct FailedItems {
    /// Which; all that have failed, if not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Vec<i64>>, max_items = 10_000))]
    pub ids: Option<Vec<ItemId>>,
    /// Who does it, for the history; the name of the access token, if not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Name>))]
    pub user: Option<String>,
    /// Why; it goes into the history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Text>))]
    pub reason: Option<String>,
}

/// How many were revived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Requeued {
    /// So many.
    pub requeued: u64,
}

/// Takes items away from workers that hang: `POST /v1/inbox/{queue}/reset`
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Reset {
    /// Only those that were claimed this long ago; 15 minutes, if not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub older_than: Option<Span>,
    /// Who does it, for the history; the name of the access token, if not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Name>))]
    pub user: Option<String>,
    /// Why; it goes into the history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Text>))]
    pub reason: Option<String>,
}

/// How many were taken away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct WasReset {
    /// So many.
    pub reset: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLAIM: &str = "17@0190f1f4-2b3c-7d4e-8f50-112233445566";

    #[test]
    fn a_claim_is_a_text_or_an_object() {
        let text =
            format!(r#"{{"claims": ["{CLAIM}", {{"claim": "{CLAIM}", "retry_in": "5s"}}]}}"#);
        let settle: Settle = serde_json::from_str(&text).unwrap();
        assert_eq!(settle.claims[0].claim, settle.claims[1].claim);
        assert!(settle.claims[1].retry_in.is_some());
        for bad in [
            r#"{"claims": ["17"]}"#.to_owned(),
            r#"{"claims": [17]}"#.to_owned(),
            format!(r#"{{"claims": [{{"claim": "{CLAIM}", "retry": 1}}]}}"#),
            format!(r#"{{"claims": ["{CLAIM}"], "more": 1}}"#),
        ] {
            assert!(serde_json::from_str::<Settle>(&bad).is_err(), "{bad}");
        }
    }
}
