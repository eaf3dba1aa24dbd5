//! Outbox operations over HTTP. A relay needs a direct connection to the store.

use async_trait::async_trait;
use turno::Result;
use turno::store::{
    ClaimedEvent, EventView, Leadership, OutboxClaim, OutboxDiscard, OutboxEmit, OutboxLead,
    OutboxList, OutboxRequeue, OutboxSettle, OutboxSettled, OutboxStats, OutboxStore,
};
use turno_api::outbox::{Discard, Emit, RequeueEvents};
use uuid::Uuid;

use super::RemoteStore;
use super::not_here::not_here;
use crate::client::Page;

#[async_trait]
impl OutboxStore for RemoteStore {
    async fn outbox_emit(&self, ask: &OutboxEmit) -> Result<Vec<Uuid>> {
        if ask.events.is_empty() {
            return Ok(Vec::new());
        }
        let question = Emit {
            events: ask.events.clone(),
            request: Some(ask.request),
        };
        Ok(self.client.emit(&question).await?.ids)
    }

    async fn outbox_claim(&self, _: &OutboxClaim) -> Result<Vec<ClaimedEvent>> {
        Err(not_here("relaying"))
    }

    async fn outbox_settle(&self, _: &OutboxSettle) -> Result<OutboxSettled> {
        Err(not_here("relaying"))
    }

    async fn outbox_recover(&self) -> Result<u64> {
        Err(not_here("relaying"))
    }

    async fn outbox_lead(&self, _: &OutboxLead) -> Result<Leadership> {
        Err(not_here("relaying"))
    }

    async fn outbox_stats(&self) -> Result<OutboxStats> {
        Ok(self.client.outbox().await?)
    }

    async fn outbox_list(&self, ask: &OutboxList) -> Result<Vec<EventView>> {
        let page = Page {
            limit: Some(ask.limit),
            after: ask.after,
        };
        let events = self.client.events(ask.state, &page).await?;
        Ok(events.events)
    }

    async fn outbox_find(&self, id: Uuid) -> Result<Option<EventView>> {
        Ok(self.client.event(id).await?)
    }

    async fn outbox_requeue(&self, ask: &OutboxRequeue) -> Result<u64> {
        let question = RequeueEvents {
            ids: ask.ids.clone(),
            user: ask.user.clone(),
            reason: ask.reason.clone(),
        };
        Ok(self.client.requeue_events(&question).await?.requeued)
    }

    async fn outbox_discard(&self, ask: &OutboxDiscard) -> Result<u64> {
        if ask.ids.is_empty() {
            return Ok(0);
        }
        let question = Discard {
            ids: ask.ids.clone(),
            user: Some(ask.user.clone()),
            reason: ask.reason.clone(),
        };
        Ok(self.client.discard(&question).await?.discarded)
    }
}
