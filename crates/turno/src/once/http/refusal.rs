//! Refusals: responses that are not the service's own.

use http::Response;

use super::Carried;
use crate::error::Error;
use crate::problem::ProblemCode;

/// Creates the refusals and their texts from one list.
macro_rules! refusals {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// Why a client gets a response that is not the service's own.
        ///
        /// The response is a problem with the code [`as_str`](Refusal::as_str), unless the policy has a
        /// [template](super::Policy::template) for it. The layer finds the refusal in the extensions of a response. A reverse proxy
        /// inside the layer marks its own refusals in the same way, next to their [`WorkOutcome`](super::WorkOutcome).
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Refusal {
            $($(#[$doc])* $name,)*
        }

        impl Refusal {
            /// All refusals, in the order of the documentation.
            pub const ALL: &[Refusal] = &[$(Refusal::$name,)*];

            /// Returns the refusal as text. It is stable.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Refusal::$name => $text,)*
                }
            }
        }
    };
}

refusals! {
    /// An identical request is being processed.
    InFlight = "in_flight",
    /// The key was sent before, with other content.
    Mismatch = "mismatch",
    /// An earlier run of the request ended without an answer.
    Unknown = "unknown",
    /// The request was carried out, and its answer cannot be replayed.
    AnswerNotStored = "answer_not_stored",
    /// The answer came too late: another run counts.
    Stale = "stale",
    /// The caller has reached its quota of live keys.
    OverQuota = "over_quota",
    /// The request cannot be identified. The following ones say why, and fall back to this one.
    Unidentified = "unidentified",
    /// The key is absent or invalid.
    UnidentifiedKey = "unidentified_key",
    /// The principal is absent.
    UnidentifiedPrincipal = "unidentified_principal",
    /// The tenant is absent.
    UnidentifiedTenant = "unidentified_tenant",
    /// The body, or a header that describes it, is malformed.
    UnidentifiedBody = "unidentified_body",
    /// The path is written differently from that of the route.
    UnidentifiedPath = "unidentified_path",
    /// The body is larger than [`Policy::max_body`](super::Policy::max_body).
    TooLarge = "too_large",
    /// The body arrived too slowly.
    Timeout = "timeout",
    /// The store is unavailable.
    StoreUnavailable = "store_unavailable",
    /// The service failed: it panicked, or its response broke off.
    Failed = "failed",
    /// Behind the gate: there is no connection to the service.
    UpstreamUnreachable = "upstream_unreachable",
    /// Behind the gate: the connection to the service broke.
    UpstreamBroken = "upstream_broken",
    /// Behind the gate: the service did not respond in time.
    UpstreamLate = "upstream_late",
}

impl Refusal {
    /// Returns the refusal of a problem of the once layer or the gate. `None` if it cannot occur under a policy.
    pub fn of(code: ProblemCode) -> Option<Self> {
        code.as_str().parse().ok()
    }

    /// Returns the refusal of a request that cannot be identified because of this field.
    pub(super) fn unidentified(field: &str) -> Self {
        match field {
            "key" => Refusal::UnidentifiedKey,
            "principal" => Refusal::UnidentifiedPrincipal,
            "tenant" => Refusal::UnidentifiedTenant,
            "body" => Refusal::UnidentifiedBody,
            "path" => Refusal::UnidentifiedPath,
            _ => Refusal::Unidentified,
        }
    }

    /// Returns the refusal whose template applies if this one has none.
    pub(super) fn general(self) -> Option<Self> {
        match self {
            Refusal::UnidentifiedKey
            | Refusal::UnidentifiedPrincipal
            | Refusal::UnidentifiedTenant
            | Refusal::UnidentifiedBody
            | Refusal::UnidentifiedPath => Some(Refusal::Unidentified),
            _ => None,
        }
    }

    /// Marks a response.
    pub(super) fn mark<B>(self, mut response: Response<Carried<B>>) -> Response<Carried<B>> {
        response.extensions_mut().insert(self);
        response
    }
}

impl std::str::FromStr for Refusal {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let known = Refusal::ALL.iter().find(|known| known.as_str() == text);
        known.copied().ok_or_else(|| {
            let all: Vec<&str> = Refusal::ALL.iter().map(|known| known.as_str()).collect();
            let all = all.join(", ");
            Error::invalid(
                "refusal",
                format!("{text:?} is not a refusal: use one of {all}"),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::ProblemSource;

    /// A new problem of the layer or the gate needs a refusal, so that it can have a template.
    #[test]
    fn every_problem_of_the_layer_and_the_gate_is_a_refusal() {
        for code in ProblemCode::ALL {
            if code.source() == ProblemSource::Server {
                continue;
            }
            // No route has the targets that the gate does not support.
            let is_known = Refusal::of(*code).is_some();
            assert_eq!(is_known, *code != ProblemCode::NotSupported, "{code:?}");
        }
    }

    #[test]
    fn every_refusal_is_found_by_its_text() {
        for refusal in Refusal::ALL {
            assert_eq!(refusal.as_str().parse::<Refusal>().unwrap(), *refusal);
        }
        let error = "store_down".parse::<Refusal>().unwrap_err().to_string();
        assert!(error.contains("store_unavailable"), "{error}");
    }
}
