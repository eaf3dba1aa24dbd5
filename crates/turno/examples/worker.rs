//! A worker: a handler for each item of a queue, with retries.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use turno::inbox::{Item, ItemState, Job};
use turno::{HandlerError, Turno};

#[derive(Serialize, Deserialize)]
struct Mail {
    to: String,
}

async fn send(job: Job<Mail>, sent: mpsc::Sender<String>) -> Result<(), HandlerError> {
    if !job.payload.to.contains('@') {
        job.fail_permanently(); // a retry does not help
        return Err("the address is invalid".into());
    }
    if job.attempt() == 1 {
        job.retry_in(Duration::ZERO); // default: a growing backoff
        return Err("the mail server is busy".into());
    }
    sent.send(job.payload.to).await?;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let turno = Turno::connect("sqlite::memory:").await?;
    let inbox = turno.inbox("mail");
    let mail = |to: &str| Mail { to: to.to_owned() };
    inbox.push(&mail("nowhere")).await?;
    let welcome = Item::new(&mail("ana@example.org"))
        .unique_key("welcome/ana")
        .priority(0);
    assert!(!inbox.push(welcome.clone()).await?.duplicate);
    assert!(inbox.push(welcome).await?.duplicate);

    let (sent, mut received) = mpsc::channel(1);
    let worker = inbox.worker(move |job| send(job, sent.clone()));
    // The worker runs until this future resolves; usually that is a signal.
    let shutdown = async {
        assert_eq!(received.recv().await.as_deref(), Some("ana@example.org"));
        while inbox.stats().await.is_ok_and(|stats| stats.failed == 0) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let report = worker.concurrency(4).run(shutdown).await?;
    assert_eq!((report.completed, report.failed), (1, 2));

    let failed = inbox.list(ItemState::Failed, None, 10).await?;
    println!("set aside: {}", failed[0].errors[0].error);
    Ok(())
}
