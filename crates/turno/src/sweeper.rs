//! The sweeper: deletes regularly what is no longer needed.

use std::fmt;
use std::time::Duration;

use crate::Turno;
use crate::store::{Sweep, Swept};
use crate::waiting;

/// Default of [`Sweeper::every`].
const DEFAULT_INTERVAL: Duration = Duration::from_secs(60);
/// Factor by which the pause grows after a sweep that deleted nothing.
const IDLE_FACTOR: u32 = 3;

type Callback = Box<dyn FnMut(Swept) + Send>;

/// Sweeps regularly. Nothing happens before [`Sweeper::run`]. Several instances may sweep one store.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> turno::Result<()> {
/// use std::time::Duration;
///
/// let turno = turno::Turno::connect("sqlite::memory:").await?;
/// let shutdown = tokio::time::sleep(Duration::from_millis(10)); // such as a signal
/// turno.sweeper().every(Duration::from_secs(60)).run(shutdown).await;
/// # Ok(()) }
/// ```
#[must_use = "nothing happens before run"]
pub struct Sweeper {
    turno: Turno,
    interval: Duration,
    retention: Sweep,
    on_sweep: Option<Callback>,
}

impl fmt::Debug for Sweeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sweeper")
            .field("interval", &self.interval)
            .field("retention", &self.retention)
            .finish_non_exhaustive()
    }
}

impl Turno {
    /// Creates a sweeper, which sweeps regularly. Nothing happens before [`Sweeper::run`].
    pub fn sweeper(&self) -> Sweeper {
        Sweeper {
            turno: self.clone(),
            interval: DEFAULT_INTERVAL,
            retention: Sweep::default(),
            on_sweep: None,
        }
    }
}

impl Sweeper {
    /// Sets the pause between two sweeps. Default: 60 seconds. Each pause varies by a tenth; after a sweep that deleted
    /// nothing it is three times as long, up to [`Settings::idle_poll_max`](crate::Settings::idle_poll_max).
    pub fn every(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// Sets how long old records are kept. Default: [`Sweep::default`].
    pub fn retention(mut self, retention: Sweep) -> Self {
        self.retention = retention;
        self
    }

    /// Sets a callback that gets the counts of each sweep, also if it deleted nothing. Default: none.
    pub fn on_sweep(mut self, callback: impl FnMut(Swept) + Send + 'static) -> Self {
        self.on_sweep = Some(Box::new(callback));
        self
    }

    /// Sweeps until `shutdown` resolves. A sweep that fails is logged and repeated after the next pause.
    ///
    /// Cancel-safe: dropping the future stops the sweeper.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> turno::Result<()> {
    /// use std::time::Duration;
    ///
    /// let turno = turno::Turno::connect("sqlite::memory:").await?;
    /// let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel::<turno::lock::Swept>();
    /// let report = move |swept| { let _ = sender.send(swept); };
    /// let first_sweep = async { assert!(receiver.recv().await.is_some_and(|swept| swept.is_empty())) };
    /// turno.sweeper().every(Duration::from_millis(10)).on_sweep(report).run(first_sweep).await;
    /// # Ok(()) }
    /// ```
    pub async fn run(mut self, shutdown: impl Future<Output = ()> + Send) {
        tokio::select! {
            () = shutdown => {}
            never = self.sweep_forever() => match never {},
        }
    }

    async fn sweep_forever(&mut self) -> std::convert::Infallible {
        let mut refused = None;
        let when_idle = (self.interval * IDLE_FACTOR)
            .min(self.turno.settings().idle_poll_max)
            .max(self.interval);
        let mut pause = self.interval;
        loop {
            tokio::time::sleep(waiting::jittered(pause)).await;
            match self.turno.sweep(&self.retention).await {
                Ok(swept) => {
                    refused = None;
                    pause = if swept.is_empty() {
                        when_idle
                    } else {
                        tracing::info!(?swept, "swept");
                        self.interval
                    };
                    if let Some(callback) = &mut self.on_sweep {
                        callback(swept);
                    }
                }
                // A role without the right to sweep does not get it by another attempt: one warning is enough.
                Err(error) if error.is_refused() => {
                    let message = error.to_string();
                    if refused.as_ref() == Some(&message) {
                        tracing::debug!(%error, "the sweep is still refused");
                    } else {
                        tracing::warn!(%error, "the sweep is refused; it is tried again without further warnings");
                        refused = Some(message);
                    }
                }
                Err(error) => tracing::warn!(%error, "the sweep failed; it is tried again later"),
            }
        }
    }
}
