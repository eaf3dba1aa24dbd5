//! The cost of one call of an SQL function, beside the statements that a person would write.
//!
//! The load is pgbench, with separate connections. The three variants of a subject alternate in short turns. Readings are taken while
//! all loads are paused, so they belong to the turn alone.

mod database;
mod pgbench;
mod report;
mod subjects;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::time::sleep;
use turno_testkit::PostgresServer;

use self::database::Database;
use self::pgbench::{Load, Running, now};
use self::subjects::{ALL, Subject};
use crate::inbox::work::median;
use crate::queries::query;

/// What is compared, in the order of the scripts of a subject.
const VARIANTS: [&str; 3] = ["bare", "bare, same promise", "turno"];
const CONNECTIONS: [usize; 3] = [1, 8, 32];
/// Duration of a turn. Turns are short, because the speed of a shared machine varies.
const TURN: Duration = Duration::from_millis(300);
const TURNS_PER_ROUND: usize = 2;
/// Number of calls of a session whose statements and buffers are counted, and of the session that is subtracted: what a session
/// does at its first calls does not belong to a call.
const COUNTED: usize = 500;
const FIRST: usize = 20;

pub struct Bench {
    pub rounds: usize,
    /// Only subjects whose name contains this.
    pub only: Option<String>,
}

/// Cost of a call: the median of the turns.
#[derive(Debug, Clone, Copy)]
struct Cost {
    per_second: f64,
    cpu_us: f64,
    wal_bytes: f64,
}

/// What happens inside a call.
#[derive(Debug, Clone, Copy)]
struct Inside {
    statements: f64,
    buffers: f64,
}

/// Readings of a turn.
struct Turn {
    from: f64,
    to: f64,
    cpu_seconds: f64,
    wal_bytes: f64,
}

impl Bench {
    pub async fn run(&self) -> Result<()> {
        let only = self.only.as_deref().unwrap_or("");
        let subjects: Vec<&Subject> = ALL.iter().filter(|s| s.name.contains(only)).collect();
        ensure!(!subjects.is_empty(), "no call has a name with {only:?}");
        let (server, counts) = start()?;
        let template = database::template(&server, counts).await?;
        let mut insides = Vec::new();
        for subject in &subjects {
            insides.push(match counts {
                true => Some(inside(&server, &template, subject).await?),
                false => None,
            });
        }
        for connections in CONNECTIONS {
            let max_rate = max_rate(&server, &template, connections).await?;
            report::heading(connections);
            for (subject, inside) in subjects.iter().zip(&insides) {
                let costs = self
                    .measure_again(&server, &template, subject, connections, max_rate)
                    .await
                    .with_context(|| format!("{} with {connections} connections", subject.name))?;
                report::print(subject, connections, &costs, inside.as_ref());
            }
        }
        Ok(())
    }

    /// Measures a subject, and again with more rows if that fails: a machine that was busy when the rate was estimated may have used
    /// all rows.
    async fn measure_again(
        &self,
        server: &PostgresServer,
        template: &str,
        subject: &Subject,
        connections: usize,
        max_rate: f64,
    ) -> Result<[Cost; 3]> {
        let database = Database::copy(server, template).await?;
        let measured = self
            .measure(&database, subject, connections, max_rate)
            .await;
        let error = match measured {
            Ok(costs) => return Ok(costs),
            Err(error) => error,
        };
        println!("  {} once more, after: {error:#}", subject.name);
        let database = Database::copy(server, template).await?;
        let max_rate = max_rate * 4.0;
        self.measure(&database, subject, connections, max_rate)
            .await
    }

    /// Measures the three variants of a subject, by turns.
    async fn measure(
        &self,
        database: &Database,
        subject: &Subject,
        connections: usize,
        max_rate: f64,
    ) -> Result<[Cost; 3]> {
        let turns = self.rounds * TURNS_PER_ROUND;
        let seconds = warm_up(connections) + TURN.mul_f64(turns as f64);
        let calls = (max_rate * seconds.as_secs_f64()) as usize;
        database.fill(subject.rows, calls).await?;
        let mut loads = Vec::new();
        for (name, script) in VARIANTS.iter().zip(subject.scripts) {
            let load = Load {
                script,
                url: &database.url,
                connections,
                name,
            };
            loads.push(start_paused(database, &load).await?);
        }
        let mut readings = [const { Vec::new() }; 3];
        for turn in 0..turns {
            for place in 0..loads.len() {
                // Another one begins each time.
                let at = (turn + place) % loads.len();
                readings[at].push(take_turn(database, &loads[at], VARIANTS[at]).await?);
            }
        }
        let mut costs = Vec::new();
        for ((load, turns), name) in loads.into_iter().zip(&readings).zip(VARIANTS) {
            let ends = load.end().with_context(|| {
                format!(
                    "{name}, with rows for {calls} calls (half of them if they are made by calls)"
                )
            })?;
            costs.push(cost(&ends, turns));
        }
        costs.try_into().ok().context("there are three variants")
    }
}

/// Starts a server whose commits are durable, and returns whether it counts statements. Nothing of it but the calls writes: there is
/// no checkpoint, so full pages are not in the WAL again, and no vacuum.
fn start() -> Result<(PostgresServer, bool)> {
    let durable = [
        ("fsync", "on"),
        ("full_page_writes", "on"),
        ("synchronous_commit", "on"),
        ("shared_buffers", "512MB"),
        ("max_wal_size", "16GB"),
        ("checkpoint_timeout", "1h"),
        ("autovacuum", "off"),
    ];
    let counting = [
        ("shared_preload_libraries", "pg_stat_statements"),
        ("pg_stat_statements.track", "none"),
    ];
    match PostgresServer::start_with(&[&durable[..], &counting[..]].concat()) {
        Ok(server) => Ok((server, true)),
        Err(error) => {
            println!(
                "Statements and buffers are not counted, without pg_stat_statements: {error:#}"
            );
            Ok((PostgresServer::start_with(&durable)?, false))
        }
    }
}

/// Counts the statements and the buffers of a call.
async fn inside(server: &PostgresServer, template: &str, subject: &Subject) -> Result<[Inside; 3]> {
    let database = Database::copy(server, template).await?;
    database.fill(subject.rows, (FIRST + COUNTED) * 3).await?;
    let mut insides = Vec::new();
    for (name, script) in VARIANTS.iter().zip(subject.scripts) {
        let load = Load {
            script,
            url: &database.superuser_url,
            connections: 1,
            name,
        };
        let options = "-c pg_stat_statements.track=all -c synchronous_commit=off";
        database.reset_counts().await?;
        load.run(FIRST, 0, options)?;
        let first = database.counts().await?;
        database.reset_counts().await?;
        load.run(COUNTED, FIRST, options)?;
        let counted = database.counts().await?;
        let per_call = |counted: f64, first: f64| (counted - first) / (COUNTED - FIRST) as f64;
        insides.push(Inside {
            statements: per_call(counted.statements, first.statements),
            buffers: per_call(counted.buffers, first.buffers),
        });
    }
    insides.try_into().ok().context("there are three variants")
}

/// Estimates the calls per second that no variant exceeds, from the rate of a bare insert. So many rows are prepared.
async fn max_rate(server: &PostgresServer, template: &str, connections: usize) -> Result<f64> {
    let database = Database::copy(server, template).await?;
    let load = Load {
        script: query("inbox_push_bare"),
        url: &database.url,
        connections,
        name: "insert",
    };
    let running = start_paused(&database, &load).await?;
    let turn = take_turn(&database, &running, load.name).await?;
    let rate = cost(&running.end()?, &[turn]).per_second;
    // A machine that is busy now may be faster later.
    Ok((rate * 1.5).max(6000.0 + 500.0 * connections as f64))
}

/// Time until the sessions of a load have their plans.
fn warm_up(connections: usize) -> Duration {
    TURN + Duration::from_millis(30) * connections as u32
}

/// Starts a load, and pauses it after its warm-up.
async fn start_paused(database: &Database, load: &Load<'_>) -> Result<Running> {
    let running = load.start()?;
    database.connected(load.name, load.connections).await?;
    sleep(warm_up(load.connections)).await;
    running.pause()?;
    database.idle(load.name).await?;
    Ok(running)
}

/// Lets a load run for a turn. It is paused before and after.
async fn take_turn(database: &Database, load: &Running, name: &str) -> Result<Turn> {
    let (cpu, wal) = (database.cpu_seconds(name).await?, database.wal().await?);
    let from = now();
    load.resume()?;
    sleep(TURN).await;
    load.pause()?;
    let to = now();
    database.idle(name).await?;
    Ok(Turn {
        from,
        to,
        cpu_seconds: database.cpu_seconds(name).await? - cpu,
        wal_bytes: database.wal().await? - wal,
    })
}

/// Returns the cost of a call from the readings of the turns and from the times at which calls ended. A call that a pause interrupts
/// counts in the next turn: each turn has as many of them at its begin as it lacks at its end.
fn cost(ends: &[f64], turns: &[Turn]) -> Cost {
    let mut costs = [const { Vec::new() }; 3];
    for turn in turns {
        let is_in_turn = |end: &&f64| (turn.from..turn.to).contains(*end);
        let calls = ends.iter().filter(is_in_turn).count() as f64;
        costs[0].push(calls / (turn.to - turn.from));
        costs[1].push(turn.cpu_seconds * 1e6 / calls);
        costs[2].push(turn.wal_bytes / calls);
    }
    let [per_second, cpu_us, wal_bytes] = costs.map(median);
    Cost {
        per_second,
        cpu_us,
        wal_bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_is_the_median_of_the_turns() {
        let turn = |from: f64, cpu_seconds, wal_bytes| Turn {
            from,
            to: from + 0.5,
            cpu_seconds,
            wal_bytes,
        };
        // 2 calls, 4 calls, 1 call; one before all turns.
        let ends = [0.5, 1.0, 1.4, 2.0, 2.1, 2.2, 2.3, 3.1];
        let turns = [
            turn(1.0, 0.002, 200.0),
            turn(2.0, 0.002, 800.0),
            turn(3.0, 0.004, 100.0),
        ];
        let cost = cost(&ends, &turns);
        assert_eq!(cost.per_second, 4.0);
        assert_eq!(cost.cpu_us, 1000.0);
        assert_eq!(cost.wal_bytes, 100.0);
    }
}
