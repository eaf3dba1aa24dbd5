//! Locks: one holder, and no write of a holder that was overtaken.

use turno_testkit::interleave::Ran;

use crate::kit::Kit;

/// Two sessions acquire a lock that is free or was never there.
const ACQUIRE: [&[&str]; 2] = [
    &[
        "begin",
        "select (turno.lock_acquire('r{}', owner => 'a')).outcome",
        "commit",
    ],
    &[
        "begin",
        "select (turno.lock_acquire('r{}', owner => 'b')).outcome",
        "commit",
    ],
];

fn two_holders(ran: &Ran) -> Option<String> {
    let granted = ran
        .answers
        .iter()
        .filter(|answers| answers[1].first() == Some("acquired"))
        .count();
    (granted != 1).then(|| format!("{granted} holders: {:?}", ran.answers))
}

#[tokio::test]
async fn one_of_two_gets_a_lock() {
    for prepare in [
        &[][..],
        &["select turno.lock_release('r{}', (turno.lock_acquire('r{}')).token)"],
    ] {
        let kit = Kit::new().await;
        let judge = |_, ran: Ran, _| async move { two_holders(&ran) };
        let broken = kit.explore(prepare, &ACQUIRE, judge).await;
        assert_eq!(broken, None);
    }
}

/// The control: a lock that all may take.
#[tokio::test]
async fn without_the_rule_both_get_it() {
    let kit = Kit::new().await;
    let kit = kit
        .without("lock_is_held", "expires_at > clock_timestamp()", "false")
        .await;
    let judge = |_, ran: Ran, _| async move { two_holders(&ran) };
    let broken = kit.explore(&[], &ACQUIRE, judge).await;
    assert!(broken.is_some());
}

/// The first session holds the lock for a moment and writes under the guard; the second one takes it over when the lease has
/// expired, and writes too.
fn overtaking(mode: &'static str) -> [Vec<String>; 2] {
    let acquire = |owner: &str, mode: &str, ttl: &str| {
        format!(
            "insert into token select '{{}}/{owner}', (a).token from (select turno.lock_acquire('g{{}}', owner => '{owner}', mode => '{mode}', ttl => '{ttl}') as a) x"
        )
    };
    let write = |owner: &str| {
        [
            format!(
                "begin; select turno.lock_guard('g{{}}', (select coalesce(max(token), '0')::bigint from token where owner = '{{}}/{owner}'))"
            ),
            format!(
                "insert into effect (name, value) select '{{}}', token from token where owner = '{{}}/{owner}'; commit"
            ),
        ]
    };
    let mut first = vec![acquire("a", mode, "60 ms")];
    first.extend(write("a"));
    let mut second = vec![format!(
        "select pg_sleep(0.07); {}",
        acquire("b", "exclusive", "1 hour")
    )];
    second.extend(write("b"));
    [first, second]
}

fn stale_write(effects: &[(String, String)]) -> Option<String> {
    let tokens: Vec<i64> = effects
        .iter()
        .map(|(_, token)| token.parse().unwrap())
        .collect();
    (!tokens.is_sorted()).then(|| format!("tokens were written as {tokens:?}"))
}

async fn overtaken(kit: &Kit, mode: &'static str) -> Option<String> {
    let scripts = overtaking(mode);
    let scripts: Vec<Vec<&str>> = scripts
        .iter()
        .map(|script| script.iter().map(String::as_str).collect())
        .collect();
    let scripts: Vec<&[&str]> = scripts.iter().map(Vec::as_slice).collect();
    let judge = |_, _, effects: Vec<(String, String)>| async move { stale_write(&effects) };
    kit.explore(&[], &scripts, judge).await
}

#[tokio::test]
async fn a_guarded_write_is_never_overtaken() {
    let kit = Kit::new().await;
    assert_eq!(overtaken(&kit, "exclusive").await, None);
}

#[tokio::test]
async fn a_guarded_write_of_a_shared_hold_is_never_overtaken() {
    let kit = Kit::new().await;
    assert_eq!(overtaken(&kit, "shared").await, None);
}

/// The control: the guard asks, and does not lock the row.
#[tokio::test]
async fn without_the_row_lock_a_write_is_overtaken() {
    for mode in ["exclusive", "shared"] {
        let kit = Kit::new()
            .await
            .without("lock_guard", "for share", "")
            .await;
        assert!(overtaken(&kit, mode).await.is_some(), "{mode}");
    }
}
