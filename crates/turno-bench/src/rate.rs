//! Rate per second of an operation with concurrent workers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;

/// Duration of a measurement.
pub struct Run {
    time: Duration,
}

impl Run {
    pub fn new(seconds: f64) -> Self {
        Run {
            time: Duration::from_secs_f64(seconds),
        }
    }

    /// Runs the work of each worker in a loop and returns the total rate per second. The first fifth is a warm-up and does not
    /// count.
    pub async fn rate<W, F>(&self, workers: Vec<W>, work: F) -> Result<f64>
    where
        W: Send + 'static,
        F: AsyncWork<W>,
    {
        let begin = Instant::now() + self.time / 5;
        let end = begin + self.time;
        let done = Arc::new(AtomicU64::new(0));
        let mut tasks = Vec::new();
        for mut worker in workers {
            let (work, done) = (work.clone(), done.clone());
            tasks.push(tokio::spawn(async move {
                loop {
                    let now = Instant::now();
                    if now >= end {
                        return anyhow::Ok(());
                    }
                    work.once(&mut worker).await?;
                    if now >= begin {
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }));
        }
        for task in tasks {
            task.await??;
        }
        Ok(done.load(Ordering::Relaxed) as f64 / self.time.as_secs_f64())
    }
}

/// One kind of work. It is a trait, because the future of a closure could not be declared `Send`.
pub trait AsyncWork<W>: Clone + Send + 'static {
    fn once(&self, worker: &mut W) -> impl Future<Output = Result<()>> + Send;
}
