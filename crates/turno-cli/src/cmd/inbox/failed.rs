//! What `turno inbox requeue` and `turno inbox discard` have in common

use anyhow::Result;
use clap::Args;
use turno::inbox::{Inbox, ItemId};

use crate::cmd::operator::OperatorArgs;
use crate::context::Context;
use crate::progress;

/// Which failed items a person decides about.
#[derive(Debug, Args)]
pub(super) struct FailedItems {
    /// Queue
    queue: String,

    /// Ids, as `turno inbox list --state failed` shows them
    #[arg(
        value_name = "ID",
        required_unless_present = "all",
        allow_negative_numbers = true
    )]
    id: Vec<i64>,

    /// All failed items of the queue
    #[arg(long, conflicts_with = "id")]
    all: bool,

    #[command(flatten)]
    operator: OperatorArgs,
}

impl FailedItems {
    /// Applies the decision. Returns the number of items.
    pub(super) async fn decide(
        self,
        context: &Context,
        progress: &'static str,
        decision: impl AsyncFnOnce(&Inbox, Option<&[ItemId]>) -> turno::Result<u64>,
    ) -> Result<u64> {
        let ids: Vec<ItemId> = self.id.into_iter().map(ItemId).collect();
        let which = (!self.all).then_some(ids.as_slice());
        let spinner = progress::spinner(context.output, progress);
        let count = context
            .with_store(async |turno| {
                let inbox = self.operator.inbox(turno.inbox(&self.queue));
                let count = decision(&inbox, which).await?;
                if count == 0 {
                    // An error if there is no such queue.
                    inbox.stats().await?;
                }
                Ok(count)
            })
            .await;
        spinner.finish_and_clear();
        count
    }
}
