//! How often something can be done in a second, by so many at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;

/// How long to measure.
pub struct Run {
    time: Duration,
}

impl Run {
    pub fn new(seconds: f64) -> Self {
        Run {
            time: Duration::from_secs_f64(seconds),
        }
    }

    /// Lets each worker do its thing over and over; answers how often a second all of them did it.
    /// The first fifth is for warming up and does not count.
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

/// One kind of work. (A trait of its own, because a closure's future could not be said to be `Send`.)
pub trait AsyncWork<W>: Clone + Send + 'static {
    fn once(&self, worker: &mut W) -> impl Future<Output = Result<()>> + Send;
}
