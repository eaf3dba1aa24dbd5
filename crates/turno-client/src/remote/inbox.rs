//! Inbox operations over HTTP.

use std::time::Duration;

use async_trait::async_trait;
use turno::inbox::{ClaimId, Settled};
use turno::store::{
    ClaimedItem, Due, InboxClaim, InboxComplete, InboxConfigure, InboxExtend, InboxFail,
    InboxFailedItems, InboxGiveBack, InboxList, InboxPush, InboxReset, InboxStats, InboxStore,
    InboxTurn, ItemView, NewItem, PushedItem, QueueSettings, QueueStats,
};
use turno::{Error, Result};
use turno_api::duration::WireDuration;
use turno_api::inbox::{
    Claim, CompleteClaims, Configure, ExtendClaims, ExtendedClaim, FailClaims, FailedItems, Push,
    PushItem, Reset,
};
use uuid::Uuid;

use super::{RemoteStore, wait};
use crate::client::Page;

impl RemoteStore {
    async fn claim(&self, ask: &InboxClaim, wait: WireDuration) -> Result<Vec<ClaimedItem>> {
        if ask.limit == 0 {
            return Ok(Vec::new());
        }
        let question = Claim {
            worker: ask.worker.clone(),
            limit: Some(ask.limit),
            lease: Some(ask.lease.into()),
            wait: Some(wait),
            request: Some(ask.request),
        };
        let items = self.client.claim(&ask.queue, &question).await?.items;
        self.queues
            .claimed(&ask.queue, items.iter().map(|item| &item.claim));
        Ok(items)
    }

    /// Divides claims by queue, with the request id of each call. Nearly always there is one queue.
    fn by_queue<T: AsRef<ClaimId>>(
        &self,
        claims: impl IntoIterator<Item = T>,
        request: Option<Uuid>,
    ) -> Vec<(String, Vec<T>, Option<Uuid>)> {
        let claims: Vec<T> = claims.into_iter().collect();
        let mut queues: Vec<(String, Vec<T>, Option<Uuid>)> = Vec::new();
        // Claims of unknown queues join those of the first known queue: one request stays one call, also when it is retried.
        let known = claims
            .iter()
            .find_map(|claim| self.queues.of(claim.as_ref()));
        let other = known.unwrap_or_else(|| self.queues.other().to_owned());
        for claim in claims {
            let queue = self.queues.of(claim.as_ref());
            let queue = queue.unwrap_or_else(|| other.clone());
            if let Some((_, claims, _)) = queues.iter_mut().find(|(name, ..)| *name == queue) {
                claims.push(claim);
            } else {
                // Each further call derives its request id from its position, which is the same in a retry.
                let place = queues.len() as u128;
                let derived = request.map(|id| Uuid::from_u128(id.as_u128().wrapping_add(place)));
                queues.push((queue, vec![claim], derived));
            }
        }
        queues
    }
}

/// Adds up the outcomes of one call per queue, with the stale claims in the order of `claims`.
fn sum(outcomes: Vec<Settled>, claims: impl Iterator<Item = ClaimId> + Clone) -> Settled {
    let several = outcomes.len() > 1;
    let mut all = Settled::default();
    for settled in outcomes {
        all.done += settled.done;
        all.stale.extend(settled.stale);
    }
    if several {
        all.stale
            .sort_by_key(|stale| claims.clone().position(|claim| claim == *stale));
    }
    all
}

#[async_trait]
impl InboxStore for RemoteStore {
    async fn inbox_push(&self, ask: &InboxPush) -> Result<Vec<PushedItem>> {
        if ask.items.is_empty() {
            return Ok(Vec::new());
        }
        let question = Push {
            items: ask.items.iter().map(new_item).collect(),
            request: Some(ask.request),
        };
        Ok(self.client.push(&ask.queue, &question).await?.items())
    }

    async fn inbox_claim(&self, ask: &InboxClaim) -> Result<Vec<ClaimedItem>> {
        self.claim(ask, WireDuration(Duration::ZERO)).await
    }

    async fn inbox_claim_waiting(
        &self,
        ask: &InboxClaim,
        wait: Duration,
    ) -> Result<Option<Vec<ClaimedItem>>> {
        wait::until(wait, |slice| self.claim(ask, slice), Vec::is_empty)
            .await
            .map(Some)
    }

    async fn inbox_complete(&self, ask: &InboxComplete) -> Result<Settled> {
        let mut outcomes = Vec::new();
        for (queue, claims, request) in self.by_queue(ask.claims.clone(), Some(ask.request)) {
            let body = CompleteClaims { claims, request };
            outcomes.push(self.client.complete(&queue, &body).await?);
        }
        Ok(sum(outcomes, ask.claims.iter().copied()))
    }

    /// Two calls, one after the other. Each is idempotent, so the whole is too.
    async fn inbox_turn(&self, ask: &InboxTurn) -> Result<(Settled, Vec<ClaimedItem>)> {
        let settled = self.inbox_complete(&ask.complete).await?;
        Ok((settled, self.inbox_claim(&ask.claim).await?))
    }

    async fn inbox_fail(&self, ask: &InboxFail) -> Result<Settled> {
        let mut outcomes = Vec::new();
        for (queue, claims, request) in self.by_queue(ask.failures.clone(), Some(ask.request)) {
            let body = FailClaims { claims, request };
            outcomes.push(self.client.fail(&queue, &body).await?);
        }
        Ok(sum(
            outcomes,
            ask.failures.iter().map(|failure| failure.claim),
        ))
    }

    async fn inbox_give_back(&self, ask: &InboxGiveBack) -> Result<Settled> {
        let mut outcomes = Vec::new();
        for (queue, claims, request) in self.by_queue(ask.claims.clone(), Some(ask.request)) {
            let body = CompleteClaims { claims, request };
            outcomes.push(self.client.give_back(&queue, &body).await?);
        }
        Ok(sum(outcomes, ask.claims.iter().copied()))
    }

    async fn inbox_extend(&self, ask: &InboxExtend) -> Result<Settled> {
        let lease = Some(ask.lease.into());
        let extended = ask
            .claims
            .iter()
            .map(|&claim| ExtendedClaim { claim, lease });
        let mut outcomes = Vec::new();
        for (queue, claims, request) in self.by_queue(extended, None) {
            let body = ExtendClaims { claims, request };
            outcomes.push(self.client.extend(&queue, &body).await?);
        }
        Ok(sum(outcomes, ask.claims.iter().copied()))
    }

    async fn inbox_requeue(&self, ask: &InboxFailedItems) -> Result<u64> {
        let requeued = self.client.requeue(&ask.queue, &failed_items(ask)).await?;
        Ok(requeued.requeued)
    }

    async fn inbox_discard(&self, ask: &InboxFailedItems) -> Result<u64> {
        let question = failed_items(ask);
        let discarded = self.client.discard_items(&ask.queue, &question).await?;
        Ok(discarded.discarded)
    }

    async fn inbox_reset(&self, ask: &InboxReset) -> Result<u64> {
        let question = Reset {
            older_than: Some(ask.older_than.into()),
            user: ask.user.clone(),
            reason: ask.reason.clone(),
        };
        Ok(self.client.reset(&ask.queue, &question).await?.reset)
    }

    async fn inbox_settings(&self, queue: &str) -> Result<QueueSettings> {
        Ok(self.client.queue_settings(queue).await?)
    }

    async fn inbox_configure(&self, ask: &InboxConfigure) -> Result<QueueSettings> {
        let question = Configure {
            paused: ask.change.paused,
            max_running: ask.change.max_running,
            rate: ask.change.rate,
            user: ask.user.clone(),
            reason: ask.reason.clone(),
        };
        Ok(self.client.configure_queue(&ask.queue, &question).await?)
    }

    async fn inbox_stats(&self, ask: &InboxStats) -> Result<Vec<QueueStats>> {
        match &ask.queue {
            Some(queue) => match self.client.queue(queue).await.map_err(Error::from) {
                Ok(stats) => Ok(vec![stats]),
                Err(error) if error.is_no_queue() => Ok(Vec::new()),
                Err(error) => Err(error),
            },
            None => Ok(self.client.queues(&ask.prefix).await?.queues),
        }
    }

    async fn inbox_list(&self, ask: &InboxList) -> Result<Vec<ItemView>> {
        let page = Page {
            limit: Some(ask.limit),
            after: ask.after,
        };
        let items = self.client.items(&ask.queue, ask.state, &page).await?;
        Ok(items.items)
    }

    /// Always returns `None`: the server sends no notifications, so an idle worker polls.
    async fn inbox_wait(&self, _: &str) -> Result<Option<Duration>> {
        Ok(None)
    }
}

fn failed_items(ask: &InboxFailedItems) -> FailedItems {
    FailedItems {
        ids: ask.ids.clone(),
        user: ask.user.clone(),
        reason: ask.reason.clone(),
    }
}

fn new_item(item: &NewItem) -> PushItem {
    let (delay, run_at) = match item.due {
        Some(Due::After(delay)) => (Some(WireDuration(delay)), None),
        Some(Due::At(time)) => (None, Some(time)),
        None => (None, None),
    };
    PushItem {
        payload: item.payload.as_str().into(),
        key: item.key.clone(),
        priority: Some(item.priority),
        delay,
        run_at,
        group: item.group.clone(),
        max_attempts: Some(item.max_attempts),
    }
}
