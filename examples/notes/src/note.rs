//! A note and its two processing steps.

use anyhow::{Context, Result};
use sqlx::PgPool;
use turno::Token;

use crate::service::Services;

/// The columns of a note that processing needs.
#[derive(Debug, Clone)]
pub struct Note {
    /// Id, as text.
    pub id: String,
    /// Location of the recording.
    pub audio: Option<String>,
    /// Transcription; `None` until that step is done.
    pub transcription: Option<String>,
    /// Analysis; `None` until that step is done.
    pub analysis: Option<String>,
    /// Number of attempts.
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

    /// Reads unprocessed notes of one user or of all, those with the fewest attempts first.
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

/// Whether the results could be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Saved {
    Saved,
    /// Another process has taken over the lock. Nothing was written.
    Stale,
}

/// Transcribes and analyses a note. Results of earlier attempts are reused: after a failed analysis, only the analysis is paid
/// for again. With a token, only the holder of the lock can write, and a process that has lost the lock stops before it spends
/// more.
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
