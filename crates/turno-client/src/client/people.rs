//! The calls that are for people: sweeping, examining, and how the server is.

use reqwest::Method;
use turno::store::Swept;

use super::Client;
use super::error::Result;
use super::path::Target;
use super::send::{Call, Repeat};
use crate::wire::{Examined, Health, SweepAsk};

impl Client {
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
