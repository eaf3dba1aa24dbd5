//! SQLite, synchronous = full.

use anyhow::Result;
use turno::Turno;

use super::peers::measure;
use super::work;
use crate::table::Table;

const PEERS: &str = "turno-bench-peers-sqlite";

pub async fn run(items: usize) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = |name: &str| format!("sqlite:{}", folder.path().join(name).display());
    let turno = Turno::connect(&file("turno.db")).await?;

    let mut table = Table::new("Inbox on SQLite: pushing, many at a time", "items/s");
    let peer = measure(PEERS, "effectum", "push", &file("push.db"), items, 4);
    table.maybe(
        "effectum (synchronous = normal)",
        peer.map(|m| m.per_second),
    );
    let inbox = turno.inbox("work");
    table.against(
        "turno",
        work::push(&inbox, items).await?,
        "effectum (synchronous = normal)",
        None,
    );

    let mut table = Table::new(
        "Inbox on SQLite: draining, until durably complete",
        "items/s",
    );
    let peer = measure(PEERS, "effectum", "drain", &file("drain.db"), items, 4);
    table.maybe(
        "effectum (synchronous = normal)",
        peer.map(|m| m.per_second),
    );
    let rate = work::drain(&inbox, items, 1, 1000).await?;
    table.against("turno", rate, "effectum (synchronous = normal)", Some(10.0));

    let mut table = Table::new(
        "Inbox on SQLite: an idle worker, from push to handler, median",
        "ms",
    );
    table.limited("turno", work::latency(&turno, "idle").await?, 10.0);
    Ok(())
}
