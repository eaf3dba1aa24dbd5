//! Events that have arrived in RabbitMQ.

use anyhow::Result;

use super::super::set::Set;

/// Takes all events from the queue, up to an event of our own that is published after all others.
#[cfg(feature = "rabbitmq")]
pub(super) async fn take(set: &Set, url: &str, mark: &str) -> Result<Vec<String>> {
    use std::time::Duration;

    use anyhow::Context as _;
    use tokio::sync::mpsc;
    use tokio_util::sync::CancellationToken;
    use turno::consume::{Delivered, RabbitConsumer};
    use turno::sink::PublishResult;

    use super::{NAME, RUN, offer, sink, ticket};

    /// Timeout of the broker.
    const TIMEOUT: Duration = Duration::from_secs(30);
    /// Interval between two attempts to publish an event while no queue exists.
    const AGAIN: Duration = Duration::from_millis(100);

    let (heard, mut hears) = mpsc::unbounded_channel::<Delivered>();
    let stop = CancellationToken::new();
    let consumer = RabbitConsumer::new(url, NAME)?.bind(NAME, "ticket.#").run(
        stop.clone().cancelled_owned(),
        move |event| {
            let sent = heard.send(event);
            async { sent.map_err(|_| "the counter has stopped") }
        },
    );
    let sink = sink(set)?;
    let run = Some(&set.run);
    let collect = async {
        // The consumer ends with this block.
        let _stop = stop.clone().drop_guard();
        // Refused until the queue exists.
        while offer(sink.as_ref(), set, mark).await? != PublishResult::Sent {
            tokio::time::sleep(AGAIN).await;
        }
        let mut payloads = Vec::new();
        while let Some(event) = hears.recv().await {
            // Events of earlier demonstrations are removed too.
            if event.headers.get(RUN) != run {
                continue;
            }
            if ticket(&event.payload)? == mark {
                break;
            }
            payloads.push(event.payload);
        }
        anyhow::Ok(payloads)
    };
    let both = async { tokio::join!(collect, consumer) };
    let (payloads, ended) = tokio::time::timeout(TIMEOUT, both)
        .await
        .context("RabbitMQ did not deliver in time: check its queue turno.demo")?;
    ended?;
    sink.close().await;
    payloads
}

#[cfg(not(feature = "rabbitmq"))]
pub(super) async fn take(_: &Set, _: &str, _: &str) -> Result<Vec<String>> {
    anyhow::bail!("this program was built without RabbitMQ")
}
