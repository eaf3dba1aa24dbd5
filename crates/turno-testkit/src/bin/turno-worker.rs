//! One worker process of a fault test: `turno-worker STORE_URL QUEUE ENDING LEASE_MS CONCURRENCY PREFETCH FOLDER`.
//!
//! It runs a worker on a queue. Each handler writes a row into the application's own table `effect`, in the database of the
//! queue, and then ends its item as ENDING says:
//!
//! | ending | how the item ends |
//! |---|---|
//! | `effect` | in the transaction of the effect |
//! | `plain` | after that transaction, when the handler has returned |
//! | `naive` | in the transaction of the effect, deleted by its id, without a check of the claim |
//!
//! The first word of an item's payload says what its handler does before that:
//!
//! | payload | the handler |
//! |---|---|
//! | `work` | nothing else |
//! | `held` | prints `began ITEM ATTEMPT`, waits for the line `go`, and then prints `written ITEM` or `refused ITEM` |
//! | `flaky` | fails some of its attempts |
//! | `poison` | fails its first attempt, and kills its own process in every other |
//! | `fatal` | kills its own process in its first attempt, right after the effect was committed |
//!
//! A third word is the item's group. Each run of a handler is recorded in a history in FOLDER.
//!
//! It prints `ready PID` first and `ended COMPLETED FAILED GIVEN_BACK LOST` last. It ends gracefully on SIGTERM, and at once
//! when its input ends.
#![forbid(unsafe_code)]

use std::io::{self, Write};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Signal, getpid, kill_process};
use tokio::runtime::Handle;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;
use tokio_postgres::NoTls;
use tokio_postgres::types::Type;
use turno::Turno;
use turno::inbox::Job;
use turno_testkit::history::inbox::{Answer, Call};
use turno_testkit::history::{self, Recorder};
use turno_testkit::load::steady_us;

/// Pause before a retry: short, but not zero, so that other items are claimed in between.
const RETRY: Duration = Duration::from_millis(20);
/// How long a transaction waits for other processes.
const TIMEOUT: Duration = Duration::from_secs(60);

fn main() -> Result<()> {
    let mut words = Words(std::env::args().skip(1));
    let (url, queue): (String, String) = (words.next()?, words.next()?);
    let ending: Ending = words.next()?;
    let lease = Duration::from_millis(words.next()?);
    let (concurrency, prefetch): (usize, usize) = (words.next()?, words.next()?);
    let folder: PathBuf = words.next()?;

    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut term = signal(SignalKind::terminate())?;
        let turno = Turno::connect(&url).await?;
        let worker = Arc::new(Worker {
            application: Application::new(&url)?,
            queue: queue.clone(),
            ending,
            recorder: Recorder::create(&folder, &format!("worker-{}", std::process::id()))?,
            go: Semaphore::new(0),
        });
        obey(&worker);
        say(&format!("ready {}", std::process::id()))?;
        let handler = move |job: Job<String>| {
            // In a separate task, like work in a thread: it continues when the handler's future is dropped, and then presents
            // a lost claim.
            let work = tokio::spawn(worker.clone().handle(job));
            async move {
                let worked = work.await.unwrap_or_else(|error| Err(error.into()));
                worked.map_err(|error| format!("{error:#}"))
            }
        };
        let report = turno
            .inbox(&queue)
            .worker(handler)
            .lease(lease)
            .concurrency(concurrency)
            .prefetch(prefetch)
            .run(async {
                term.recv().await;
            })
            .await?;
        say(&format!(
            "ended {} {} {} {}",
            report.completed, report.failed, report.given_back, report.lost
        ))
    })
}

/// Reads commands, in a thread that ends with the process.
fn obey(worker: &Arc<Worker>) {
    let worker = worker.clone();
    std::thread::spawn(move || {
        for line in io::stdin().lines().map_while(Result::ok) {
            if line == "go" {
                worker.go.add_permits(1);
            }
        }
        // The parent process has ended.
        std::process::exit(0);
    });
}

/// One write per line, so that a kill can lose a line but never truncate it.
fn say(line: &str) -> Result<()> {
    Ok(io::stdout().write_all(format!("{line}\n").as_bytes())?)
}

/// Kills this process, as `kill -9` does.
fn die() -> Result<()> {
    kill_process(getpid(), Signal::KILL)?;
    bail!("a killed process does not get here")
}

/// How an item ends.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Ending {
    Effect,
    Plain,
    Naive,
}

impl FromStr for Ending {
    type Err = anyhow::Error;

    fn from_str(word: &str) -> Result<Self> {
        match word {
            "effect" => Ok(Self::Effect),
            "plain" => Ok(Self::Plain),
            "naive" => Ok(Self::Naive),
            _ => bail!("{word:?} is neither effect nor plain nor naive"),
        }
    }
}

struct Worker {
    application: Application,
    queue: String,
    ending: Ending,
    recorder: Recorder,
    /// One permit per handler that may continue.
    go: Semaphore,
}

impl Worker {
    async fn handle(self: Arc<Self>, job: Job<String>) -> Result<()> {
        job.retry_in(RETRY);
        let (item, attempt) = (job.id().0, job.attempt());
        let name = job.payload.clone();
        let mut words = name.split(' ');
        let what = words.next().unwrap_or_default();
        let pending = self.recorder.call(history::Call::Inbox(Call::Handle {
            queue: self.queue.clone(),
            name: name.clone(),
            item,
            attempt,
            group: words.nth(1).map(str::to_owned),
        }));
        let record = |answer| pending.answer(history::Answer::Inbox(answer));
        match what {
            "held" => {
                say(&format!("began {item} {attempt}"))?;
                self.go.acquire().await?.forget();
            }
            "flaky" if (item + i64::from(attempt)) % 3 == 0 => {
                record(Answer::Failed);
                bail!("one of the attempts that fail")
            }
            "poison" if attempt == 1 => {
                record(Answer::Failed);
                bail!("not to be worked on")
            }
            "poison" => die()?,
            _ => {}
        }
        let written = self.application.write(job, self.ending).await?;
        record(match written {
            Some(commit_us) => Answer::Completed { commit_us },
            None => Answer::Refused,
        });
        let written = written.is_some();
        match what {
            "held" if written => say(&format!("written {item}"))?,
            "held" => say(&format!("refused {item}"))?,
            "fatal" if attempt == 1 => die()?,
            _ => {}
        }
        if !written {
            bail!("the claim is lost");
        }
        Ok(())
    }
}

/// The application's own connection to the database of the queue. All handlers share it, one at a time.
enum Application {
    Postgres {
        url: String,
        client: Box<tokio::sync::Mutex<Option<tokio_postgres::Client>>>,
    },
    Sqlite(Arc<Mutex<rusqlite::Connection>>),
}

impl Application {
    fn new(url: &str) -> Result<Self> {
        let Some(file) = url.strip_prefix("sqlite:") else {
            return Ok(Self::Postgres {
                url: url.to_owned(),
                client: Box::default(),
            });
        };
        let connection = rusqlite::Connection::open(file)?;
        connection.busy_timeout(TIMEOUT)?;
        // Committed data must survive this process, not the machine.
        connection.pragma_update(None, "synchronous", "normal")?;
        Ok(Self::Sqlite(Arc::new(Mutex::new(connection))))
    }

    /// Writes the effect of a job and ends its item. Returns when the commit was sent, or `None` if the claim was rejected and nothing was
    /// written.
    async fn write(&self, job: Job<String>, ending: Ending) -> Result<Option<i64>> {
        match self {
            Self::Postgres { url, client } => {
                let mut client = client.lock().await;
                let open = match client.take() {
                    Some(open) if !open.is_closed() => open,
                    _ => connect(url).await?,
                };
                write_postgres(client.insert(open), &job, ending).await
            }
            Self::Sqlite(connection) => {
                let connection = connection.clone();
                tokio::task::spawn_blocking(move || {
                    let mut connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
                    Handle::current().block_on(write_sqlite(&mut connection, &job, ending))
                })
                .await?
            }
        }
    }
}

async fn connect(url: &str) -> Result<tokio_postgres::Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    // Ends with its client.
    tokio::spawn(connection);
    Ok(client)
}

async fn write_postgres(
    client: &mut tokio_postgres::Client,
    job: &Job<String>,
    ending: Ending,
) -> Result<Option<i64>> {
    let mut tx = client.transaction().await?;
    let item = job.id().0;
    let attempt = i64::from(job.attempt());
    tx.query_typed(
        "insert into effect (payload, attempt) values ($1, $2)",
        &[(&job.payload, Type::TEXT), (&attempt, Type::INT8)],
    )
    .await?;
    match ending {
        Ending::Effect => match job.complete_in(&mut tx).await {
            Err(error) if error.is_lost() => {
                tx.rollback().await?;
                return Ok(None);
            }
            completed => completed?,
        },
        Ending::Plain => {}
        Ending::Naive => {
            let delete = "delete from turno.inbox_item where id = $1";
            tx.query_typed(delete, &[(&item, Type::INT8)]).await?;
        }
    }
    let commit_us = steady_us();
    tx.commit().await?;
    Ok(Some(commit_us))
}

async fn write_sqlite(
    connection: &mut rusqlite::Connection,
    job: &Job<String>,
    ending: Ending,
) -> Result<Option<i64>> {
    let mut tx = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let item = job.id().0;
    tx.prepare_cached("insert into effect (payload, attempt) values (?1, ?2)")?
        .execute((&job.payload, job.attempt()))?;
    match ending {
        Ending::Effect => match job.complete_in(&mut tx).await {
            Err(error) if error.is_lost() => {
                tx.rollback()?;
                return Ok(None);
            }
            completed => completed?,
        },
        Ending::Plain => {}
        Ending::Naive => {
            tx.execute("delete from turno_inbox_item where id = ?1", [item])?;
        }
    }
    let commit_us = steady_us();
    tx.commit()?;
    Ok(Some(commit_us))
}

struct Words<I>(I);

impl<I: Iterator<Item = String>> Words<I> {
    fn next<T>(&mut self) -> Result<T>
    where
        T: FromStr<Err: Into<anyhow::Error>>,
    {
        let word = self.0.next().context(
            "usage: turno-worker STORE_URL QUEUE ENDING LEASE_MS CONCURRENCY PREFETCH FOLDER",
        )?;
        word.parse()
            .map_err(|error: T::Err| error.into().context(format!("{word:?}")))
    }
}
