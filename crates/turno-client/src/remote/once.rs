//! Once operations over HTTP.

use std::time::Duration;

use async_trait::async_trait;
use turno::Result;
use turno::store::{
    OnceBegin, OnceComplete, OnceExtend, OnceForget, OnceList, OnceOutcome, OnceRelease,
    OnceResolve, OnceResolved, OnceSettled, OnceStore, OnceView,
};
use turno_api::duration::WireDuration;
use turno_api::once::{Begin, Complete, Extend, Resolve};

use super::{RemoteStore, wait};
use crate::client::Page;

impl RemoteStore {
    async fn begin(&self, ask: &OnceBegin, wait: WireDuration) -> Result<OnceOutcome> {
        let question = Begin {
            key: ask.key.clone(),
            fingerprint: ask.fingerprint.clone(),
            lease: Some(ask.lease.into()),
            ttl: Some(ask.ttl.into()),
            wait: Some(wait),
            unknown: Some(ask.unknown),
            worker: ask.worker.clone(),
            quota: ask.quota.clone(),
            request: Some(ask.request),
        };
        Ok(self.client.begin(&question).await?)
    }
}

#[async_trait]
impl OnceStore for RemoteStore {
    async fn once_begin(&self, ask: &OnceBegin) -> Result<OnceOutcome> {
        self.begin(ask, WireDuration(Duration::ZERO)).await
    }

    async fn once_begin_waiting(
        &self,
        ask: &OnceBegin,
        wait: Duration,
    ) -> Result<Option<OnceOutcome>> {
        wait::until(
            wait,
            |slice| self.begin(ask, slice),
            |outcome| matches!(outcome, OnceOutcome::InFlight(_)),
        )
        .await
        .map(Some)
    }

    async fn once_complete(&self, ask: &OnceComplete) -> Result<OnceSettled> {
        let question = Complete {
            answer: ask.answer.clone().map(Into::into),
            ttl: ask.ttl.map(WireDuration),
        };
        Ok(self.client.complete_once(&ask.claim, &question).await?)
    }

    async fn once_release(&self, ask: &OnceRelease) -> Result<OnceSettled> {
        Ok(self.client.release_once(&ask.claim, ask.released).await?)
    }

    async fn once_extend(&self, ask: &OnceExtend) -> Result<OnceSettled> {
        let question = Extend {
            lease: Some(ask.lease.into()),
        };
        Ok(self.client.extend_once(&ask.claim, &question).await?)
    }

    async fn once_status(&self, key: &str) -> Result<Option<OnceView>> {
        Ok(self.client.key(key).await?)
    }

    async fn once_list(&self, ask: &OnceList) -> Result<Vec<OnceView>> {
        let page = Page {
            limit: Some(ask.limit),
            after: (!ask.after.is_empty()).then(|| ask.after.clone()),
        };
        Ok(self.client.keys(ask.state, &ask.prefix, &page).await?.keys)
    }

    async fn once_forget(&self, ask: &OnceForget) -> Result<bool> {
        Ok(self.client.forget_with(ask).await?.forgotten)
    }

    async fn once_resolve(&self, ask: &OnceResolve) -> Result<OnceResolved> {
        let question = Resolve {
            answer: ask.answer.clone().map(Into::into),
            user: ask.user.clone(),
            reason: ask.reason.clone(),
        };
        Ok(self.client.resolve(&ask.key, &question).await?)
    }
}
