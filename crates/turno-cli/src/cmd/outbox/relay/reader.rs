//! Standard output has a reader, and no relay outlives it: no other will ever come.

use std::sync::Arc;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;
use turno::sink::{Fate, Outage, Outgoing, Sink};

/// Standard output, and word of its end.
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
        // Asked after an outage; a disk that is full passes, a reader that has gone does not come back.
        self.sink.ready().await.inspect_err(|_| self.gone.cancel())
    }

    async fn publish(&self, events: &[Outgoing]) -> Vec<Fate> {
        self.sink.publish(events).await
    }

    async fn close(&self) {
        self.sink.close().await;
    }
}
