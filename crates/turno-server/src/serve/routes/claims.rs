//! OpenAPI schemas of the bodies that settle claims: each verb has its own fields. The body is deserialized as
//! [`turno_api::inbox::Settle`], and [`settle`](super::settle) rejects the fields of the other verbs.
#![allow(dead_code, reason = "only described")]

use turno_api::duration::WireDuration;
use turno_api::openapi_types::{ClaimName, LeaseDuration};
use utoipa::ToSchema;
use uuid::Uuid;

/// Ends items, or gives them back.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CompleteClaims {
    /// The claims.
    #[schema(min_items = 1, max_items = 10_000)]
    claims: Vec<Completed>,
    /// The identity of this request: sent twice, it changes nothing more.
    #[serde(default)]
    request: Option<Uuid>,
}

/// A claim, by itself or in an object.
#[derive(ToSchema)]
#[serde(untagged)]
enum Completed {
    /// By itself.
    Alone(ClaimName),
    /// In an object.
    Object(CompletedClaim),
}

/// A claim.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct CompletedClaim {
    /// The claim.
    claim: ClaimName,
}

/// Records failed attempts.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FailClaims {
    /// The claims, each by itself or with what went wrong.
    #[schema(min_items = 1, max_items = 10_000)]
    claims: Vec<Failed>,
    /// The identity of this request: sent twice, it changes nothing more.
    #[serde(default)]
    request: Option<Uuid>,
}

/// A claim, by itself or with what went wrong.
#[derive(ToSchema)]
#[serde(untagged)]
enum Failed {
    /// By itself.
    Alone(ClaimName),
    /// With what went wrong.
    Object(FailedClaim),
}

/// A claim, and what went wrong.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct FailedClaim {
    /// The claim.
    claim: ClaimName,
    /// What went wrong; cut to 4000 bytes.
    #[serde(default)]
    error: Option<String>,
    /// Try again after this; after a longer pause each time, if not said.
    #[serde(default)]
    retry_in: Option<WireDuration>,
    /// Do not try again, set it aside at once.
    #[serde(default, rename = "final")]
    last: Option<bool>,
}

/// Lengthens claims.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ExtendClaims {
    /// The claims, each by itself or with its time.
    #[schema(min_items = 1, max_items = 10_000)]
    claims: Vec<Extended>,
    /// Changes nothing: extending twice is the same.
    #[serde(default)]
    request: Option<Uuid>,
}

/// A claim, by itself or with its time.
#[derive(ToSchema)]
#[serde(untagged)]
enum Extended {
    /// By itself.
    Alone(ClaimName),
    /// With its time.
    Object(ExtendedClaim),
}

/// A claim, and its time.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct ExtendedClaim {
    /// The claim.
    claim: ClaimName,
    /// For how long from now; 30 seconds, if neither this nor the server's file says.
    #[serde(default)]
    lease: Option<LeaseDuration>,
}
