//! Changes to claimed items: complete, fail, extend and give back.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use serde::de::{self, MapAccess, Visitor, value::MapAccessDeserializer};
use serde::{Deserialize, Deserializer, Serialize};
use uuid::Uuid;

use super::InboxClaim;
use crate::duration::WireDuration;
use crate::ids::ClaimId;
#[cfg(feature = "schema")]
use crate::openapi_types::{ClaimName, LeaseDuration};
use crate::request::request;

/// Parameters of `InboxStore::inbox_complete`.
#[derive(Debug, Clone)]
pub struct InboxComplete {
    /// The claims to complete.
    pub claims: Vec<ClaimId>,
    /// The request id: a repeated call changes nothing.
    pub request: Uuid,
}

/// Parameters of `InboxStore::inbox_turn`.
#[derive(Debug, Clone)]
pub struct InboxTurn {
    /// The claims to complete.
    pub complete: InboxComplete,
    /// The next claim.
    pub claim: InboxClaim,
}

/// One failed attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// The claim.
    #[cfg_attr(feature = "schema", schema(value_type = ClaimName))]
    pub claim: ClaimId,
    /// The error text, truncated to 4000 bytes.
    #[serde(default, deserialize_with = "crate::object::null_as_default")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub error: String,
    /// The pause before the next attempt. Default: exponential backoff with jitter.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "crate::duration::as_optional_text"
    )]
    #[cfg_attr(feature = "schema", schema(value_type = Option<WireDuration>))]
    pub retry_in: Option<Duration>,
    /// Do not attempt the item again: it has failed at once. Default: false.
    #[serde(
        rename = "final",
        default,
        deserialize_with = "crate::object::null_as_default"
    )]
    #[cfg_attr(feature = "schema", schema(value_type = Option<bool>))]
    pub again: Again,
}

impl From<ClaimId> for Failure {
    fn from(claim: ClaimId) -> Self {
        Failure {
            claim,
            error: String::new(),
            retry_in: None,
            again: Again::Retry,
        }
    }
}

/// Whether a failed item is attempted again. In JSON: `final`, true or false.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "bool", into = "bool")]
pub enum Again {
    /// As long as attempts are left.
    #[default]
    Retry,
    /// Never: the item has failed at once.
    Never,
}

impl From<bool> for Again {
    fn from(is_final: bool) -> Self {
        if is_final { Again::Never } else { Again::Retry }
    }
}

impl From<Again> for bool {
    fn from(again: Again) -> Self {
        again == Again::Never
    }
}

/// Parameters of `InboxStore::inbox_fail`.
#[derive(Debug, Clone)]
pub struct InboxFail {
    /// The failed attempts.
    pub failures: Vec<Failure>,
    /// The request id: a repeated call changes nothing.
    pub request: Uuid,
}

/// Parameters of `InboxStore::inbox_give_back`.
#[derive(Debug, Clone)]
pub struct InboxGiveBack {
    /// The claims whose processing has not begun.
    pub claims: Vec<ClaimId>,
    /// The request id: a repeated call changes nothing.
    pub request: Uuid,
}

/// Parameters of `InboxStore::inbox_extend`.
#[derive(Debug, Clone)]
pub struct InboxExtend {
    /// The claims to extend.
    pub claims: Vec<ClaimId>,
    /// The new lease, counted from now.
    pub lease: Duration,
}

/// The outcome of a change to claims.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Settled {
    /// Number of claims that were changed.
    pub done: u64,
    /// The claims that had ended, in the order of the request. Nothing was changed for them.
    #[cfg_attr(feature = "schema", schema(value_type = Vec<ClaimName>))]
    pub stale: Vec<ClaimId>,
}

request! {
    /// Completes items, `POST /v1/inbox/{queue}/complete`, or gives them back, `POST /v1/inbox/{queue}/give-back`
    #[derive(Default)]
    pub struct CompleteClaims {
        /// The claims.
        #[serde(deserialize_with = "claims::<CompletedClaim, _, _>")]
        #[cfg_attr(feature = "schema", schema(value_type = Vec<ClaimOr<CompletedClaim>>, min_items = 1, max_items = 10_000))]
        claims: Vec<ClaimId>,
    } optional {
        /// The request id: a repeated request changes nothing.
        request: Uuid,
    }
}

/// A claim.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
struct CompletedClaim {
    /// The claim.
    #[cfg_attr(feature = "schema", schema(value_type = ClaimName))]
    claim: ClaimId,
}

impl From<CompletedClaim> for ClaimId {
    fn from(completed: CompletedClaim) -> Self {
        completed.claim
    }
}

request! {
    /// Records failed attempts: `POST /v1/inbox/{queue}/fail`
    #[derive(Default)]
    pub struct FailClaims {
        /// The claims, each alone or with its error.
        #[serde(deserialize_with = "claims::<Failure, _, _>")]
        #[cfg_attr(feature = "schema", schema(value_type = Vec<ClaimOr<Failure>>, min_items = 1, max_items = 10_000))]
        claims: Vec<Failure>,
    } optional {
        /// The request id: a repeated request changes nothing.
        request: Uuid,
    }
}

request! {
    /// Extends claims: `POST /v1/inbox/{queue}/extend`
    #[derive(Default)]
    pub struct ExtendClaims {
        /// The claims, each alone or with its lease.
        #[serde(deserialize_with = "claims::<ExtendedClaim, _, _>")]
        #[cfg_attr(feature = "schema", schema(value_type = Vec<ClaimOr<ExtendedClaim>>, min_items = 1, max_items = 10_000))]
        claims: Vec<ExtendedClaim>,
    } optional {
        /// Has no effect: extending twice is the same.
        request: Uuid,
    }
}

/// A claim and its lease.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ExtendedClaim {
    /// The claim.
    #[cfg_attr(feature = "schema", schema(value_type = ClaimName))]
    pub claim: ClaimId,
    /// The new lease, counted from now. Default: that of the server's configuration, else 30 seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<LeaseDuration>))]
    pub lease: Option<WireDuration>,
}

impl From<ClaimId> for ExtendedClaim {
    fn from(claim: ClaimId) -> Self {
        ExtendedClaim { claim, lease: None }
    }
}

impl AsRef<ClaimId> for ClaimId {
    fn as_ref(&self) -> &ClaimId {
        self
    }
}

impl AsRef<ClaimId> for Failure {
    fn as_ref(&self) -> &ClaimId {
        &self.claim
    }
}

impl AsRef<ClaimId> for ExtendedClaim {
    fn as_ref(&self) -> &ClaimId {
        &self.claim
    }
}

/// Deserializes claims that are either a string, the claim alone, or an object. An untagged enum could not report which field of
/// an object is invalid.
fn claims<'de, O, T, D>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    O: Deserialize<'de> + Into<T>,
    T: From<ClaimId>,
    D: Deserializer<'de>,
{
    struct Either<O, T>(T, PhantomData<O>);

    impl<'de, O: Deserialize<'de> + Into<T>, T: From<ClaimId>> Deserialize<'de> for Either<O, T> {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            deserializer.deserialize_any(ClaimVisitor(PhantomData))
        }
    }

    struct ClaimVisitor<O, T>(PhantomData<(O, T)>);

    impl<'de, O: Deserialize<'de> + Into<T>, T: From<ClaimId>> Visitor<'de> for ClaimVisitor<O, T> {
        type Value = Either<O, T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a claim, or an object with one")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
            let claim: ClaimId = text.parse().map_err(E::custom)?;
            Ok(Either(claim.into(), PhantomData))
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
            let object = O::deserialize(MapAccessDeserializer::new(map))?;
            Ok(Either(object.into(), PhantomData))
        }
    }

    let claims = Vec::<Either<O, T>>::deserialize(deserializer)?;
    Ok(claims.into_iter().map(|claim| claim.0).collect())
}

/// A claim alone, or in an object.
#[cfg(feature = "schema")]
#[derive(utoipa::ToSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "only described")]
enum ClaimOr<T> {
    /// The claim alone.
    Alone(ClaimName),
    /// In an object.
    Object(T),
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLAIM: &str = "17@0190f1f4-2b3c-7d4e-8f50-112233445566";

    #[test]
    fn a_claim_is_a_string_or_an_object() {
        let text =
            format!(r#"{{"claims": ["{CLAIM}", {{"claim": "{CLAIM}", "retry_in": "5s"}}]}}"#);
        let fail: FailClaims = serde_json::from_str(&text).unwrap();
        assert_eq!(fail.claims[0].claim, fail.claims[1].claim);
        assert!(fail.claims[1].retry_in.is_some());
        for bad in [
            r#"{"claims": ["17"]}"#.to_owned(),
            r#"{"claims": [17]}"#.to_owned(),
            format!(r#"{{"claims": [{{"claim": "{CLAIM}", "retry": 1}}]}}"#),
            format!(r#"{{"claims": [{{"claim": "{CLAIM}", "lease": "1s"}}]}}"#),
            format!(r#"{{"claims": ["{CLAIM}"], "more": 1}}"#),
        ] {
            assert!(serde_json::from_str::<FailClaims>(&bad).is_err(), "{bad}");
        }
        let text = format!(r#"{{"claims": ["{CLAIM}", {{"claim": "{CLAIM}"}}]}}"#);
        let complete: CompleteClaims = serde_json::from_str(&text).unwrap();
        assert_eq!(complete.claims[0], complete.claims[1]);
        let text = format!(r#"{{"claims": [{{"claim": "{CLAIM}", "error": "no"}}]}}"#);
        assert!(serde_json::from_str::<CompleteClaims>(&text).is_err());
    }
}
