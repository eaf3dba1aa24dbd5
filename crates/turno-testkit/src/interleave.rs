//! Runs the statements of several PostgreSQL sessions in every order.
//!
//! A *script* is the list of statements of one session. The scheduler takes one statement at a time, in a given order of the
//! sessions. A statement that waits for another session's lock leaves the turn to the others, as it does between real sessions, and
//! is finished when it can be. Whether a session waits is what the server says (`pg_blocking_pids`), not a matter of time.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::task::JoinHandle;
use tokio_postgres::{Client, SimpleQueryMessage};

use crate::sql::connect;

/// Pause between two looks at a session that neither waits nor is done.
const LOOK: Duration = Duration::from_micros(300);

/// The answer of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The rows, each as its values.
    Rows(Vec<Vec<Option<String>>>),
    /// The server's error: its SQLSTATE.
    Error(String),
}

impl Answer {
    /// The first value of the first row.
    pub fn first(&self) -> Option<&str> {
        match self {
            Answer::Rows(rows) => rows.first()?.first()?.as_deref(),
            Answer::Error(_) => None,
        }
    }
}

/// What happened in one order.
#[derive(Debug, Clone)]
pub struct Ran {
    /// Whose turn it was, one after the other.
    pub order: Vec<usize>,
    /// The answers of each session.
    pub answers: Vec<Vec<Answer>>,
}

/// All orders in which sessions with so many statements can take their turns.
pub fn orders(lengths: &[usize]) -> Vec<Vec<usize>> {
    fn extend(left: &mut [usize], order: &mut Vec<usize>, orders: &mut Vec<Vec<usize>>) {
        if left.iter().all(|left| *left == 0) {
            orders.push(order.clone());
        }
        for session in 0..left.len() {
            if left[session] > 0 {
                left[session] -= 1;
                order.push(session);
                extend(left, order, orders);
                order.pop();
                left[session] += 1;
            }
        }
    }
    let mut orders = Vec::new();
    extend(&mut lengths.to_vec(), &mut Vec::new(), &mut orders);
    orders
}

/// Sessions that take turns.
pub struct Sessions {
    sessions: Vec<Session>,
    /// Asks the server who waits.
    observer: Client,
}

struct Session {
    client: std::sync::Arc<Client>,
    pid: i32,
    running: Option<JoinHandle<Answer>>,
}

impl Sessions {
    /// Opens that many sessions.
    ///
    /// # Errors
    /// Returns an error if the server is unavailable.
    pub async fn open(url: &str, many: usize) -> Result<Self> {
        let mut sessions = Vec::new();
        for _ in 0..many {
            let client = connect(url).await?;
            client
                .batch_execute("set deadlock_timeout = '100ms'")
                .await
                .ok();
            let pid = client.query_one("select pg_backend_pid()", &[]).await?;
            sessions.push(Session {
                pid: pid.get(0),
                client: client.into(),
                running: None,
            });
        }
        Ok(Sessions {
            sessions,
            observer: connect(url).await?,
        })
    }

    /// Runs scripts, one statement at a time, in an order of [`orders`].
    ///
    /// # Errors
    /// Returns an error if a connection is lost.
    pub async fn run(&mut self, scripts: &[Vec<String>], order: &[usize]) -> Result<Ran> {
        let mut ran = Ran {
            order: order.to_vec(),
            answers: vec![Vec::new(); scripts.len()],
        };
        let mut next = vec![0; scripts.len()];
        for session in order {
            self.turn(*session, scripts, &mut next, &mut ran).await?;
        }
        // What could not begin in its turn, because an earlier statement of its session waited.
        while (0..scripts.len()).any(|session| ran.answers[session].len() < scripts[session].len())
        {
            let before: usize = ran.answers.iter().map(Vec::len).sum();
            for session in 0..scripts.len() {
                self.turn(session, scripts, &mut next, &mut ran).await?;
            }
            let after: usize = ran.answers.iter().map(Vec::len).sum();
            if before == after {
                // All wait: the server ends one of them when it finds the deadlock.
                tokio::time::sleep(LOOK).await;
            }
        }
        Ok(ran)
    }

    /// Starts the next statement of a session, unless it waits, and sees how far all sessions get.
    async fn turn(
        &mut self,
        session: usize,
        scripts: &[Vec<String>],
        next: &mut [usize],
        ran: &mut Ran,
    ) -> Result<()> {
        let own = &mut self.sessions[session];
        if own.running.is_none() && next[session] < scripts[session].len() {
            let sql = scripts[session][next[session]].clone();
            next[session] += 1;
            let client = own.client.clone();
            own.running = Some(tokio::spawn(async move { ask(&client, &sql).await }));
        }
        // The statement may have freed others, which go on at once.
        for index in 0..self.sessions.len() {
            if let Some(answer) = self.settle(index).await? {
                ran.answers[index].push(answer);
            }
        }
        Ok(())
    }

    /// Waits until the statement of a session has ended, or waits for another session.
    async fn settle(&mut self, index: usize) -> Result<Option<Answer>> {
        loop {
            let session = &mut self.sessions[index];
            let Some(running) = &session.running else {
                return Ok(None);
            };
            if running.is_finished() {
                let done = session.running.take().context("it has just been there")?;
                return Ok(Some(done.await?));
            }
            let waits = self
                .observer
                .query_one(
                    "select cardinality(pg_blocking_pids($1)) > 0",
                    &[&session.pid],
                )
                .await?;
            if waits.get(0) {
                return Ok(None);
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Ends all transactions that a script has left open.
    ///
    /// # Errors
    /// Returns an error if a session still waits.
    pub async fn roll_back(&mut self) -> Result<()> {
        for session in &self.sessions {
            if session.running.is_some() {
                bail!("a session still waits");
            }
            session.client.batch_execute("rollback").await?;
        }
        Ok(())
    }
}

async fn ask(client: &Client, sql: &str) -> Answer {
    match client.simple_query(sql).await {
        Ok(messages) => {
            let mut rows = Vec::new();
            for message in messages {
                if let SimpleQueryMessage::Row(row) = message {
                    let values = (0..row.len()).map(|column| row.get(column).map(str::to_owned));
                    rows.push(values.collect());
                }
            }
            Answer::Rows(rows)
        }
        Err(error) => {
            let code = error.code().map_or("none", |code| code.code());
            Answer::Error(code.to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_orders_are_there_once() {
        let all = orders(&[2, 2]);
        assert_eq!(all.len(), 6);
        let mut sorted = all.clone();
        sorted.sort();
        sorted.dedup();
        assert_eq!(sorted.len(), 6);
        assert_eq!(orders(&[3, 3]).len(), 20);
        assert_eq!(orders(&[2, 2, 2]).len(), 90);
    }
}
