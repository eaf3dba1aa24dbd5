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

use super::answer::{begun, raw, replayed, run};
use super::{RemoteStore, wait};
use crate::client::{Began, Ended, Page, Resolved};

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
        Ok(match self.client.begin(&question).await? {
            Began::Fresh(fresh) => OnceOutcome::Fresh(begun(fresh)),
            Began::Replay(answer) => OnceOutcome::Replay {
                answer: replayed(answer),
            },
            Began::InFlight(problem) => OnceOutcome::InFlight(run(*problem)?),
            Began::Mismatch(_) => OnceOutcome::Mismatch,
            Began::Unknown(problem) => OnceOutcome::Unknown(run(*problem)?),
            Began::OverQuota(_) => OnceOutcome::OverQuota,
        })
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
        let answer = ask.answer.as_deref();
        let question = Complete {
            answer: answer.map(|text| raw("answer", text)).transpose()?,
            ttl: ask.ttl.map(WireDuration),
        };
        let ended = self.client.complete_once(&ask.claim, &question).await?;
        Ok(settled(&ended))
    }

    async fn once_release(&self, ask: &OnceRelease) -> Result<OnceSettled> {
        let ended = self.client.release_once(&ask.claim, ask.released).await?;
        Ok(settled(&ended))
    }

    async fn once_extend(&self, ask: &OnceExtend) -> Result<OnceSettled> {
        let question = Extend {
            lease: Some(ask.lease.into()),
        };
        let ended = self.client.extend_once(&ask.claim, &question).await?;
        Ok(settled(&ended))
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
        let answer = ask.answer.as_deref();
        let question = Resolve {
            answer: answer.map(|text| raw("answer", text)).transpose()?,
            user: ask.user.clone(),
            reason: ask.reason.clone(),
        };
        Ok(match self.client.resolve(&ask.key, &question).await? {
            Resolved::Done => OnceResolved::Resolved,
            Resolved::InFlight(problem) => OnceResolved::InFlight(run(*problem)?),
            Resolved::Answered(_) => OnceResolved::Answered,
            Resolved::NotFound(_) => OnceResolved::NotFound,
        })
    }
}

fn settled(ended: &Ended) -> OnceSettled {
    match ended {
        Ended::Done => OnceSettled::Done,
        Ended::Stale(_) => OnceSettled::Stale,
    }
}
