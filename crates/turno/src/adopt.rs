//! Adopt: the claim protocol on a table that you already have.
//!
//! [`Turno::adopt`] adds a few columns and small indexes to a table and, on PostgreSQL, functions of its own, which
//! any language can call. [`Turno::adopted`] then takes rows, one or many, for one process at a time.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//! use turno::Turno;
//! use turno::adopt::{Acquire, Release};
//!
//! # let folder = tempfile::tempdir()?;
//! # let file = folder.path().join("app.db");
//! # rusqlite::Connection::open(&file)?.execute_batch("create table notes (id integer primary key, body text); insert into notes (body) values ('one'), ('two')")?;
//! # let url = format!("sqlite:{}", file.display());
//! let turno = Turno::connect(&url).await?;
//! turno.adopt("notes").id("id").apply().await?;
//!
//! let notes = turno.adopted("notes");
//! let timeout = Duration::from_secs(15 * 60);
//! let Acquire::Acquired { token } = notes.acquire("1", timeout).await? else {
//!     panic!("the row is free");
//! };
//! assert_eq!(notes.acquire("1", timeout).await?, Acquire::Busy);
//! for row in notes.next(None, 10, timeout).await? {
//!     notes.release_with_error(&row.id, row.token, "no transcript").await?;
//! }
//! assert_eq!(notes.release("1", token).await?, Release::Released);
//! let stats = notes.stats(None).await?;
//! assert_eq!((stats.total, stats.completed, stats.failed), (2, 1, 1));
//! # Ok(()) }
//! ```
//!
//! # What is promised
//!
//! A lock is a lease plus a token. A process that was paused for longer than the timeout may still be running when
//! another begins; its release then answers [`Release::Stale`], and changes nothing. A row that was released is never
//! handed out again.

use std::time::Duration;

use crate::Turno;
use crate::check;
use crate::error::{Error, Result};
pub use crate::store::{
    ADOPTED_ATTEMPTS, AdoptedOutcome as Acquire, AdoptedReset as Reset, AdoptedRow as TakenRow,
    AdoptedSettled as Release, AdoptedStats as Stats, Adoption, Shape,
};
use crate::store::{AdoptTable, AdoptedAcquire, AdoptedEnd, AdoptedNext, AdoptedRelease, Token};

/// A table that is to be adopted.
#[derive(Debug, Clone)]
#[must_use = "nothing happens before apply"]
pub struct Adopt {
    turno: Turno,
    ask: AdoptTable,
}

impl Adopt {
    pub(crate) fn new(turno: Turno, table: String) -> Self {
        Adopt {
            turno,
            ask: AdoptTable {
                table,
                id: "id".to_owned(),
                user: None,
                shape: Shape::default(),
                suffix: None,
                max_attempts: ADOPTED_ATTEMPTS,
                replace: false,
            },
        }
    }

    /// The column that tells one row from another; `id` otherwise.
    pub fn id(mut self, column: impl Into<String>) -> Self {
        self.ask.id = column.into();
        self
    }

    /// The column that rows of one user are chosen by; otherwise `user_id`, if there is one.
    pub fn user(mut self, column: impl Into<String>) -> Self {
        self.ask.user = Some(column.into());
        self
    }

    /// What its rows can tell; [`Shape::Processing`] otherwise.
    pub fn shape(mut self, shape: Shape) -> Self {
        self.ask.shape = shape;
        self
    }

    /// The end of its functions' names, when another table has those names already. SQLite has no functions.
    pub fn suffix(mut self, suffix: impl Into<String>) -> Self {
        self.ask.suffix = Some(suffix.into());
        self
    }

    /// How often [`Adopted::next`] hands a row out; 5 times otherwise. [`Adopted::acquire`] does not count.
    pub fn max_attempts(mut self, max_attempts: u32) -> Self {
        self.ask.max_attempts = max_attempts;
        self
    }

    /// Replaces functions of your own that have the names of adopt's functions, in the same transaction. Default: they are
    /// an error. [`Turno::unadopt`] restores them. See [`Adopt::difference`] first.
    pub fn replace(mut self) -> Self {
        self.ask.replace = true;
        self
    }

    /// Adds what is missing. Doing so again changes nothing.
    ///
    /// # Errors
    /// If the table or a column is missing or unsuitable ([`Error::field`] tells which was named wrongly), a
    /// function's name is taken (the field is `suffix`), a function that is to be replaced belongs to another role or
    /// something depends on it, the role may not change the table, or the store does not answer.
    pub async fn apply(self) -> Result<Adoption> {
        self.check()?;
        self.turno.store().adopt(&self.ask).await
    }

    /// What [`Adopt::apply`] would do, as an SQL script. Nothing is done; running it does the same.
    ///
    /// # Errors
    /// As [`Adopt::apply`].
    pub async fn print(self) -> Result<String> {
        self.check()?;
        self.turno.store().adopt_print(&self.ask).await
    }

    /// The functions of your own that [`Adopt::replace`] would replace, next to those that it would create: lines that begin
    /// with `-` go, lines that begin with `+` come. Empty if none has a name that is needed. Nothing is done.
    ///
    /// # Errors
    /// As [`Adopt::apply`], but functions that are there already are no error.
    pub async fn difference(self) -> Result<String> {
        self.check()?;
        self.turno.store().adopt_difference(&self.ask).await
    }

    fn check(&self) -> Result<()> {
        check::name("table", &self.ask.table)?;
        check::name("id", &self.ask.id)?;
        check::optional_name("user", self.ask.user.as_deref())?;
        if !(1..=u32::from(check::MAX_ATTEMPTS)).contains(&self.ask.max_attempts) {
            return Err(Error::invalid(
                "max_attempts",
                format!(
                    "max_attempts is {}, and must be between 1 and {}",
                    self.ask.max_attempts,
                    check::MAX_ATTEMPTS
                ),
            ));
        }
        Ok(())
    }
}

/// A table that was adopted. Cheap to clone. Ids are given as text, whatever their column's type.
#[derive(Debug, Clone)]
pub struct Adopted {
    turno: Turno,
    table: String,
}

impl Adopted {
    pub(crate) fn new(turno: Turno, table: String) -> Self {
        Adopted { turno, table }
    }

    /// The table's name.
    pub fn table(&self) -> &str {
        &self.table
    }

    /// Locks one row, unless it is processed, or has been locked for less than `timeout`. An attempt is counted.
    ///
    /// If the answer is lost on its way, the row stays locked until the timeout: safe, but late.
    ///
    /// # Errors
    /// If the id is not of its column's type, the table is not adopted, or the store does not answer.
    pub async fn acquire(&self, id: &str, timeout: Duration) -> Result<Acquire> {
        check_text("id", id)?;
        check_timeout(timeout)?;
        self.turno
            .store()
            .adopted_acquire(&AdoptedAcquire {
                table: self.table.clone(),
                id: id.to_owned(),
                timeout,
            })
            .await
    }

    /// Marks a row as processed, and unlocks it.
    ///
    /// # Errors
    /// As [`Adopted::acquire`].
    pub async fn release(&self, id: &str, token: Token) -> Result<Release> {
        self.end(id, token, AdoptedEnd::Processed).await
    }

    /// Records why processing failed, and unlocks the row. It is handed out again while attempts are left.
    ///
    /// # Errors
    /// As [`Adopted::acquire`].
    pub async fn release_with_error(
        &self,
        id: &str,
        token: Token,
        error: impl std::fmt::Display,
    ) -> Result<Release> {
        self.end(id, token, AdoptedEnd::Failed(error.to_string()))
            .await
    }

    async fn end(&self, id: &str, token: Token, end: AdoptedEnd) -> Result<Release> {
        check_text("id", id)?;
        self.turno
            .store()
            .adopted_release(&AdoptedRelease {
                table: self.table.clone(),
                id: id.to_owned(),
                token,
                end,
            })
            .await
    }

    /// Locks up to `limit` rows, of one user or of all: those tried least often first, and then by id. Rows that
    /// somebody else is just taking are passed over. A lost answer leaves its rows locked until the timeout.
    ///
    /// # Errors
    /// As [`Adopted::acquire`]; the field `user` is that of the user's column.
    pub async fn next(
        &self,
        user: Option<&str>,
        limit: u32,
        timeout: Duration,
    ) -> Result<Vec<TakenRow>> {
        check_text("user", user.unwrap_or_default())?;
        check::limit(limit)?;
        check_timeout(timeout)?;
        self.turno
            .store()
            .adopted_next(&AdoptedNext {
                table: self.table.clone(),
                user: user.map(str::to_owned),
                limit,
                timeout,
            })
            .await
    }

    /// Unlocks what has been locked for longer than `timeout`, and records that as its error. Answers how many.
    /// It is tidiness: [`Adopted::acquire`] and [`Adopted::next`] take such rows over in any case.
    ///
    /// # Errors
    /// If the table is not adopted, or the store does not answer.
    pub async fn cleanup(&self, timeout: Duration) -> Result<u64> {
        self.turno
            .store()
            .adopted_cleanup(&self.table, timeout)
            .await
    }

    /// Makes rows pending again: those that are stuck, or all that are not processed. Answers how many.
    ///
    /// # Errors
    /// As [`Adopted::cleanup`].
    pub async fn reset_stuck(&self, which: Reset) -> Result<u64> {
        self.turno.store().adopted_reset(&self.table, which).await
    }

    /// How many rows are in which state, of one user or of all. It looks at every row.
    ///
    /// # Errors
    /// As [`Adopted::next`].
    pub async fn stats(&self, user: Option<&str>) -> Result<Stats> {
        check_text("user", user.unwrap_or_default())?;
        self.turno.store().adopted_stats(&self.table, user).await
    }

    /// Turns a row's flag, in the shape [`Shape::Processed`]: true for one caller only. There is no timeout and no
    /// token: if the process ends before the work does, the row stays marked until [`Adopted::unmark`].
    ///
    /// # Errors
    /// As [`Adopted::acquire`].
    pub async fn try_mark(&self, id: &str) -> Result<bool> {
        check_text("id", id)?;
        self.turno.store().adopted_mark(&self.table, id).await
    }

    /// Turns a row's flag back, so that it is processed again. Answers whether it was turned.
    ///
    /// # Errors
    /// As [`Adopted::acquire`].
    pub async fn unmark(&self, id: &str) -> Result<bool> {
        check_text("id", id)?;
        self.turno.store().adopted_unmark(&self.table, id).await
    }
}

/// Ids and users are data, and their columns decide; only what no store can take is refused here.
fn check_text(field: &'static str, value: &str) -> Result<()> {
    if value.contains('\0') {
        return Err(Error::invalid(
            field,
            format!("{field} has a zero byte: give it as it is written in SQL"),
        ));
    }
    Ok(())
}

/// A lock that is old from the start would be everybody's.
fn check_timeout(timeout: Duration) -> Result<()> {
    if !(check::MIN_TTL..=check::MAX_DELAY).contains(&timeout) {
        return Err(Error::invalid(
            "timeout",
            "timeout must be at least 1 ms and at the most ten years: give the longest time that the work can take",
        ));
    }
    Ok(())
}
