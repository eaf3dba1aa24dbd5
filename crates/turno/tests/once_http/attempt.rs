//! What a handler knows about its run, and how it completes the run together with its effects.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{Response, StatusCode, header};
use rusqlite::{Connection, TransactionBehavior};
use tempfile::TempDir;
use tokio::runtime::Handle;
use turno::once::http::{Attempt, Policy, Unknown};
use turno::once::{OnceState, Released};

use crate::kit::{Held, Site, paying, problem};

#[tokio::test]
async fn a_handler_knows_its_run() {
    let site = Site::new(Policy::new("pagos"), async |_, request: Request| {
        let attempt = request.extensions().get::<Attempt>().unwrap();
        assert_eq!(attempt.number(), 1);
        format!("{}@{}", attempt.key(), attempt.token())
    })
    .await;
    let response = site.send(paying("77")).await;
    let view = site.await_state(OnceState::Done).await;
    assert_eq!(response.text(), view.claim.to_string());
    assert!(response.text().starts_with("pagos:"));
}

/// How a handler that pays in its own transaction ends.
#[derive(Debug, Clone, Copy, PartialEq)]
enum End {
    Commit,
    Rollback,
    CommitAndPanic,
}

/// The application, with its own connection to the database of the layer's store.
struct Application {
    _folder: TempDir,
    file: PathBuf,
}

impl Application {
    fn new() -> Arc<Self> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("app.db");
        let db = open(&file);
        db.execute_batch("create table payment (run integer)")
            .unwrap();
        Arc::new(Application {
            _folder: folder,
            file,
        })
    }

    fn url(&self) -> String {
        format!("sqlite:{}", self.file.display())
    }

    fn payments(&self) -> Vec<u32> {
        let db = open(&self.file);
        let mut read = db
            .prepare("select run from payment order by rowid")
            .unwrap();
        let runs = read.query_map([], |row| row.get(0)).unwrap();
        runs.collect::<Result<_, _>>().unwrap()
    }

    /// Pays and completes in one transaction. Returns `None` if the claim was rejected and nothing was paid.
    async fn pay(&self, run: u32, attempt: Attempt, end: End) -> Option<Response<Bytes>> {
        let file = self.file.clone();
        let response = Response::builder()
            .status(StatusCode::CREATED)
            .header(header::LOCATION, format!("/pagos/{run}"))
            .body(Bytes::from(format!("run {run}")))
            .unwrap();
        let pay = move || {
            let mut db = open(&file);
            let immediate = TransactionBehavior::Immediate;
            let mut tx = db.transaction_with_behavior(immediate).unwrap();
            tx.execute("insert into payment values (?1)", [run])
                .unwrap();
            let completed = Handle::current().block_on(attempt.complete_in(&mut tx, &response));
            match completed {
                Err(error) if error.is_lost() => return None,
                completed => completed.unwrap(),
            }
            match end {
                End::Rollback => tx.rollback().unwrap(),
                End::Commit | End::CommitAndPanic => tx.commit().unwrap(),
            }
            Some(response)
        };
        // A transaction of rusqlite must stay on its thread.
        tokio::task::spawn_blocking(pay).await.unwrap()
    }

    /// Creates a site whose first run ends with `first`, and every other run with a commit.
    async fn site(self: &Arc<Self>, first: End) -> Site {
        let application = self.clone();
        Site::on(
            &self.url(),
            Policy::new("pagos"),
            move |run, request: Request| {
                let application = application.clone();
                async move {
                    let attempt = request.extensions().get::<Attempt>().unwrap().clone();
                    let end = if run == 1 { first } else { End::Commit };
                    let response = application.pay(run, attempt, end).await.unwrap();
                    match end {
                        End::Commit => response.map(Body::from),
                        End::Rollback => failure(),
                        End::CommitAndPanic => panic!("on purpose"),
                    }
                }
            },
        )
        .await
    }
}

fn open(file: &Path) -> Connection {
    let db = Connection::open(file).unwrap();
    db.busy_timeout(crate::LONG).unwrap();
    db
}

fn failure() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    response
}

#[tokio::test]
async fn the_answer_is_there_with_its_effect() {
    let application = Application::new();
    let site = application.site(End::Commit).await;
    for is_replayed in [false, true] {
        let response = site.send(paying("77")).await;
        assert_eq!((response.status.as_u16(), response.text()), (201, "run 1"));
        assert_eq!(response.header("location"), Some("/pagos/1"));
        assert_eq!(response.is_replayed(), is_replayed);
    }
    assert_eq!(application.payments(), [1]);
    let view = site.await_state(OnceState::Done).await;
    // The layer has completed the run a second time, and that did not count as late.
    assert_eq!((view.late, site.counts().stale), (0, 0));
}

#[tokio::test]
async fn neither_is_there_after_a_rollback() {
    let application = Application::new();
    let site = application.site(End::Rollback).await;
    assert_eq!(site.send(paying("77")).await.status.as_u16(), 500);
    assert_eq!(application.payments(), [] as [u32; 0]);
    let response = site.send(paying("77")).await;
    assert_eq!((response.text(), response.is_replayed()), ("run 2", false));
    assert_eq!(application.payments(), [2]);
}

/// A commit is kept, whatever happens to its handler afterwards.
#[tokio::test]
async fn both_are_there_after_a_panic_that_follows() {
    let application = Application::new();
    let site = application.site(End::CommitAndPanic).await;
    let response = site.send(paying("77")).await;
    assert_eq!(response.problem(), problem(500, "failed"));
    let again = site.send(paying("77")).await;
    assert_eq!((again.text(), again.is_replayed()), ("run 1", true));
    assert_eq!(application.payments(), [1]);
}

/// A run that lost its claim pays nothing.
#[tokio::test]
async fn neither_is_there_for_a_run_that_comes_too_late() {
    let application = Application::new();
    let held = Held::new();
    let policy = Policy::new("pagos").unknown(Unknown::Rerun);
    let (handling, holding) = (application.clone(), held.clone());
    let site = Site::on(&application.url(), policy, move |run, request: Request| {
        let (application, held) = (handling.clone(), holding.clone());
        async move {
            let attempt = request.extensions().get::<Attempt>().unwrap().clone();
            if run == 1 {
                held.hold().await;
            }
            match application.pay(run, attempt, End::Commit).await {
                Some(response) => response.map(Body::from),
                None => failure(),
            }
        }
    })
    .await;
    let first = site.sending(paying("77"));
    held.begun().await;
    let view = site.await_state(OnceState::InFlight).await;
    let doubted = site
        .turno
        .once_release(&view.claim, Released::Unknown)
        .await;
    doubted.unwrap();
    assert_eq!(site.send(paying("77")).await.text(), "run 2");
    held.go();
    assert_eq!(first.await.unwrap().status.as_u16(), 500);
    assert_eq!(application.payments(), [2]);
    let again = site.send(paying("77")).await;
    assert_eq!((again.text(), again.is_replayed()), ("run 2", true));
}
