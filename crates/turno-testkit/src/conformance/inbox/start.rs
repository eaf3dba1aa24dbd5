//! Workers that run in the background of a rule until it stops them.

use serde::de::DeserializeOwned;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use turno::HandlerError;
use turno::inbox::{Job, Worker, WorkerReport};

use crate::conformance::lock::fixtures::TIMEOUT;

/// A running worker. On drop, it is shut down.
pub(in crate::conformance) struct Running {
    stop: oneshot::Sender<()>,
    task: JoinHandle<turno::Result<WorkerReport>>,
}

pub(in crate::conformance) fn start<T, H, F, E>(worker: Worker<T, H>) -> Running
where
    H: Fn(Job<T>) -> F + Send + Sync + 'static,
    F: Future<Output = Result<(), E>> + Send + 'static,
    E: Into<HandlerError> + Send + 'static,
    T: DeserializeOwned + Send + 'static,
{
    let (stop, stopped) = oneshot::channel();
    let task = tokio::spawn(worker.run(async {
        // Both a signal and a dropped sender are the end.
        let _ = stopped.await;
    }));
    Running { stop, task }
}

impl Running {
    /// Shuts it down, and waits for its end.
    pub(in crate::conformance) async fn stop(self) -> WorkerReport {
        self.begin_stop().ended().await
    }

    /// Begins the shutdown.
    pub(in crate::conformance) fn begin_stop(self) -> Stopping {
        assert!(self.stop.send(()).is_ok(), "the worker has ended by itself");
        Stopping { task: self.task }
    }
}

/// A worker that is shutting down.
pub(in crate::conformance) struct Stopping {
    task: JoinHandle<turno::Result<WorkerReport>>,
}

impl Stopping {
    pub(in crate::conformance) async fn ended(self) -> WorkerReport {
        let report = timeout(TIMEOUT, self.task).await;
        report.expect("it never ends").unwrap().unwrap()
    }
}
