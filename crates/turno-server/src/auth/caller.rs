//! The caller of a request, its role and its prefix.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use http::request::Parts;
use turno::access::Role;
use turno::problem::ProblemCode;
use turno_api::admin::Whoami;

use crate::http::extract::printable;
use crate::http::listener::Peer;
use crate::http::problem::Problem;
use crate::http::rate_limit::RateKey;

/// The caller according to its access token. An extension of each authenticated request.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    /// Name of the token. The history uses it for callers that give no name of their own.
    pub(crate) name: Arc<str>,
    role: Role,
    /// Prefix of the names that the caller may access. Empty: all names.
    prefix: Arc<str>,
}

impl Caller {
    pub(crate) fn new(name: &str, role: Role, prefix: &str) -> Self {
        Caller {
            name: name.into(),
            role,
            prefix: prefix.into(),
        }
    }

    /// Returns the user of an operator action, for the history.
    pub(crate) fn user(&self, given: Option<String>) -> String {
        given.unwrap_or_else(|| self.name.to_string())
    }

    /// Returns name, role and prefix of the caller.
    pub(crate) fn whoami(&self) -> Whoami {
        Whoami {
            name: self.name.to_string(),
            role: self.role,
            prefix: self.prefix.to_string(),
        }
    }

    /// Rejects a name outside the caller's prefix.
    pub(crate) fn scope(&self, field: &'static str, name: &str) -> Result<(), Problem> {
        if name.starts_with(&*self.prefix) {
            return Ok(());
        }
        Err(self.out_of_scope(&format!("{field} does not begin with it")))
    }

    /// Rejects callers with a prefix, for requests that concern all names.
    pub(crate) fn unscoped(&self) -> Result<(), Problem> {
        if !self.is_scoped() {
            return Ok(());
        }
        Err(self.out_of_scope("this concerns all names"))
    }

    pub(crate) fn is_scoped(&self) -> bool {
        !self.prefix.is_empty()
    }

    /// Returns the prefix of a list: the requested one, narrowed to the caller's own.
    pub(crate) fn narrow(&self, requested: &str) -> Result<String, Problem> {
        printable("prefix", requested)?;
        if requested.starts_with(&*self.prefix) {
            return Ok(requested.to_owned());
        }
        if self.prefix.starts_with(requested) {
            return Ok(self.prefix.to_string());
        }
        Err(self.out_of_scope("prefix does not begin with it"))
    }

    fn out_of_scope(&self, why: &str) -> Problem {
        Problem::new(ProblemCode::OutOfScope).because(format!(
            "the access token is for names that begin with {:?}, and {why}: use another token",
            self.prefix
        ))
    }

    fn needs(&self, role: Role) -> Result<(), Problem> {
        if self.role >= role {
            return Ok(());
        }
        Err(Problem::new(ProblemCode::Forbidden).because(format!(
            "the access token's role is {}, and this needs {role}: use another token",
            self.role
        )))
    }
}

/// An admitted caller, and its key for the rate limit.
#[derive(Debug, Clone)]
pub(crate) struct Admitted {
    pub(crate) caller: Caller,
    pub(crate) rate_key: RateKey,
}

impl Admitted {
    /// A caller that needs no token.
    pub(crate) fn anonymous(peer: Peer) -> Self {
        Admitted {
            caller: Caller::new("anonymous", Role::Admin, ""),
            rate_key: RateKey::of(peer),
        }
    }
}

/// A caller that may read.
#[derive(Debug)]
pub(crate) struct Reader(pub(crate) Caller);
/// A caller that may acquire, push, settle, emit and begin.
#[derive(Debug)]
pub(crate) struct Operator(pub(crate) Caller);
/// A caller that may break, requeue, reset, discard, forget, resolve and sweep.
#[derive(Debug)]
pub(crate) struct Admin(pub(crate) Caller);

fn caller(parts: &Parts, role: Role) -> Result<Caller, Problem> {
    let caller = parts
        .extensions
        .get::<Caller>()
        .ok_or_else(|| Problem::new(ProblemCode::Unauthorized))?;
    caller.needs(role)?;
    Ok(caller.clone())
}

impl<S: Send + Sync> FromRequestParts<S> for Reader {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        caller(parts, Role::Read).map(Reader)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Operator {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        caller(parts, Role::Operate).map(Operator)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Admin {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        caller(parts, Role::Admin).map(Admin)
    }
}
