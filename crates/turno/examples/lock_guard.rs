//! A guard: the database rejects the write of a holder whose lease has ended.

use turno::Turno;

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("app.db");
    let turno = Turno::connect(&format!("sqlite:{}", file.display())).await?;
    let mut connection = rusqlite::Connection::open(&file)?;
    connection.execute_batch("create table payment (amount text)")?;

    let lease = turno.lock("loan/123").acquire().await?;
    let lease = lease.acquired().ok_or("the loan is free")?;
    let mut tx = connection.transaction()?;
    tx.execute("insert into payment values ('100.00')", [])?;
    lease.guard(&mut tx).await?; // the last statement before the commit
    tx.commit()?;

    // An operator breaks the lock, because its holder seems to hang.
    let operator = turno.lock("loan/123").user("ana");
    operator.force_break(lease.token(), "it hangs").await?;

    // The holder wakes up, and writes again: its token is stale.
    let mut tx = connection.transaction()?;
    tx.execute("insert into payment values ('100.00')", [])?;
    let stale = lease.guard(&mut tx).await;
    assert!(stale.is_err_and(|error| error.is_lost()));
    tx.rollback()?;

    let payments: u32 =
        connection.query_row("select count(*) from payment", [], |row| row.get(0))?;
    assert_eq!(payments, 1);
    Ok(())
}
