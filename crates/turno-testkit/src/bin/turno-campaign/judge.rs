//! Compares the recorded history with what the store and the application's tables have at the end.

use std::path::Path;

use anyhow::Result;
use turno::Turno;
use turno_testkit::history::{History, Violation, inbox, lock, once, outbox};
use turno_testkit::sql::connect;

use crate::application::Table;
use crate::load::{LIMITED, MAX_RUNNING, QUEUES};
use crate::run::Kept;

/// Result of the check.
pub struct Judged {
    pub operations: usize,
    /// Operations of locks, inbox, outbox and once.
    pub parts: [(&'static str, usize); 4],
    pub unknown: usize,
    pub refused: usize,
    pub violations: Vec<Violation>,
}

/// Creates the tables of the application.
pub async fn prepare(url: &str) -> Result<()> {
    for table in Table::ALL {
        if let Some(file) = url.strip_prefix("sqlite:") {
            rusqlite::Connection::open(file)?.execute_batch(&table.create(true))?;
        } else {
            connect(url)
                .await?
                .batch_execute(&table.create(false))
                .await?;
        }
    }
    Ok(())
}

/// Number of items and events that can still be worked on.
pub async fn left(turno: &Turno) -> Result<u64> {
    let mut left = 0;
    for queue in turno.inbox_stats("").await? {
        left += queue.pending + queue.scheduled + queue.processing;
    }
    let events = turno.outbox().stats().await?;
    Ok(left + events.pending + events.scheduled + events.processing)
}

/// What the tables of the inbox have, for a person who looks for the cause. Nothing on SQLite, whose file is kept.
pub async fn tables(url: &str) -> Result<String> {
    let mut text = String::new();
    if url.starts_with("sqlite:") {
        return Ok(text);
    }
    let client = connect(url).await?;
    for select in [
        "select now()::text",
        "select t::text from turno.inbox_queue t",
        "select t::text from turno.inbox_cursor t order by queue_id",
        "select t::text from turno.inbox_claim t order by queue_id, until",
        "select t::text from turno.inbox_freed t order by queue_id, id",
        "select t::text from turno.inbox_listener t",
        "select (queue_priority, id, run_at, pushed_at, attempts, abandoned, \"group\", key)::text
        from turno.inbox_item
        order by queue_priority, id
        limit 300",
    ] {
        for row in client.query(select, &[]).await? {
            text.push_str(row.get(0));
            text.push('\n');
        }
    }
    Ok(text)
}

/// Checks a history.
pub async fn judge(kept: &Kept, folder: &Path) -> Result<Judged> {
    let history = History::read(folder)?;
    let rows = Rows { url: &kept.url };
    let turno = Turno::connect(&kept.url).await?;
    let mut violations: Vec<Violation> = history.errors().collect();
    violations.extend(lock::check(
        &history.lock,
        &rows.guarded().await?,
        &kept.clock,
    ));
    let mut end = rows.inbox(&turno).await?;
    end.crashes_us.clone_from(&kept.crashes_us);
    end.clock = kept.clock.clone();
    end.limits
        .insert(LIMITED.to_owned(), usize::try_from(MAX_RUNNING)?);
    violations.extend(inbox::check(&history.inbox, &end));
    violations.extend(outbox::check(&history.outbox, &rows.outbox(&turno).await?));
    violations.extend(once::check(
        &history.once,
        &rows.answered().await?,
        &kept.clock,
    ));
    turno.close().await;
    Ok(Judged {
        operations: history.len(),
        parts: [
            ("locks", history.lock.len()),
            ("inbox", history.inbox.len()),
            ("outbox", history.outbox.len()),
            ("once", history.once.len()),
        ],
        unknown: history.unknown,
        refused: history.refused,
        violations,
    })
}

struct Rows<'a> {
    url: &'a str,
}

impl Rows<'_> {
    /// Rows of a table, in the order of their numbers.
    async fn of(&self, table: Table) -> Result<Vec<(String, String)>> {
        let select = format!("select name, value from {} order by n", table.name());
        if let Some(file) = self.url.strip_prefix("sqlite:") {
            let db = rusqlite::Connection::open(file)?;
            let mut statement = db.prepare(&select)?;
            let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
            return Ok(rows.collect::<Result<_, _>>()?);
        }
        let rows = connect(self.url).await?.query(&select, &[]).await?;
        Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
    }

    async fn guarded(&self) -> Result<Vec<lock::Write>> {
        let mut writes = Vec::new();
        for (resource, token) in self.of(Table::Guarded).await? {
            writes.push(lock::Write {
                resource,
                token: token.parse()?,
            });
        }
        Ok(writes)
    }

    async fn answered(&self) -> Result<Vec<once::Effect>> {
        let rows = self.of(Table::Answered).await?;
        let effect = |(key, answer)| once::Effect { key, answer };
        Ok(rows.into_iter().map(effect).collect())
    }

    async fn inbox(&self, turno: &Turno) -> Result<inbox::End> {
        let mut end = inbox::End::read(turno, &QUEUES).await?;
        for (name, attempt) in self.of(Table::Handled).await? {
            end.effects.push(inbox::Effect {
                name,
                attempt: attempt.parse()?,
            });
        }
        Ok(end)
    }

    async fn outbox(&self, turno: &Turno) -> Result<outbox::End> {
        let committed = self.of(Table::Emitted).await?;
        let committed = committed.into_iter().map(|(name, _)| name).collect();
        outbox::End::read(turno, committed).await
    }
}
