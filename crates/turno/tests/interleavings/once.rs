//! Once: of two runs of a request one counts.

use turno_testkit::interleave::Ran;

use crate::kit::{Kit, doubled};

/// A run whose lease expires, and the next one, of which each answers with its effect.
const RUNS: [&[&str]; 2] = [
    &[
        "insert into token select '{}/a', (o).claim from (select turno.once_begin('k{}', lease => '60 ms', unknown => 'rerun') as o) x where (o).outcome = 'fresh'",
        "begin; insert into effect (name, value) select '{}', 'a' from token where owner = '{}/a';
         select turno.once_complete(token, '\"a\"') from token where owner = '{}/a'",
        "commit",
    ],
    &[
        "select pg_sleep(0.07); insert into token select '{}/b', (o).claim from (select turno.once_begin('k{}', unknown => 'rerun') as o) x where (o).outcome = 'fresh'",
        "begin; insert into effect (name, value) select '{}', 'b' from token where owner = '{}/b';
         select turno.once_complete(token, '\"b\"') from token where owner = '{}/b'",
        "commit",
    ],
];

async fn twice(kit: &Kit, scripts: &[&[&str]]) -> Option<String> {
    let judge = |_, _: Ran, effects: Vec<(String, String)>| async move { doubled(&effects) };
    kit.explore(&[], scripts, judge).await
}

#[tokio::test]
async fn one_of_two_runs_counts() {
    assert_eq!(twice(&Kit::new().await, &RUNS).await, None);
}

/// The first run is extended: then it is not taken over.
#[tokio::test]
async fn an_extended_run_counts() {
    let mut first = RUNS[0].to_vec();
    first.insert(
        1,
        "select turno.once_extend(token, '1 hour') from token where owner = '{}/a'",
    );
    let scripts = [first.as_slice(), RUNS[1]];
    assert_eq!(twice(&Kit::new().await, &scripts).await, None);
}

/// The control: an answer is stored for the key, whatever the token.
#[tokio::test]
async fn without_the_token_both_count() {
    let kit = Kit::new().await;
    let kit = kit
        .without(
            "once_settle",
            "and t.token = once_settle.token\n    and t.state = 'running'",
            "",
        )
        .await;
    assert!(twice(&kit, &RUNS).await.is_some());
}
