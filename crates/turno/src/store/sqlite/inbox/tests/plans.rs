//! No statement scans a table: the time of a call must not grow with the number of items.

use super::*;

/// Sources that may be scanned: the queues, and lists in the statement itself.
const SMALL: &[&str] = &["q", "p", "l", "s", "json_each", "priorities", "states"];

fn statements() -> Vec<(&'static str, &'static str)> {
    let is_inbox = |name: &str| name.starts_with("inbox_") || name.starts_with("sweep_inbox_");
    let all = crate::store::sqlite::queries::FILES
        .iter()
        .copied()
        .flatten();
    let all: Vec<_> = all.copied().filter(|(name, _)| is_inbox(name)).collect();
    assert!(all.len() > 40, "the queries of the inbox have other names");
    all
}

fn plan(db: &Connection, sql: &str) -> Vec<String> {
    let mut explain = db.prepare(&format!("explain query plan {sql}")).unwrap();
    let plan = explain.raw_query().mapped(|row| row.get(3));
    plan.collect::<rusqlite::Result<_>>().unwrap()
}

fn is_small(step: &str) -> bool {
    let Some(what) = step.strip_prefix("SCAN ") else {
        return true;
    };
    what.starts_with('(')
        || what.contains("CONSTANT ROW")
        || what
            .split(' ')
            .next()
            .is_some_and(|name| SMALL.contains(&name))
}

#[test]
fn no_statement_scans_a_table() {
    let desk = Desk::new();
    for (name, sql) in statements() {
        let plan = plan(&desk.db, sql);
        assert!(plan.iter().all(|step| is_small(step)), "{name}: {plan:#?}");
    }
    // The check can fail.
    let scan = plan(
        &desk.db,
        "select id from turno_inbox_item where payload = 'x'",
    );
    assert!(!scan.iter().all(|step| is_small(step)));
}

#[test]
fn what_is_claimed_is_not_sorted_first() {
    let desk = Desk::new();
    for (name, sql) in statements() {
        let plan = plan(&desk.db, sql);
        let sorts = plan.iter().any(|step| step.contains("TEMP B-TREE"));
        // Pages for operators of items that are stored by time, and the claims of one queue.
        let may = ["inbox_list_timed", "inbox_list_failed", "inbox_claim_live"].contains(&name);
        assert!(may || !sorts, "{name}: {plan:#?}");
    }
}
