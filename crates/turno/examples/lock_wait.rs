//! Waiting for a lock: callers queue up and get it in the order in which they came.

use std::time::Duration;

use turno::Turno;

const WAIT: Duration = Duration::from_secs(30);

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let turno = Turno::connect("sqlite::memory:").await?;
    let first = turno.lock("printer").owner("first").acquire().await?;
    let first = first.acquired().ok_or("the printer is free")?;

    let (order, mut served) = tokio::sync::mpsc::unbounded_channel();
    let mut waiters = tokio::task::JoinSet::new();
    for (position, name) in (1..).zip(["second", "third"]) {
        let (turno, order) = (turno.clone(), order.clone());
        let wait = turno.lock("printer").owner(name).wait(WAIT).fifo();
        waiters.spawn(async move {
            let print = wait.run(async |_| order.send(name));
            print.await.map_err(|error| error.to_string())
        });
        // The next caller comes when this one is registered.
        while turno.lock("printer").status().await?.waiters < position {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    first.release().await?;
    while let Some(printed) = waiters.join_next().await {
        printed??;
    }
    drop(order);
    assert_eq!(served.recv().await, Some("second"));
    assert_eq!(served.recv().await, Some("third"));
    Ok(())
}
