//! No statement may search through a backlog: what is asked of the tables is asked of their indexes.

use super::*;

/// What may be read whole: names of queues, and lists that stand in the statement itself.
const SMALL: &[&str] = &["q", "p", "l", "s", "json_each", "priorities", "lines"];

fn statements() -> Vec<(String, String)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/store/sqlite/sql");
    let mut all = Vec::new();
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        if name.starts_with("inbox_") || name.starts_with("sweep_inbox_") {
            all.push((name, std::fs::read_to_string(&path).unwrap()));
        }
    }
    assert!(all.len() > 40, "the folder of statements is elsewhere");
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
        let plan = plan(&desk.db, &sql);
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
        let plan = plan(&desk.db, &sql);
        let sorts = plan.iter().any(|step| step.contains("TEMP B-TREE"));
        // Pages that are read by people, of a kind that is stored by time, and the claims of one queue.
        let may =
            ["inbox_list_timed", "inbox_list_failed", "inbox_claim_live"].contains(&name.as_str());
        assert!(may || !sorts, "{name}: {plan:#?}");
    }
}
