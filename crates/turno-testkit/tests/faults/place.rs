//! An empty store for one test, and what an observer asks of it.

use std::collections::HashMap;

use tempfile::TempDir;
use tokio::runtime::Runtime;
use turno::Turno;
use turno::lock::{HistoryEntry, HistoryEvent, LockHistory, LockHolder, LockList, LockStatus};
use turno_testkit::{PostgresServer, eventually};

use crate::LONG;

/// The largest page that a list answers with.
const PAGE: u32 = 1000;

pub struct Place {
    pub url: String,
    pub name: &'static str,
    /// For a store that is a file: where it is, until the test ends.
    pub folder: TempDir,
    observer: Observer,
}

impl Place {
    /// A database of its own on the server that all tests share.
    pub fn postgres() -> Self {
        Self::new(
            "postgres",
            folder(),
            PostgresServer::shared().create_database(),
        )
    }

    /// A file of its own.
    pub fn sqlite() -> Self {
        let folder = folder();
        let url = format!("sqlite:{}", folder.path().join("turno.db").display());
        Self::new("sqlite", folder, url)
    }

    fn new(name: &'static str, folder: TempDir, url: String) -> Self {
        let observer = Observer::new(&url);
        Self {
            url,
            name,
            folder,
            observer,
        }
    }

    /// A look at the store from outside of what is tested.
    pub fn observer(&self) -> &Observer {
        &self.observer
    }
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder can be made")
}

/// Somebody who only looks.
pub struct Observer {
    turno: Turno,
    runtime: Runtime,
}

impl Observer {
    pub fn new(url: &str) -> Self {
        let runtime = runtime();
        let turno = runtime
            .block_on(Turno::connect(url))
            .expect("the store can be opened");
        Self { turno, runtime }
    }

    pub fn status(&self, resource: &str) -> LockStatus {
        self.runtime
            .block_on(self.turno.lock(resource).status())
            .expect("the status is answered")
    }

    pub fn await_waiters(&self, resource: &str, count: u64) {
        eventually(LONG, "the waiters to sign in", || {
            (self.status(resource).waiters == count).then_some(())
        });
    }

    pub fn history(&self, resource: &str, event: HistoryEvent) -> Vec<HistoryEntry> {
        let ask = LockHistory {
            resource: Some(resource.to_owned()),
            prefix: String::new(),
            before: None,
            limit: PAGE,
        };
        self.runtime
            .block_on(self.turno.lock_history(ask))
            .expect("the history is answered")
            .into_iter()
            .filter(|entry| entry.event == event)
            .collect()
    }

    /// Everything that is held now, by its name.
    pub fn held(&self) -> HashMap<String, LockHolder> {
        let mut held = HashMap::new();
        let mut after = String::new();
        loop {
            let ask = LockList {
                prefix: String::new(),
                after: after.clone(),
                limit: PAGE,
            };
            let page = self
                .runtime
                .block_on(self.turno.lock_list(ask))
                .expect("the list is answered");
            let Some(last) = page.last() else {
                return held;
            };
            after.clone_from(&last.resource);
            held.extend(
                page.into_iter()
                    .map(|holder| (holder.resource.clone(), holder)),
            );
        }
    }
}

/// Two threads, as the machines that this runs on at the least have.
pub fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime can be built")
}
