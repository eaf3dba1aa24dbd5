//! Transcription and analysis: services that cost money each time they are asked.
//!
//! They are stand-ins. A row in `charges` is money spent; it is committed before the service answers, as with a real one.
//! How long it takes to answer is decided by a [`Gate`], so that tests and the demonstration can have several processes
//! inside it at once, for certain and without sleeping.

use anyhow::{Context, Result, ensure};
use sqlx::{Connection, PgConnection, PgPool};
use turno::store::postgres::Target;

use crate::note::Note;

/// A step that costs money.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// From the recording to words.
    Transcription,
    /// From words to what they mean.
    Analysis,
}

impl Step {
    /// The word in `charges.step`.
    pub fn as_str(self) -> &'static str {
        match self {
            Step::Transcription => "transcription",
            Step::Analysis => "analysis",
        }
    }

    /// What it costs.
    pub fn cents(self) -> i32 {
        match self {
            Step::Transcription => 12,
            Step::Analysis => 6,
        }
    }
}

/// The services, as one process sees them.
#[derive(Debug, Clone)]
pub struct Services {
    db: PgPool,
    who: String,
}

impl Services {
    /// The services, which charge `who`.
    pub fn new(db: PgPool, who: &str) -> Self {
        Services {
            db,
            who: who.to_owned(),
        }
    }

    pub(crate) async fn transcribe(&self, note: &Note) -> Result<String> {
        let audio = note.audio.as_deref().context("the note has no audio")?;
        self.charge(note, Step::Transcription).await?;
        // Silence is transcribed too, and charged for.
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
        // Free at once, unless somebody holds the gate.
        sqlx::query("select pg_advisory_xact_lock_shared(hashtext($1), hashtext($2))")
            .bind(&self.who)
            .bind(step.as_str())
            .execute(&self.db)
            .await?;
        Ok(())
    }
}

/// Keeps services from answering. It opens when it is dropped, with its connection.
#[derive(Debug)]
pub struct Gate {
    connection: PgConnection,
}

impl Gate {
    /// From now on the service charges these callers, and does not answer them.
    ///
    /// # Errors
    /// If the database does not answer.
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

    /// Lets the service answer everybody.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn open(self) -> Result<()> {
        Ok(self.connection.close().await?)
    }
}
