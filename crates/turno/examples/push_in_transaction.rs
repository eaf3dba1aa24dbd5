//! An item that is stored if and only if the caller's transaction commits, and an effect that happens exactly once.

use turno::Turno;
use turno::inbox::Job;
use turno::tx::{SqliteTransaction, Transaction};

/// Works in a transaction of any driver: rusqlite, tokio-postgres, deadpool or sqlx.
async fn welcome(turno: &Turno, tx: &mut impl Transaction, id: u32) -> turno::Result<()> {
    turno.inbox("welcome").push_in(tx, &id).await?;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("app.db");
    let turno = Turno::connect(&format!("sqlite:{}", file.display())).await?;
    let mut connection = rusqlite::Connection::open(&file)?;
    connection.execute_batch(
        "create table customer (id integer primary key); create table mail (id integer)",
    )?;

    for (id, commits) in [(1, false), (2, true)] {
        let mut tx = SqliteTransaction::begin(&mut connection)?;
        tx.execute("insert into customer values (?1)", [id])?;
        welcome(&turno, &mut tx, id).await?;
        match commits {
            true => tx.commit()?,
            false => tx.rollback()?,
        }
    }

    let (done, mut ended) = tokio::sync::mpsc::channel(1);
    let handler = move |job: Job<u32>| {
        let (file, done) = (file.clone(), done.clone());
        async move {
            let mut connection = rusqlite::Connection::open(&file)?;
            let mut tx = SqliteTransaction::begin(&mut connection)?;
            tx.execute("insert into mail values (?1)", [job.payload])?;
            job.complete_in(&mut tx).await?; // effect and completion commit together
            tx.commit()?;
            done.send(job.payload).await?;
            Ok::<_, turno::HandlerError>(())
        }
    };
    let shutdown = async { assert_eq!(ended.recv().await, Some(2)) };
    turno.inbox("welcome").worker(handler).run(shutdown).await?;
    let mails: u32 = connection.query_row("select count(*) from mail", [], |row| row.get(0))?;
    assert_eq!(mails, 1);
    Ok(())
}
