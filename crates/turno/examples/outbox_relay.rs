//! The outbox: an event is published if and only if the transaction that emitted it commits.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use turno::Turno;
use turno::outbox::{Event, Mode};
use turno::sink::Stdout;

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("app.db");
    let turno = Turno::connect(&format!("sqlite:{}", file.display())).await?;
    let mut connection = rusqlite::Connection::open(&file)?;
    connection.execute_batch("create table ticket (id integer primary key, title text)")?;

    let mut tx = connection.transaction()?;
    tx.execute("insert into ticket values (7, 'It does not start')", [])?;
    let created = Event::new("TicketCreatedEvent", &json!({"ticket": 7}))
        .ordering_key(7) // events of one key are published in order
        .header("tenant", "north");
    let id = turno.outbox().emit_in(&mut tx, created).await?;
    tx.commit()?;

    // In each instance. The sink is RabbitMQ, NATS, a webhook, standard output or one of yours.
    let relay = turno
        .outbox()
        .relay(Arc::new(Stdout::new()))
        .mode(Mode::Ordered);
    // The relay runs until this future resolves; usually that is a signal.
    let shutdown = async {
        while turno
            .outbox()
            .stats()
            .await
            .is_ok_and(|stats| stats.dispatched == 0)
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let report = relay.run(shutdown).await?;
    assert_eq!(report.sent, 1);
    println!("published {id}");
    Ok(())
}
