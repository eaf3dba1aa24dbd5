//! The numbers of items: a sequence that has gone back, and items that no claim would find.

use super::super::PostgresStore;
use super::super::rows::get;
use crate::error::Result;
use crate::store::Finding;

const REPAIR: &str = "run `turno migrate --repair` as the owner of the schema";

pub(super) async fn findings(store: &PostgresStore) -> Result<[Finding; 1]> {
    let row = store.calls.row(query!(diagnose_numbers), &[]).await?;
    Ok([finding(
        get(&row, "last_id")?,
        get(&row, "highest_id")?,
        get(&row, "unreachable")?,
    )])
}

fn finding(last_id: i64, highest_id: i64, unreachable: i64) -> Finding {
    let mut said = Vec::new();
    if last_id < highest_id {
        said.push(format!(
            "the sequence turno.inbox_item_id is at {last_id}, and items have numbers up to {highest_id} (a restore of data alone?)"
        ));
    }
    if unreachable > 0 {
        said.push(format!("{unreachable} items are not found by claims"));
    }
    match said.is_empty() {
        true => Finding::ok("numbers", "every item is found by claims"),
        false => Finding::problem("numbers", format!("{}; {REPAIR}", said.join("; "))),
    }
}
