//! *Alternativa 3*: what the isolation level REPEATABLE READ costs when two instances meet.
//!
//! A snapshot is of use only if the transaction lasts as long as the work on what was selected in it: a whole run of the
//! scheduler. So each instance locks rows until the end of its run, and finds out late that another one was first.

use std::fmt;

use anyhow::Result;
use uuid::Uuid;

use crate::database::Database;
use crate::inbox_repository::InboxRepository;

/// Isolation level of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    /// The level of the conditional update: each statement sees what is committed.
    ReadCommitted,
    /// One snapshot for the whole transaction. SQLite has no other level, once a transaction has read.
    RepeatableRead,
}

/// What became of two instances that met.
#[derive(Debug, PartialEq, Eq)]
pub struct Meeting {
    /// Number of presentations that were marked.
    pub marked: u64,
    /// Code of the error with which the database aborted one of the two. PostgreSQL: `40001` (serialization failure), `40P01`
    /// (deadlock). SQLite: `5` or `517` (busy), because it refuses to wait where waiting would be a deadlock.
    pub aborted: Option<String>,
}

impl fmt::Display for Meeting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.aborted {
            None => write!(f, "{} marked", self.marked),
            Some(code) => write!(f, "{} marked, one instance aborted ({code})", self.marked),
        }
    }
}

/// Two instances find one presentation unprocessed, and both mark it.
///
/// # Errors
/// Returns an error if the database is unavailable.
pub async fn same_presentation(database: &Database, isolation: Isolation) -> Result<Meeting> {
    let id = Uuid::now_v7();
    database.receive(&[id], None).await?;
    let mut first = begin(database, isolation, id).await?;
    let mut second = begin(database, isolation, id).await?;
    let mut meeting = Meeting {
        marked: first.try_mark_as_processing(id).await?,
        aborted: None,
    };
    // The second one waits for the first one's row, unless the database refuses that at once.
    let (marked, committed) = tokio::join!(second.try_mark_as_processing(id), first.commit());
    committed?;
    meeting.end(second, marked).await?;
    Ok(meeting)
}

/// Two instances at REPEATABLE READ mark the same two presentations in opposite order, each in one transaction.
///
/// # Errors
/// Returns an error if the database is unavailable.
pub async fn opposite_order(database: &Database) -> Result<Meeting> {
    let [one, other] = [Uuid::now_v7(), Uuid::now_v7()];
    database.receive(&[one, other], None).await?;
    let mut first = begin(database, Isolation::RepeatableRead, one).await?;
    let mut second = begin(database, Isolation::RepeatableRead, one).await?;
    let mut meeting = Meeting {
        marked: 0,
        aborted: None,
    };
    let mut firsts = first.try_mark_as_processing(one).await;
    let mut seconds = second.try_mark_as_processing(other).await;
    if let (Ok(of_first), Ok(of_second)) = (&firsts, &seconds) {
        let (of_first, of_second) = (*of_first, *of_second);
        // Each waits for the other.
        let (next, next_of_second) = tokio::join!(
            first.try_mark_as_processing(other),
            second.try_mark_as_processing(one)
        );
        firsts = next.map(|marked| marked + of_first);
        seconds = next_of_second.map(|marked| marked + of_second);
    } else {
        let next = first.try_mark_as_processing(other).await?;
        firsts = firsts.map(|marked| marked + next);
    }
    meeting.end(first, firsts).await?;
    meeting.end(second, seconds).await?;
    Ok(meeting)
}

/// The control: the same two presentations in opposite order, with the conditional update in a transaction of its own for
/// each.
///
/// # Errors
/// Returns an error if the database is unavailable.
pub async fn one_transaction_each(database: &Database) -> Result<Meeting> {
    let [one, other] = [Uuid::now_v7(), Uuid::now_v7()];
    database.receive(&[one, other], None).await?;
    let run = async |ids: [Uuid; 2]| -> Result<u64> {
        let mut marked = 0;
        for id in ids {
            let mut inbox = InboxRepository::begin(database).await?;
            marked += inbox.try_mark_as_processing(id).await?;
            inbox.commit().await?;
        }
        Ok(marked)
    };
    let (first, second) = tokio::join!(run([one, other]), run([other, one]));
    Ok(Meeting {
        marked: first? + second?,
        aborted: None,
    })
}

/// Begins a transaction. At REPEATABLE READ its first query takes the snapshot, in which the presentation is unprocessed.
async fn begin(database: &Database, isolation: Isolation, id: Uuid) -> Result<InboxRepository> {
    match isolation {
        Isolation::ReadCommitted => InboxRepository::begin(database).await,
        Isolation::RepeatableRead => {
            let mut inbox = InboxRepository::begin_repeatable_read(database).await?;
            inbox.is_unprocessed(id).await?;
            Ok(inbox)
        }
    }
}

impl Meeting {
    /// Commits what an instance has marked, or rolls it back if the database has aborted it.
    async fn end(&mut self, inbox: InboxRepository, marked: Result<u64>) -> Result<()> {
        match marked {
            Ok(marked) => {
                inbox.commit().await?;
                self.marked += marked;
            }
            Err(error) => {
                self.aborted = Some(code(&error).ok_or(error)?);
                inbox.rollback().await?;
            }
        }
        Ok(())
    }
}

/// Returns the code of an error of the database.
fn code(error: &anyhow::Error) -> Option<String> {
    let error = error.downcast_ref::<sqlx::Error>()?.as_database_error()?;
    Some(error.code()?.into_owned())
}
