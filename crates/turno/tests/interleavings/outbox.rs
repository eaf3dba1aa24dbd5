//! The outbox: what is committed late is found, and what is rolled back is never claimed.

use turno_testkit::interleave::{Answer, Ran};

use crate::kit::Kit;

/// Two transactions with events, one of which rolls an event back, between the claims of a relay.
const EMITS: [&[&str]; 3] = [
    &[
        "begin; select turno.outbox_emit('KeptEvent', '{}')",
        "commit",
    ],
    &[
        "begin; savepoint s; select turno.outbox_emit('LostEvent', '{}'); rollback to s; select turno.outbox_emit('KeptEvent', '{}')",
        "commit",
    ],
    // One claim passes over an event, the next one looks behind the cursor, and the one after that could raise the floor.
    &[
        "insert into effect (name, value) select '{}', event from turno.outbox_claim('r', 10, token => md5('{}-1')::uuid);
         select turno.outbox_settle(token, ids) from turno.inbox_claim where token = md5('{}-1')::uuid",
        "select pg_sleep(0.01);
         insert into effect (name, value) select '{}', event from turno.outbox_claim('r', 10, token => md5('{}-2')::uuid);
         select turno.outbox_settle(token, ids) from turno.inbox_claim where token = md5('{}-2')::uuid",
        "select pg_sleep(0.01);
         insert into effect (name, value) select '{}', event from turno.outbox_claim('r', 10, token => md5('{}-3')::uuid);
         select turno.outbox_settle(token, ids) from turno.inbox_claim where token = md5('{}-3')::uuid",
    ],
];
/// All orders use the one outbox. The next claim looks behind the cursor, whenever it did so last.
const PREPARE: [&str; 1] = ["update turno.inbox_cursor set late_at = '-infinity', late_cost = '0'"];

async fn broken(kit: &Kit) -> Option<String> {
    let judge = |_, ran: Ran, effects: Vec<(String, String)>| async move {
        let failed = ran.answers.iter().flatten();
        let failed = failed.filter(|answer| matches!(answer, Answer::Error(_)));
        let lost = effects
            .iter()
            .filter(|(_, event)| event.contains("LostEvent"));
        match (failed.count(), lost.count()) {
            (0, 0) => kit.unreachable("$outbox").await,
            counts => Some(format!(
                "(failed statements, events rolled back and claimed): {counts:?}"
            )),
        }
    };
    kit.explore(&PREPARE, &EMITS, judge).await
}

#[tokio::test]
async fn what_is_committed_is_in_reach_and_nothing_else_is_claimed() {
    assert_eq!(broken(&Kit::new().await).await, None);
}

/// The control: the floor follows the cursor, whatever transactions are open.
#[tokio::test]
async fn without_the_rule_for_late_commits_events_are_lost() {
    let kit = Kit::new().await;
    let kit = kit
        .without("inbox_raise_floor", "oldest >= own", "true")
        .await;
    let broken = broken(&kit).await.unwrap();
    assert!(broken.contains("out of reach"), "{broken}");
}
