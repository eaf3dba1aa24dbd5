//! The rules of `queries/rules.sql` decide on every path that claims items: a test changes a rule, and every path must follow.
//! The control is the same call without the change.

use super::super::super::queries::changed::change;
use super::*;

/// Returns the paths that claim the item of a store.
fn paths_that_claim(store: impl Fn() -> Desk) -> Vec<String> {
    let mut paths = Vec::new();
    for order in [Order::ByKey, Order::AsEmitted] {
        let desk = store();
        let ask = desk.ask(10);
        let answer = claim::look(&desk.db, &ask, order, desk.now).unwrap();
        if answer.is_none() {
            paths.push(format!("read {order:?}"));
        }
        let claimed = claim::claim(&desk.db, &ask, (order, usize::MAX), desk.now).unwrap();
        if !claimed.is_empty() {
            paths.push(format!("claim {order:?}"));
        }
    }
    paths
}

fn with_ready_item() -> Desk {
    let desk = Desk::new();
    desk.push(vec![item("1")]);
    desk
}

fn with_delayed_item(passed: Duration) -> Desk {
    let mut desk = Desk::new();
    desk.push(vec![after("1", secs(10))]);
    desk.pass(passed);
    desk
}

fn with_claimed_item(passed: Duration) -> Desk {
    let mut desk = with_ready_item();
    desk.claim_one();
    desk.pass(passed);
    desk
}

/// Checks that a change of a rule changes all paths: `paths` are the numbers of paths that claim before and after it.
fn check(store: impl Fn() -> Desk, rule: &str, to: &str, paths: [usize; 2]) {
    assert_eq!(paths_that_claim(&store).len(), paths[0], "control: {rule}");
    let _changed = change(rule, to);
    let claim = paths_that_claim(&store);
    assert_eq!(claim.len(), paths[1], "{rule}: {claim:?}");
}

#[test]
fn every_path_follows_the_rule_of_takeover() {
    let rule = "inbox_claim_has_expired";
    let later = "held > 0 and until + 3600000000 <= ?2";
    check(|| with_claimed_item(LEASE + secs(1)), rule, later, [4, 0]);
    let earlier = "held > 0 and until - 3600000000 <= ?2";
    check(|| with_claimed_item(secs(1)), rule, earlier, [0, 4]);
}

#[test]
fn every_path_follows_the_rule_of_due_times() {
    let later = "run_at + 3600000000 <= ?2";
    check(
        || with_delayed_item(secs(11)),
        "inbox_is_due",
        later,
        [4, 0],
    );
    let earlier = "run_at - 3600000000 <= ?2";
    check(
        || with_delayed_item(secs(1)),
        "inbox_is_due",
        earlier,
        [0, 4],
    );
}

#[test]
fn every_path_follows_the_rule_of_items_without_a_due_time() {
    check(with_ready_item, "inbox_is_ready", "run_at > 0", [4, 0]);
}
