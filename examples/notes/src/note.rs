//! A note, and the two steps that it goes through.

use anyhow::{Context, Result};
use sqlx::PgPool;
use turno::Token;

use crate::service::Services;

/// What processing reads of a note.
#[derive(Debug, Clone)]
pub struct Note {
    /// Its id, as text.
    pub id: String,
    /// Where its recording is.
    pub audio: Option<String>,
    /// The words, once they are known.
    pub transcription: Option<String>,
    /// What they mean, once that is known.
    pub analysis: Option<String>,
    /// How often it was tried.
    pub attempts: i32,
}

type Row = (String, Option<String>, Option<String>, Option<String>, i32);

impl From<Row> for Note {
    fn from((id, audio, transcription, analysis, attempts): Row) -> Self {
        Note {
            id,
            audio,
            transcription,
            analysis,
            attempts,
        }
    }
}

impl Note {
    /// Reads one note.
    pub(crate) async fn read(db: &PgPool, id: &str) -> Result<Note> {
        let row: Option<Row> = sqlx::query_as(
            "select id::text, audio, transcription, analysis, coalesce(processing_attempts, 0)
             from notes
             where id = $1::uuid",
        )
        .bind(id)
        .fetch_optional(db)
        .await?;
        Ok(row.context("Note not found")?.into())
    }

    /// Reads notes that are not processed, those tried least often first; of one user, or all.
    pub(crate) async fn read_pending(
        db: &PgPool,
        user: Option<&str>,
        limit: u32,
    ) -> Result<Vec<Note>> {
        let rows: Vec<Row> = sqlx::query_as(
            "select id::text, audio, transcription, analysis, coalesce(processing_attempts, 0)
             from notes
             where processed_at is null
               and ($1::uuid is null or user_id = $1::uuid)
             order by processing_attempts, id
             limit $2",
        )
        .bind(user)
        .bind(i64::from(limit))
        .fetch_all(db)
        .await?;
        Ok(rows.into_iter().map(Note::from).collect())
    }
}

/// Whether what was done could be written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Saved {
    Saved,
    /// The lock is somebody else's by now; nothing was written.
    Stale,
}

/// Transcribes and analyses a note. A step that is done is not paid for again, so a note whose analysis failed costs an
/// analysis more, and not a transcription. With a token, only the holder of the lock writes, and whoever was overtaken stops
/// before it spends more.
pub(crate) async fn process(
    db: &PgPool,
    services: &Services,
    note: &Note,
    token: Option<Token>,
) -> Result<Saved> {
    let transcription = match &note.transcription {
        Some(transcription) => transcription.clone(),
        None => {
            let transcription = services.transcribe(note).await?;
            if save(db, note, token, Some(&transcription), None).await? == Saved::Stale {
                return Ok(Saved::Stale);
            }
            transcription
        }
    };
    if note.analysis.is_some() {
        return Ok(Saved::Saved);
    }
    let analysis = services.analyse(note, &transcription).await?;
    save(db, note, token, None, Some(&analysis)).await
}

async fn save(
    db: &PgPool,
    note: &Note,
    token: Option<Token>,
    transcription: Option<&str>,
    analysis: Option<&str>,
) -> Result<Saved> {
    // A table that is not adopted has no column for the token.
    let blind = "update notes
        set transcription = coalesce($2, transcription),
            analysis      = coalesce($3, analysis)
        where id = $1::uuid";
    let fenced = "update notes
        set transcription = coalesce($2, transcription),
            analysis      = coalesce($3, analysis)
        where id = $1::uuid
          and processing_token = $4
          and processing_started_at is not null";
    let mut update = sqlx::query(if token.is_some() { fenced } else { blind })
        .bind(&note.id)
        .bind(transcription)
        .bind(analysis);
    if let Some(token) = token {
        update = update.bind(token.0);
    }
    match update.execute(db).await?.rows_affected() {
        0 => Ok(Saved::Stale),
        _ => Ok(Saved::Saved),
    }
}
