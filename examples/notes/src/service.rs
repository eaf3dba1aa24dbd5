//! Transcription and analysis: services that cost money per call.
//!
//! They are stubs. A row in `charges` is money spent; it is committed before the service responds, as with a real service. A
//! [`Gate`] controls when the service responds, so that tests and the demonstration can have several calls in flight at once,
//! deterministically and without sleeping.

use anyhow::{Context, Result, ensure};
use sqlx::{Connection, PgConnection, PgPool};
use turno::store::postgres::Target;

use crate::note::Note;

/// A step that costs money.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// From the recording to text.
    Transcription,
    /// From the text to its meaning.
    Analysis,
}

impl Step {
    /// Value of `charges.step`.
    pub fn as_str(self) -> &'static str {
        match self {
            Step::Transcription => "transcription",
            Step::Analysis => "analysis",
        }
    }

    /// Price of a call, in cents.
    pub fn cents(self) -> i32 {
        match self {
            Step::Transcription => 12,
            Step::Analysis => 6,
        }
    }
}

/// Client of the services in one process.
#[derive(Debug, Clone)]
pub struct Services {
    db: PgPool,
    who: String,
}

impl Services {
    /// Creates a client; the services charge `who`.
    pub fn new(db: PgPool, who: &str) -> Self {
        Services {
            db,
            who: who.to_owned(),
        }
    }

    pub(crate) async fn transcribe(&self, note: &Note) -> Result<String> {
        let audio = note.audio.as_deref().context("the note has no audio")?;
        self.charge(note, Step::Transcription).await?;
        // Silence is transcribed and charged, too.
        let words = if audio == "silence.ogg" {
            String::new()
        } else {
            format!("words of {audio} by {}", self.who)
        };
        Ok(words)
    }

    pub(crate) async fn analyse(&self, note: &Note, transcription: &str) -> Result<String> {
        ensure!(!transcription.is_empty(), "there are no words to analyse");
        self.charge(note, Step::Analysis).await?;
        Ok(format!("gist of {transcription}"))
    }

    async fn charge(&self, note: &Note, step: Step) -> Result<()> {
        sqlx::query(
            "insert into charges (note_id, step, cents, who) values ($1::uuid, $2, $3, $4)",
        )
        .bind(&note.id)
        .bind(step.as_str())
        .bind(step.cents())
        .bind(&self.who)
        .execute(&self.db)
        .await?;
        // Returns at once, unless a gate is shut.
        sqlx::query("select pg_advisory_xact_lock_shared(hashtext($1), hashtext($2))")
            .bind(&self.who)
            .bind(step.as_str())
            .execute(&self.db)
            .await?;
        Ok(())
    }
}

/// Prevents services from responding. It opens on drop, when its connection is closed.
#[derive(Debug)]
pub struct Gate {
    connection: PgConnection,
}

impl Gate {
    /// Shuts the gate: from now on the service charges these callers and does not respond to them.
    ///
    /// # Errors
    /// Returns an error if the database is unavailable.
    pub async fn shut(url: &str, step: Step, callers: &[&str]) -> Result<Self> {
        let options = Target::parse(url)?.sqlx_options()?;
        let mut connection = PgConnection::connect_with(&options).await?;
        for who in callers {
            sqlx::query("select pg_advisory_lock(hashtext($1), hashtext($2))")
                .bind(who)
                .bind(step.as_str())
                .execute(&mut connection)
                .await?;
        }
        Ok(Gate { connection })
    }

    /// Opens the gate, so that all calls get their response.
    ///
    /// # Errors
    /// Returns an error if the database is unavailable.
    pub async fn open(self) -> Result<()> {
        Ok(self.connection.close().await?)
    }
}
