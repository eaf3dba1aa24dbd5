//! Who asks, what they may do, and with which names.

use std::sync::Arc;

use super::access::Role;
use axum::extract::FromRequestParts;
use http::request::Parts;
use turno_client::wire::Whoami;

use super::App;
use super::ask::printable;
use super::problem::Problem;
use super::words::Code;

/// Who asks, as its access token says; put into the request when that was looked at.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    /// The token's name; what history calls whoever gives no name of its own.
    pub(crate) name: Arc<str>,
    role: Role,
    /// The beginning of the names that it may touch; empty: all.
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

    /// Who does something by hand, as the history has it.
    pub(crate) fn user(&self, said: Option<String>) -> String {
        said.unwrap_or_else(|| self.name.to_string())
    }

    /// As its access token says.
    pub(crate) fn whoami(&self) -> Whoami {
        Whoami {
            name: self.name.to_string(),
            role: self.role,
            prefix: self.prefix.to_string(),
        }
    }

    /// Refuses a name outside the caller's prefix.
    pub(crate) fn scope(&self, field: &'static str, name: &str) -> Result<(), Problem> {
        if name.starts_with(&*self.prefix) {
            return Ok(());
        }
        Err(self.out_of_scope(&format!("{field} does not begin with it")))
    }

    /// Refuses what concerns all names, to whoever may touch some.
    pub(crate) fn unscoped(&self) -> Result<(), Problem> {
        if !self.is_scoped() {
            return Ok(());
        }
        Err(self.out_of_scope("this concerns all names"))
    }

    pub(crate) fn is_scoped(&self) -> bool {
        !self.prefix.is_empty()
    }

    /// The prefix that a list is narrowed to.
    pub(crate) fn narrow(&self, asked: &str) -> Result<String, Problem> {
        printable("prefix", asked)?;
        if asked.starts_with(&*self.prefix) {
            return Ok(asked.to_owned());
        }
        if self.prefix.starts_with(asked) {
            return Ok(self.prefix.to_string());
        }
        Err(self.out_of_scope("prefix does not begin with it"))
    }

    fn out_of_scope(&self, why: &str) -> Problem {
        Problem::new(Code::OutOfScope).because(format!(
            "the access token is for names that begin with {:?}, and {why}: use another token",
            self.prefix
        ))
    }

    fn needs(&self, role: Role) -> Result<(), Problem> {
        if self.role >= role {
            return Ok(());
        }
        Err(Problem::new(Code::Forbidden).because(format!(
            "the access token's role is {}, and this needs {role}: use another token",
            self.role
        )))
    }
}

/// Whoever may look.
#[derive(Debug)]
pub(crate) struct Reader(pub(crate) Caller);
/// Whoever may take, push, settle, emit and begin.
#[derive(Debug)]
pub(crate) struct Operator(pub(crate) Caller);
/// A caller who may break, requeue, reset, discard, forget, resolve and sweep.
#[derive(Debug)]
pub(crate) struct Admin(pub(crate) Caller);

fn caller(parts: &Parts, role: Role) -> Result<Caller, Problem> {
    let caller = parts
        .extensions
        .get::<Caller>()
        .ok_or_else(|| Problem::new(Code::Unauthorized))?;
    caller.needs(role)?;
    Ok(caller.clone())
}

impl FromRequestParts<Arc<App>> for Reader {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<App>) -> Result<Self, Problem> {
        caller(parts, Role::Read).map(Reader)
    }
}

impl FromRequestParts<Arc<App>> for Operator {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<App>) -> Result<Self, Problem> {
        caller(parts, Role::Operate).map(Operator)
    }
}

impl FromRequestParts<Arc<App>> for Admin {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<App>) -> Result<Self, Problem> {
        caller(parts, Role::Admin).map(Admin)
    }
}
