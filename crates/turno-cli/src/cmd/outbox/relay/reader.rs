//! Sink to standard output that ends the relay when its reader is gone: no other reader can come.

use std::sync::Arc;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;
use turno::sink::{Outage, Outgoing, PublishResult, Sink};

/// Standard output, with a signal of its end.
#[derive(Debug)]
pub(super) struct WithReader {
    sink: Arc<dyn Sink>,
    gone: CancellationToken,
}

impl WithReader {
    pub(super) fn new(sink: Arc<dyn Sink>, gone: CancellationToken) -> Self {
        WithReader { sink, gone }
    }
}

#[async_trait]
impl Sink for WithReader {
    fn name(&self) -> String {
        self.sink.name()
    }

    async fn ready(&self) -> Result<(), Outage> {
        // Called after an outage. A full disk is temporary; a reader that is gone does not come back.
        self.sink.ready().await.inspect_err(|_| self.gone.cancel())
    }

    async fn publish(&self, events: &[Outgoing]) -> Vec<PublishResult> {
        self.sink.publish(events).await
    }

    async fn close(&self) {
        self.sink.close().await;
    }
}
