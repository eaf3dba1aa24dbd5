//! A consumer that handles each event once, although a broker may deliver it twice.

use turno::Turno;
use turno::tx::SqliteTransaction;
use uuid::Uuid;

/// Handles a delivery. The broker gets its acknowledgement after this function has returned `Ok`.
async fn handle(
    turno: &Turno,
    connection: &mut rusqlite::Connection,
    event: Uuid,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut tx = SqliteTransaction::begin(connection)?;
    // True the first time only. The mark commits together with the effect.
    if turno.mark_processed(&mut tx, "billing", event).await? {
        tx.execute(
            "insert into invoice (event) values (?1)",
            [event.to_string()],
        )?;
    }
    tx.commit()?;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("billing.db");
    let turno = Turno::connect(&format!("sqlite:{}", file.display())).await?;
    let mut connection = rusqlite::Connection::open(&file)?;
    connection.execute_batch("create table invoice (event text)")?;

    let (first, second) = (Uuid::now_v7(), Uuid::now_v7());
    for delivered in [first, second, first] {
        handle(&turno, &mut connection, delivered).await?;
    }
    let invoices: u32 =
        connection.query_row("select count(*) from invoice", [], |row| row.get(0))?;
    assert_eq!(invoices, 2);
    Ok(())
}
