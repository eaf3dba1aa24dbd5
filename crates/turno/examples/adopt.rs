//! Adopt: the claim protocol on a table that already exists.

use std::time::Duration;

use turno::Turno;
use turno::adopt::{Acquire, Release};

/// Longer than the processing of a note can take: then another process takes the row over.
const TIMEOUT: Duration = Duration::from_secs(15 * 60);

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("app.db");
    let existing = "create table notes (id integer primary key, body text); insert into notes (body) values ('one'), ('two')";
    rusqlite::Connection::open(&file)?.execute_batch(existing)?;
    let turno = Turno::connect(&format!("sqlite:{}", file.display())).await?;

    // Adds columns and indexes. `print` returns the same changes as an SQL script.
    turno.adopt("notes").id("id").apply().await?;

    // One row, for one process at a time.
    let notes = turno.adopted("notes");
    let Acquire::Acquired { token } = notes.acquire("1", TIMEOUT).await? else {
        return Err("the row is free".into());
    };
    assert_eq!(notes.acquire("1", TIMEOUT).await?, Acquire::Busy);

    // Those that no process has.
    for row in notes.next(None, 10, TIMEOUT).await? {
        notes
            .release_with_error(&row.id, row.token, "no transcript")
            .await?;
    }
    assert_eq!(notes.release("1", token).await?, Release::Released);
    let stats = notes.stats(None).await?;
    assert_eq!((stats.completed, stats.failed), (1, 1));

    // Old records are deleted regularly.
    let shutdown = tokio::time::sleep(Duration::from_millis(10)); // usually a signal
    turno
        .sweeper()
        .every(Duration::from_secs(60))
        .run(shutdown)
        .await;
    Ok(())
}
