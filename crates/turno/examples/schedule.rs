//! A schedule: each tick is pushed once, however many instances run it.

use std::time::Duration;

use turno::Turno;
use turno::inbox::Job;

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let turno = Turno::connect("sqlite::memory:").await?;
    let (done, mut ticks) = tokio::sync::mpsc::channel(8);
    let handler = move |job: Job<String>| {
        let done = done.clone();
        async move { done.send(job.payload).await }
    };

    // Two instances run the same schedule, here one tick per second: "0 3 * * *" is three in the morning.
    let stop = tokio_util::sync::CancellationToken::new();
    let schedule = || {
        turno
            .schedule("cleanup", "* * * * * *")
            .time_zone("America/Mexico_City")
            .item("old files")
            .run(stop.clone().cancelled_owned())
    };
    let two_ticks = async {
        let began = tokio::time::Instant::now();
        assert_eq!(ticks.recv().await.as_deref(), Some("old files"));
        assert_eq!(ticks.recv().await.as_deref(), Some("old files"));
        assert!(
            began.elapsed() > Duration::from_millis(500),
            "one item per tick"
        );
        stop.cancel();
    };
    let worker = turno.inbox("cleanup").worker(handler).run(two_ticks);
    let (first, second, worked) = tokio::join!(schedule(), schedule(), worker);
    first?;
    second?;
    assert!(worked?.completed >= 2);
    Ok(())
}
