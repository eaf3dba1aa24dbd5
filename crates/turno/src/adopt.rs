//! Adopt: the claim protocol on a table that you already have.
//!
//! [`Turno::adopt`] adds a few columns and small indexes to a table and, on PostgreSQL, functions for that table, which
//! any language can call. [`Turno::adopted`] then locks rows, one or many, for one process at a time.
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
//! # Guarantees
//!
//! A lock is a lease plus a token. A process that was paused for longer than the timeout may still be running when
//! another begins; its release then returns [`Release::Stale`], and changes nothing. A row that was released is never
//! returned by [`Adopted::next`] again.

use std::time::Duration;

use crate::Turno;
use crate::check;
use crate::error::{Error, Result};
pub use crate::store::{
    ADOPTED_ATTEMPTS, AdoptedOutcome as Acquire, AdoptedReset as Reset, AdoptedRow as TakenRow,
    AdoptedSettled as Release, AdoptedStats as Stats, Adoption, Shape,
};
use crate::store::{AdoptTable, AdoptedAcquire, AdoptedEnd, AdoptedNext, AdoptedRelease, Token};

/// Options to adopt a table.
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

    /// Sets the column that identifies a row. Default: `id`.
    pub fn id(mut self, column: impl Into<String>) -> Self {
        self.ask.id = column.into();
        self
    }

    /// Sets the column by which rows of one user are selected. Default: `user_id`, if that column exists.
    pub fn user(mut self, column: impl Into<String>) -> Self {
        self.ask.user = Some(column.into());
        self
    }

    /// Sets which state the rows have. Default: [`Shape::Processing`].
    pub fn shape(mut self, shape: Shape) -> Self {
        self.ask.shape = shape;
        self
    }

    /// Sets the suffix of its functions' names, for when another table already has those names. Default: none. SQLite has no
    /// functions.
    pub fn suffix(mut self, suffix: impl Into<String>) -> Self {
        self.ask.suffix = Some(suffix.into());
        self
    }

    /// Sets the number of attempts after which [`Adopted::next`] skips a row, 1 to 1000. Default: 5. [`Adopted::acquire`] ignores
    /// this limit.
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

    /// Adds what is missing. Idempotent: a second call changes nothing.
    ///
    /// # Errors
    /// Returns an error if the table or a column is missing or unsuitable ([`Error::field`] says which argument is wrong), a
    /// function's name is taken (the field is `suffix`), a function to be replaced belongs to another role or
    /// something depends on it, the role has no right to change the table, or the store is unavailable.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let file = folder.path().join("app.db");
    /// # rusqlite::Connection::open(&file)?.execute_batch("create table notes (id integer primary key, body text); insert into notes (body) values ('one'), ('two')")?;
    /// # let url = format!("sqlite:{}", file.display());
    /// let turno = turno::Turno::connect(&url).await?;
    /// let adoption = turno.adopt("notes").id("id").max_attempts(3).apply().await?;
    /// assert!(!adoption.columns.is_empty());
    /// assert_eq!(turno.adopted("notes").stats(None).await?.pending, 2);
    /// let error = turno.adopt("note").apply().await.unwrap_err();
    /// assert_eq!(error.field(), Some("table"));
    /// # Ok(()) }
    /// ```
    pub async fn apply(self) -> Result<Adoption> {
        self.check()?;
        self.turno.store().adopt(&self.ask).await
    }

    /// Returns an SQL script that does the same as [`Adopt::apply`]. Changes nothing.
    ///
    /// # Errors
    /// As [`Adopt::apply`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let file = folder.path().join("app.db");
    /// # rusqlite::Connection::open(&file)?.execute_batch("create table notes (id integer primary key, body text); insert into notes (body) values ('one'), ('two')")?;
    /// # let url = format!("sqlite:{}", file.display());
    /// let turno = turno::Turno::connect(&url).await?;
    /// let script = turno.adopt("notes").print().await?;
    /// assert!(script.contains("alter table"));
    /// # Ok(()) }
    /// ```
    pub async fn print(self) -> Result<String> {
        self.check()?;
        self.turno.store().adopt_print(&self.ask).await
    }

    /// Returns a diff between your own functions that [`Adopt::replace`] would replace and those that it would create: lines
    /// that begin with `-` are removed, lines that begin with `+` are added. Empty if no function has a name that is needed.
    /// Changes nothing.
    ///
    /// # Errors
    /// As [`Adopt::apply`], except that existing functions are not an error.
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

/// An adopted table. Cheap to clone. Ids are passed as text, whatever the type of their column.
#[derive(Debug, Clone)]
pub struct Adopted {
    turno: Turno,
    table: String,
}

impl Adopted {
    pub(crate) fn new(turno: Turno, table: String) -> Self {
        Adopted { turno, table }
    }

    /// Returns the table's name.
    pub fn table(&self) -> &str {
        &self.table
    }

    /// Locks one row, unless it is processed, or has been locked for less than `timeout` (1 millisecond to ten years). Counts an
    /// attempt.
    ///
    /// If the response is lost, the row stays locked until the timeout: safe, but late.
    ///
    /// # Errors
    /// Returns an error if the id does not have its column's type, the table is not adopted, or the store is unavailable.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let file = folder.path().join("app.db");
    /// # rusqlite::Connection::open(&file)?.execute_batch("create table notes (id integer primary key, body text); insert into notes (body) values ('one'), ('two')")?;
    /// # let url = format!("sqlite:{}", file.display());
    /// use std::time::Duration;
    /// use turno::adopt::{Acquire, Release};
    ///
    /// let turno = turno::Turno::connect(&url).await?;
    /// turno.adopt("notes").apply().await?;
    /// let notes = turno.adopted("notes");
    /// let Acquire::Acquired { token } = notes.acquire("1", Duration::from_secs(900)).await? else { panic!("the row is free") };
    /// assert_eq!(notes.acquire("1", Duration::from_secs(900)).await?, Acquire::Busy);
    /// assert_eq!(notes.release("1", token).await?, Release::Released);
    /// # Ok(()) }
    /// ```
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

    /// Records why processing failed, and unlocks the row. [`Adopted::next`] returns it again while attempts are left.
    ///
    /// # Errors
    /// As [`Adopted::acquire`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let file = folder.path().join("app.db");
    /// # rusqlite::Connection::open(&file)?.execute_batch("create table notes (id integer primary key, body text); insert into notes (body) values ('one'), ('two')")?;
    /// # let url = format!("sqlite:{}", file.display());
    /// use std::time::Duration;
    ///
    /// let turno = turno::Turno::connect(&url).await?;
    /// turno.adopt("notes").apply().await?;
    /// let notes = turno.adopted("notes");
    /// let row = notes.next(None, 1, Duration::from_secs(900)).await?.remove(0);
    /// notes.release_with_error(&row.id, row.token, "no transcript").await?;
    /// assert_eq!(notes.stats(None).await?.failed, 1);
    /// # Ok(()) }
    /// ```
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

    /// Locks up to `limit` rows (1 to 10,000), of one user or of all: those with the fewest attempts first, then by id. Takes over
    /// rows that have been locked for longer than `timeout` (1 millisecond to ten years). Skips rows that another process is
    /// locking at the same time. If the response is lost, its rows stay locked until the timeout.
    ///
    /// # Errors
    /// As [`Adopted::acquire`]. If the user is invalid, the field is `user`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let file = folder.path().join("app.db");
    /// # rusqlite::Connection::open(&file)?.execute_batch("create table notes (id integer primary key, body text); insert into notes (body) values ('one'), ('two')")?;
    /// # let url = format!("sqlite:{}", file.display());
    /// use std::time::Duration;
    ///
    /// let turno = turno::Turno::connect(&url).await?;
    /// turno.adopt("notes").apply().await?;
    /// let notes = turno.adopted("notes");
    /// for row in notes.next(None, 10, Duration::from_secs(900)).await? {
    ///     notes.release(&row.id, row.token).await?;
    /// }
    /// assert_eq!(notes.stats(None).await?.completed, 2);
    /// # Ok(()) }
    /// ```
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

    /// Unlocks rows that have been locked for longer than `timeout`, and records that as their error. Returns their number.
    /// Optional: [`Adopted::acquire`] and [`Adopted::next`] take over such rows in any case.
    ///
    /// # Errors
    /// Returns an error if the table is not adopted or the store is unavailable.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let file = folder.path().join("app.db");
    /// # rusqlite::Connection::open(&file)?.execute_batch("create table notes (id integer primary key, body text); insert into notes (body) values ('one'), ('two')")?;
    /// # let url = format!("sqlite:{}", file.display());
    /// use std::time::Duration;
    ///
    /// let turno = turno::Turno::connect(&url).await?;
    /// turno.adopt("notes").apply().await?;
    /// let notes = turno.adopted("notes");
    /// notes.next(None, 1, Duration::from_secs(900)).await?; // its process crashes
    /// assert_eq!(notes.cleanup(Duration::ZERO).await?, 1);
    /// assert_eq!(notes.stats(None).await?.failed, 1);
    /// # Ok(()) }
    /// ```
    pub async fn cleanup(&self, timeout: Duration) -> Result<u64> {
        self.turno
            .store()
            .adopted_cleanup(&self.table, timeout)
            .await
    }

    /// Makes rows pending again: those that are stuck, or all that are not processed. Returns their number.
    ///
    /// # Errors
    /// As [`Adopted::cleanup`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let file = folder.path().join("app.db");
    /// # rusqlite::Connection::open(&file)?.execute_batch("create table notes (id integer primary key, body text); insert into notes (body) values ('one'), ('two')")?;
    /// # let url = format!("sqlite:{}", file.display());
    /// use std::time::Duration;
    /// use turno::adopt::Reset;
    ///
    /// let turno = turno::Turno::connect(&url).await?;
    /// turno.adopt("notes").apply().await?;
    /// let notes = turno.adopted("notes");
    /// notes.next(None, 1, Duration::from_secs(900)).await?; // its process hangs
    /// assert_eq!(notes.reset_stuck(Reset::Stuck(Duration::from_secs(900))).await?, 0); // not for long enough
    /// assert_eq!(notes.reset_stuck(Reset::Stuck(Duration::ZERO)).await?, 1);
    /// # Ok(()) }
    /// ```
    pub async fn reset_stuck(&self, which: Reset) -> Result<u64> {
        self.turno.store().adopted_reset(&self.table, which).await
    }

    /// Counts the rows in each state, of one user or of all. Reads every row.
    ///
    /// # Errors
    /// As [`Adopted::next`].
    pub async fn stats(&self, user: Option<&str>) -> Result<Stats> {
        check_text("user", user.unwrap_or_default())?;
        self.turno.store().adopted_stats(&self.table, user).await
    }

    /// Sets a row's flag, in the shape [`Shape::Processed`]. Returns true for one caller only. There is no timeout and no
    /// token: if the process ends before the work does, the row stays marked until [`Adopted::unmark`].
    ///
    /// # Errors
    /// As [`Adopted::acquire`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let file = folder.path().join("app.db");
    /// # rusqlite::Connection::open(&file)?.execute_batch("create table notes (id integer primary key, body text); insert into notes (body) values ('one'), ('two')")?;
    /// # let url = format!("sqlite:{}", file.display());
    /// use turno::adopt::Shape;
    ///
    /// let turno = turno::Turno::connect(&url).await?;
    /// turno.adopt("notes").shape(Shape::Processed).apply().await?;
    /// let notes = turno.adopted("notes");
    /// assert!(notes.try_mark("1").await?);
    /// assert!(!notes.try_mark("1").await?);
    /// assert!(notes.unmark("1").await?);
    /// # Ok(()) }
    /// ```
    pub async fn try_mark(&self, id: &str) -> Result<bool> {
        check_text("id", id)?;
        self.turno.store().adopted_mark(&self.table, id).await
    }

    /// Clears a row's flag, so that it is processed again. Returns whether it was set.
    ///
    /// # Errors
    /// As [`Adopted::acquire`].
    pub async fn unmark(&self, id: &str) -> Result<bool> {
        check_text("id", id)?;
        self.turno.store().adopted_unmark(&self.table, id).await
    }
}

/// Rejects only text that no store can take. Ids and users are data, and their columns decide what is valid.
fn check_text(field: &'static str, value: &str) -> Result<()> {
    if value.contains('\0') {
        return Err(Error::invalid(
            field,
            format!("{field} has a zero byte: give it as it is written in SQL"),
        ));
    }
    Ok(())
}

/// Rejects a timeout that is too short: such a lock would be expired from the start, and every process could take it.
fn check_timeout(timeout: Duration) -> Result<()> {
    if !(check::MIN_TTL..=check::MAX_DELAY).contains(&timeout) {
        return Err(Error::invalid(
            "timeout",
            "timeout must be at least 1 ms and at the most ten years: give the longest time that the work can take",
        ));
    }
    Ok(())
}
