//! Pushes and drains many items, and prints the rates: a quick look, not a benchmark.
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use turno::inbox::{Item, Job};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let url = args.next().unwrap();
    let n: usize = args.next().unwrap().parse()?;
    let workers: usize = args.next().unwrap().parse()?;
    let prefetch: usize = args.next().unwrap().parse()?;
    let turno = turno::Turno::connect(&url).await?;
    let queue = format!("drain{}", std::process::id());
    let inbox = turno.inbox(&queue);
    let payload = "y".repeat(90);
    let began = Instant::now();
    for _ in 0..n / 1000 {
        let items = (0..1000).map(|_| Item::new(&payload).unwrap());
        inbox.push_many(items).await?;
    }
    println!("push {:.0}/s", n as f64 / began.elapsed().as_secs_f64());
    let done = Arc::new(AtomicUsize::new(0));
    let all = tokio_util::sync::CancellationToken::new();
    let began = Instant::now();
    let mut tasks = Vec::new();
    for _ in 0..workers {
        let (done, all2, all3) = (done.clone(), all.clone(), all.clone());
        let inbox = inbox.clone();
        tasks.push(tokio::spawn(async move {
            inbox
                .worker(move |_job: Job<String>| {
                    let (done, all) = (done.clone(), all2.clone());
                    async move {
                        if done.fetch_add(1, Ordering::Relaxed) + 1 == n {
                            all.cancel();
                        }
                        Ok::<_, std::convert::Infallible>(())
                    }
                })
                .concurrency(16)
                .prefetch(prefetch)
                .run(all3.cancelled_owned())
                .await
        }));
    }
    for task in tasks {
        println!("{:?}", task.await??);
    }
    println!("drain {:.0}/s", n as f64 / began.elapsed().as_secs_f64());
    println!("{:?}", inbox.stats().await?);
    Ok(())
}
