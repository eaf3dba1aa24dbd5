//! One process of a fault test: `turno-actor STORE_URL` reads one command per line and prints one line per result.
//!
//! | command | result |
//! |---|---|
//! | `acquire RESOURCE TTL_MS WAIT_MS USER` | `acquired TOKEN TOLD_US` or `busy REMAINING_MS` |
//! | `keep RESOURCE` | `kept`: the lease is renewed from now on |
//! | `release RESOURCE` | `released TOLD_US` or `lost TOLD_US` |
//! | `prepare` | `prepared`: the application's own table exists |
//! | `write RESOURCE VALUE guarded` (or `unguarded`) | `written`, or `refused` by the guard |
//! | `read` | `value VALUE` |
//! | `count FILE RESOURCE ROUNDS locked` (or `bare`) | `counted` |
//! | `load NAME TASKS SHARED` | one JSON entry per line, until it is killed |
//! | `clock` | `clock SECONDS` since 1970, as its libraries return it |
//!
//! An error is printed as `error` and the reason. It exits when its input ends.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::convert::Infallible;
use std::fs;
use std::io::{self, Write};
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rusqlite::OptionalExtension;
use tokio_postgres::NoTls;
use tokio_util::sync::CancellationToken;
use turno::Turno;
use turno::lock::{Acquire, Lease, ReleaseOutcome};
use turno_testkit::load::{self, Load, steady_us};

/// How long a round of `count` may wait for the lock.
const TURN: Duration = Duration::from_secs(120);

/// Creates the application's own table, with its single row.
const PREPARE: &str = "create table application (id integer primary key, value text not null);
insert into application values (1, 'none')";
const READ: &str = "select value from application where id = 1";

fn main() -> Result<()> {
    let url = std::env::args()
        .nth(1)
        .context("usage: turno-actor STORE_URL")?;
    // Several threads, so that renewals continue while this one reads commands.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let turno = runtime.block_on(Turno::connect(&url))?;
    say(&format!("ready {}", std::process::id()))?;
    let mut actor = Actor {
        url,
        turno,
        leases: HashMap::new(),
    };
    for line in io::stdin().lines() {
        let answer = runtime.block_on(actor.obey(&line?));
        say(&answer.unwrap_or_else(|error| format!("error {error:#}").replace('\n', " ")))?;
    }
    // Like a crash: on exit nothing is released that no command has released.
    std::process::exit(0);
}

/// One write per line, so that a kill can lose a line but never truncate it.
fn say(line: &str) -> io::Result<()> {
    io::stdout().write_all(format!("{line}\n").as_bytes())
}

struct Actor {
    url: String,
    turno: Turno,
    leases: HashMap<String, Held>,
}

struct Held {
    lease: Lease,
    renewal: Option<Box<dyn std::any::Any>>,
}

impl Actor {
    async fn obey(&mut self, line: &str) -> Result<String> {
        let mut words = Words(line.split_whitespace());
        match words.next::<String>()?.as_str() {
            "acquire" => self.acquire(&mut words).await,
            "keep" => self.keep(&mut words),
            "release" => self.release(&mut words).await,
            "prepare" => self.prepare().await,
            "write" => self.write(&mut words).await,
            "read" => self.read().await,
            "count" => self.count(&mut words).await,
            "load" => self.load(&mut words).await,
            "clock" => clock(),
            other => bail!("there is no command {other:?}"),
        }
    }

    async fn acquire(&mut self, words: &mut Words<'_>) -> Result<String> {
        let resource: String = words.next()?;
        let lock = self
            .turno
            .lock(&resource)
            .ttl(Duration::from_millis(words.next()?))
            .wait(Duration::from_millis(words.next()?))
            .user(words.next::<String>()?);
        match lock.acquire().await? {
            Acquire::Acquired(lease) => {
                let answer = format!("acquired {} {}", lease.token(), steady_us());
                let held = Held {
                    lease,
                    renewal: None,
                };
                self.leases.insert(resource, held);
                Ok(answer)
            }
            Acquire::Busy(busy) => Ok(format!("busy {}", busy.remaining.as_millis())),
        }
    }

    fn keep(&mut self, words: &mut Words<'_>) -> Result<String> {
        let held = self.held(words)?;
        held.renewal = Some(Box::new(held.lease.auto_renew()));
        Ok("kept".to_owned())
    }

    async fn release(&mut self, words: &mut Words<'_>) -> Result<String> {
        let resource: String = words.next()?;
        let held = self.leases.remove(&resource).context("not held")?;
        drop(held.renewal);
        let word = match held.lease.release().await? {
            ReleaseOutcome::Released { .. } => "released",
            ReleaseOutcome::Lost => "lost",
        };
        Ok(format!("{word} {}", steady_us()))
    }

    fn held(&mut self, words: &mut Words<'_>) -> Result<&mut Held> {
        let resource: String = words.next()?;
        self.leases.get_mut(&resource).context("not held")
    }

    async fn prepare(&self) -> Result<String> {
        match self.application().await? {
            Application::Postgres(client) => client.batch_execute(PREPARE).await?,
            Application::Sqlite(connection) => connection.execute_batch(PREPARE)?,
        }
        Ok("prepared".to_owned())
    }

    /// Changes the application's own data under a lock, with or without the guard.
    async fn write(&mut self, words: &mut Words<'_>) -> Result<String> {
        let resource: String = words.next()?;
        let (value, guarded) = (
            words.next::<String>()?,
            words.one_of("guarded", "unguarded")?,
        );
        let lease = &self.leases.get(&resource).context("not held")?.lease;
        let guard = match self.application().await? {
            Application::Postgres(mut client) => {
                let mut tx = client.transaction().await?;
                tx.execute("update application set value = $1 where id = 1", &[&value])
                    .await?;
                let guard = if guarded {
                    lease.guard(&mut tx).await
                } else {
                    Ok(())
                };
                match guard {
                    Ok(()) => tx.commit().await?,
                    Err(_) => tx.rollback().await?,
                }
                guard
            }
            Application::Sqlite(mut connection) => {
                let mut tx = connection.transaction()?;
                tx.execute("update application set value = ?1 where id = 1", [&value])?;
                let guard = if guarded {
                    lease.guard(&mut tx).await
                } else {
                    Ok(())
                };
                match guard {
                    Ok(()) => tx.commit()?,
                    Err(_) => tx.rollback()?,
                }
                guard
            }
        };
        match guard {
            Ok(()) => Ok("written".to_owned()),
            Err(error) if error.is_lost() => Ok("refused".to_owned()),
            Err(error) => Err(error.into()),
        }
    }

    async fn read(&self) -> Result<String> {
        let value: Option<String> = match self.application().await? {
            Application::Postgres(client) => {
                let row = client.query_opt(READ, &[]).await?;
                row.map(|row| row.get(0))
            }
            Application::Sqlite(connection) => connection
                .query_row(READ, [], |row| row.get(0))
                .optional()?,
        };
        Ok(format!("value {}", value.context("nothing was prepared")?))
    }

    /// Reads a number from a plain file, adds one and writes it back: wrong without mutual exclusion.
    async fn count(&self, words: &mut Words<'_>) -> Result<String> {
        let (file, resource): (String, String) = (words.next()?, words.next()?);
        let (rounds, locked) = (words.next::<u32>()?, words.one_of("locked", "bare")?);
        for round in 0..rounds {
            let lock = self.turno.lock(&resource).wait(TURN);
            if !locked {
                increment(&file);
            } else if round % 2 == 0 {
                lock.run(async |_| {
                    increment(&file);
                    Ok::<_, Infallible>(())
                })
                .await?;
            } else {
                let lease = lock
                    .acquire()
                    .await?
                    .acquired()
                    .context("no turn in time")?;
                increment(&file);
                if lease.release().await? == ReleaseOutcome::Lost {
                    bail!("a lease was lost within a moment");
                }
            }
        }
        Ok("counted".to_owned())
    }

    async fn load(&self, words: &mut Words<'_>) -> Result<String> {
        let load = Load {
            name: words.next()?,
            tasks: words.next()?,
            shared: words.next()?,
        };
        let never = CancellationToken::new();
        load::run(&self.turno, &load, &never, |entry| {
            let line = serde_json::to_string(&entry).expect("an entry is plain data");
            // If this fails, the parent does not read any more: the test is over, and this process ends soon.
            let _ = say(&line);
        })
        .await;
        bail!("a load never ends")
    }

    /// Opens the application's own connection to the database of the locks.
    async fn application(&self) -> Result<Application> {
        if let Some(file) = self.url.strip_prefix("sqlite:") {
            return Ok(Application::Sqlite(rusqlite::Connection::open(file)?));
        }
        let (client, connection) = tokio_postgres::connect(&self.url, NoTls).await?;
        // Ends with its client.
        tokio::spawn(connection);
        Ok(Application::Postgres(client))
    }
}

enum Application {
    Postgres(tokio_postgres::Client),
    Sqlite(rusqlite::Connection),
}

/// A file that another process is writing reads as empty: one of the ways to lose a count.
fn increment(file: &str) {
    let count: u64 = fs::read_to_string(file)
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(0);
    std::thread::yield_now();
    // A failed write is a lost count, which the test detects.
    let _ = fs::write(file, (count + 1).to_string());
}

#[expect(
    clippy::disallowed_methods,
    reason = "shows that the test really bends the clock that libraries see"
)]
fn clock() -> Result<String> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
    Ok(format!("clock {}", now.as_secs()))
}

struct Words<'a>(std::str::SplitWhitespace<'a>);

impl Words<'_> {
    fn next<T>(&mut self) -> Result<T>
    where
        T: FromStr<Err: std::error::Error + Send + Sync + 'static>,
    {
        let word = self.0.next().context("the command is too short")?;
        word.parse().with_context(|| format!("{word:?}"))
    }

    /// Returns whether the next word is the first of two allowed ones.
    fn one_of(&mut self, yes: &str, no: &str) -> Result<bool> {
        match self.next::<String>()? {
            word if word == yes => Ok(true),
            word if word == no => Ok(false),
            word => bail!("{word:?} is neither {yes} nor {no}"),
        }
    }
}
