//! The inbox: pushes that are committed in any order are found, and of two workers one completes.

use turno_testkit::interleave::{Answer, Ran};

use crate::kit::Kit;

/// Two pushes that are committed in any order, between claims.
const PUSHES: [&[&str]; 3] = [
    &["begin", "select turno.inbox_push('q{}', '1')", "commit"],
    &["begin", "select turno.inbox_push('q{}', '2')", "commit"],
    &[
        "select id from turno.inbox_claim('q{}', 'w', 2)",
        "select id from turno.inbox_claim('q{}', 'w', 2)",
    ],
];
/// The queue exists, and the next claim looks behind the cursor whatever that costs.
const PREPARE: [&str; 1] = ["select turno.inbox_push('q{}', '0')"];

async fn lost(kit: &Kit) -> Option<String> {
    let judge =
        |number: usize, _: Ran, _| async move { kit.unreachable(&format!("q{number}")).await };
    kit.explore(&PREPARE, &PUSHES, judge).await
}

#[tokio::test]
async fn what_is_committed_late_is_in_reach() {
    assert_eq!(lost(&Kit::new().await).await, None);
}

/// The control: the floor follows the cursor, whatever transactions are open.
#[tokio::test]
async fn without_the_rule_for_late_commits_items_are_lost() {
    let kit = Kit::new().await;
    let kit = kit
        .without("inbox_raise_floor", "oldest >= own", "true")
        .await;
    assert!(lost(&kit).await.is_some());
}

/// A worker whose claim expires, and the next one, of which each completes the item with its effect.
const WORKERS: [&[&str]; 2] = [
    &[
        "insert into token select '{}/a', claim from turno.inbox_claim('q{}', 'a', 1, '60 ms')",
        "begin; insert into effect (name, value) select '{}', 'a' from token where owner = '{}/a';
         select turno.inbox_complete(token) from token where owner = '{}/a'",
        "commit",
    ],
    &[
        "select pg_sleep(0.07); insert into token select '{}/b', claim from turno.inbox_claim('q{}', 'b', 1, '1 hour') returning owner",
        "begin; insert into effect (name, value) select '{}', 'b' from token where owner = '{}/b';
         select turno.inbox_complete(token) from token where owner = '{}/b'",
        "commit",
    ],
];

/// One worker completes, and it is the second one if that has a claim, which does not expire.
fn wrong(ran: &Ran, effects: &[(String, String)]) -> Option<String> {
    // The first row is that of the pause.
    let second_claims = matches!(&ran.answers[1][0], Answer::Rows(rows) if rows.len() > 1);
    let by: Vec<&str> = effects.iter().map(|(_, by)| by.as_str()).collect();
    let right = if second_claims { ["b"] } else { ["a"] };
    (by != right).then(|| format!("{by:?} instead of {right:?}"))
}

async fn twice(kit: &Kit) -> Option<String> {
    let judge = |_, ran: Ran, effects: Vec<(String, String)>| async move { wrong(&ran, &effects) };
    kit.explore(&PREPARE, &WORKERS, judge).await
}

#[tokio::test]
async fn one_of_two_workers_completes() {
    assert_eq!(twice(&Kit::new().await).await, None);
}

/// The control: a completion by the number of the item alone.
#[tokio::test]
async fn without_the_token_the_first_worker_completes_for_the_second() {
    let kit = Kit::new().await;
    let kit = kit
        .without(
            "inbox_complete_one",
            "b.token = inbox_complete_one.token",
            "true",
        )
        .await;
    assert!(twice(&kit).await.is_some());
}
