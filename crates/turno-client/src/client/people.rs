//! The calls that are for people: the history, sweeping, examining, and how the server is.

use reqwest::Method;
use turno::history::Part;
use turno::store::Swept;

use super::error::Result;
use super::locks::said;
use super::path::Target;
use super::send::{Call, Repeat};
use super::{Client, Page};
use crate::wire::{Examined, Health, History, SweepAsk, Whoami};

impl Client {
    /// One page of the audit trail, newest first: of one resource, queue or key, or of all whose names begin with a prefix.
    ///
    /// # Errors
    /// If something is out of rule, or the server does not answer.
    pub async fn history(
        &self,
        part: Option<Part>,
        resource: Option<&str>,
        prefix: &str,
        page: &Page<i64>,
    ) -> Result<History> {
        let target = Target::new("v1/history")
            .with("part", part)
            .with("resource", resource)
            .with("prefix", said(prefix))
            .with("limit", page.limit)
            .with("after", page.after);
        self.call(Call::get(target)).await?.read()
    }

    /// Closes what has expired and forgets what is old.
    ///
    /// # Errors
    /// If something is out of rule, or the server does not answer.
    pub async fn sweep(&self, ask: &SweepAsk) -> Result<Swept> {
        let call = Call::new(Method::POST, Target::new("v1/sweep")).body(ask)?;
        self.call(call.repeat(Repeat::Unbegun)).await?.read()
    }

    /// Examines the server's store.
    ///
    /// # Errors
    /// If the server does not answer.
    pub async fn doctor(&self) -> Result<Examined> {
        self.call(Call::get(Target::new("v1/doctor"))).await?.read()
    }

    /// Who the server takes the caller for, and what they may do.
    ///
    /// # Errors
    /// If the server does not know the caller, or does not answer.
    pub async fn whoami(&self) -> Result<Whoami> {
        self.call(Call::get(Target::new("v1/whoami"))).await?.read()
    }

    /// Whether the server is there.
    ///
    /// # Errors
    /// If it does not answer.
    pub async fn health(&self) -> Result<Health> {
        self.call(Call::get(Target::new("healthz"))).await?.read()
    }

    /// Whether the server can do its work: its status is `unavailable` if the store does not answer.
    ///
    /// # Errors
    /// If it does not answer.
    pub async fn ready(&self) -> Result<Health> {
        self.call(Call::get(Target::new("readyz"))).await?.read()
    }
}
