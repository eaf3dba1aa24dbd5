//! One function says when a hold excludes others, one when a lock may be taken, and three when an item may be claimed. Each test
//! changes such a function in its own database, and every path must follow. The control is the same calls without the change.

use tokio_postgres::Client;
use turno_testkit::Sql as _;

use super::test_store;

/// Calls that take the lock `$r` for owner `second`, and return the outcome.
const ACQUIRES: &[&str] = &[
    "select outcome from turno.lock_acquire('$r', 'second')",
    "select outcome from turno.lock_acquire('$r', 'second', min_hold => '1 ms')",
    "select outcome from turno.lock_acquire('$r', 'second', wait => '10 ms')",
    "select outcome from turno.lock_acquire_all(array['$r'], 'second')",
    "select (answer).outcome from turno.lock_acquire_batch(array['$r'], array['second'], array['30 s'::interval], \
       array[null::text], array[null::text], array[null::text], array[null::text], array[null::integer], array[gen_random_uuid()])",
    "select outcome from turno.lock_acquire('$r', 'second', permits => 1)",
];
/// The same beside an exclusive hold only: shared locks do not exclude each other.
const ACQUIRE_SHARED: &str =
    "select outcome from turno.lock_acquire('$r', 'second', mode => 'shared')";

/// Calls that claim from the queue `$q`, and return the number of items.
const CLAIMS: &[&str] = &[
    "select count(*)::text from turno.inbox_claim('$q', 'w2')",
    "select count(*)::text from turno.inbox_claim('$q', 'w2', 10)",
    "select count(*)::text from turno.inbox_claim('$q', 'w2', 100)",
    "select count(*)::text from turno.inbox_claim_batch('$q', 'w2', 10, '30 s', gen_random_uuid(), false, false, true)",
    "select count(*)::text from turno.inbox_claim_batch('$q', 'w2', 10, '30 s', gen_random_uuid(), false, max_bytes => 1)",
];

/// The statement that restores a function.
async fn definition(client: &Client, function: &str) -> String {
    let sql = format!("select pg_get_functiondef('turno.{function}'::regproc)");
    client.text(&sql).await
}

/// The lock calls, each with a name of its own for its lock, and whether that is held exclusively or shared.
fn acquires() -> Vec<(String, &'static str, String)> {
    let exclusive = ACQUIRES
        .iter()
        .chain([&ACQUIRE_SHARED])
        .map(|call| ("exclusive", call));
    let shared = ACQUIRES.iter().map(|call| ("shared", call));
    exclusive
        .chain(shared)
        .enumerate()
        .map(|(number, (mode, call))| {
            let resource = format!("r{number}");
            let call = call.replace("$r", &resource);
            (resource, mode, call)
        })
        .collect()
}

async fn outcomes(client: &Client) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for (_, mode, call) in acquires() {
        all.push((format!("{call} after {mode}"), client.text(&call).await));
    }
    all
}

fn assert_busy(outcomes: &[(String, String)]) {
    for (call, outcome) in outcomes {
        assert_eq!(outcome, "busy", "{call}");
    }
}

/// A batch does not wait for the row of a shared lock: it returns "later", and the library repeats the call alone.
fn assert_taken(outcomes: &[(String, String)]) {
    for (call, outcome) in outcomes {
        let is_taken = outcome == "acquired" || call.contains("batch") && outcome == "later";
        assert!(is_taken, "{call}: {outcome}");
    }
}

/// Takes each lock for owner `first`.
async fn hold(client: &Client, ttl: &str) {
    for (resource, mode, _) in acquires() {
        let call =
            format!("select turno.lock_acquire('{resource}', 'first', '{ttl}', mode => '{mode}')");
        client.run(&call).await;
    }
}

/// Lets leases and delays of one millisecond end, on the clock of the database.
async fn pass_a_millisecond(client: &Client) {
    client.run("select pg_sleep(0.002)").await;
}

/// A claim of one item may take over expired claims after it has made its own. So this is longer than a claim takes.
const SHORT_LEASE: &str = "200 ms";

/// Lets leases of this length end, on the clock of the database.
async fn pass_a_short_lease(client: &Client) {
    client.run("select pg_sleep(0.201)").await;
}

/// Takeover one hour later (`+`) or earlier (`-`).
fn takeover(shift: char) -> String {
    format!(
        "create or replace function turno.lock_is_held(holds integer, expires_at timestamptz) returns boolean \
         language sql volatile as $$ select holds > 0 and expires_at {shift} interval '1 hour' > clock_timestamp() $$"
    )
}

#[tokio::test]
async fn every_acquire_follows_a_later_takeover() {
    let (_bed, client) = test_store().await;
    let as_shipped = definition(&client, "lock_is_held").await;
    hold(&client, "1 ms").await;
    pass_a_millisecond(&client).await;
    client.run(&takeover('+')).await;
    assert_busy(&outcomes(&client).await);
    let sweep = "select (turno.sweep()).expired::text";
    client.expect(sweep, "0").await;
    client.run(&as_shipped).await;
    assert_taken(&outcomes(&client).await);
    client
        .run("select turno.lock_acquire('swept', 'first', '1 ms')")
        .await;
    pass_a_millisecond(&client).await;
    assert_ne!(client.text(sweep).await, "0");
}

/// A path that returns busy by a rule of its own does so here.
#[tokio::test]
async fn every_acquire_follows_an_earlier_takeover() {
    let (_bed, client) = test_store().await;
    hold(&client, "30 s").await;
    assert_busy(&outcomes(&client).await);
    client.run(&takeover('-')).await;
    assert_taken(&outcomes(&client).await);
}

#[tokio::test]
async fn every_exclusive_acquire_follows_the_whole_rule() {
    let (_bed, client) = test_store().await;
    let as_shipped = definition(&client, "lock_is_takeable").await;
    hold(&client, "1 ms").await;
    pass_a_millisecond(&client).await;
    // All are free, without a hold to record.
    client.run("select turno.sweep()").await;
    client.run("create or replace function turno.lock_is_takeable(l turno.lock, owner text) returns boolean \
         language sql volatile as $$ select false $$")
    .await;
    let is_exclusive = |call: &str| !call.contains("permits") && !call.contains("'shared'");
    for (call, outcome) in outcomes(&client).await {
        let is_free = outcome == "acquired";
        assert_eq!(is_free, !is_exclusive(&call), "{call}: {outcome}");
    }
    client.run(&as_shipped).await;
    for (call, outcome) in outcomes(&client).await {
        assert_ne!(outcome, "busy", "{call}");
    }
}

/// Pushes an item for each claim, to queues with this name, and with groups in half of them; `then` is run for each queue.
async fn fill(client: &Client, name: &str, push: &str, then: Option<&str>) -> Vec<String> {
    let mut claims = Vec::new();
    for (number, claim) in CLAIMS.iter().enumerate() {
        for group in ["null", "'g'"] {
            let queue = format!("{name}/{number}/{}", group.len());
            let push =
                format!("select turno.inbox_push('{queue}', '{{}}', \"group\" => {group}{push})");
            client.run(&push).await;
            if let Some(then) = then {
                client.run(&then.replace("$q", &queue)).await;
            }
            claims.push(claim.replace("$q", &queue));
        }
    }
    pass_a_short_lease(client).await;
    claims
}

/// Runs each claim before and after a change of a rule: `items` are the numbers that it returns.
async fn check_claims(push: &str, then: Option<&str>, change: &str, items: [&str; 2]) {
    let (_bed, client) = test_store().await;
    for claim in fill(&client, "control", push, then).await {
        assert_eq!(client.text(&claim).await, items[0], "control: {claim}");
    }
    let claims = fill(&client, "changed", push, then).await;
    client.run(change).await;
    for claim in claims {
        assert_eq!(client.text(&claim).await, items[1], "{claim}");
    }
}

/// The same for events.
async fn check_outbox(emit: &str, then: Option<&str>, change: &str, events: [&str; 2]) {
    for in_order in [true, false] {
        let (_bed, client) = test_store().await;
        let claim = format!(
            "select count(*)::text from turno.outbox_claim('relay', in_order => {in_order})"
        );
        client.run(emit).await;
        if let Some(then) = then {
            client.run(then).await;
        }
        pass_a_short_lease(&client).await;
        // In a transaction that is rolled back, so that the claim after the change finds the same event.
        client.run("begin").await;
        assert_eq!(client.text(&claim).await, events[0], "control: {claim}");
        client.run("rollback").await;
        client.run(change).await;
        assert_eq!(client.text(&claim).await, events[1], "{claim}");
    }
}

#[tokio::test]
async fn every_claim_follows_the_rule_of_takeover() {
    for (lease, shift, items) in [(SHORT_LEASE, '+', ["1", "0"]), ("30 s", '-', ["0", "1"])] {
        let change = format!(
            "create or replace function turno.inbox_claim_has_expired(until timestamptz, at timestamptz) returns boolean \
             language sql stable as $$ select until {shift} interval '1 hour' <= at $$"
        );
        let claim = format!("select turno.inbox_claim('$q', 'w1', 1, '{lease}')");
        check_claims("", Some(&claim), &change, items).await;
        let emit = "select turno.outbox_emit('T', '{}')";
        let claim = format!("select turno.outbox_claim('relay', lease => '{lease}')");
        check_outbox(emit, Some(&claim), &change, items).await;
    }
}

#[tokio::test]
async fn every_claim_follows_the_rule_of_due_times() {
    for (delay, shift, items) in [("1 ms", '+', ["1", "0"]), ("30 s", '-', ["0", "1"])] {
        let change = format!(
            "create or replace function turno.inbox_is_due(run_at timestamptz, at timestamptz) returns boolean \
             language sql stable as $$ select run_at {shift} interval '1 hour' <= at $$"
        );
        let push = format!(", delay => '{delay}'");
        check_claims(&push, None, &change, items).await;
        let emit = format!("select turno.outbox_emit('T', '{{}}', delay => '{delay}')");
        check_outbox(&emit, None, &change, items).await;
    }
}

#[tokio::test]
async fn every_claim_follows_the_rule_of_items_without_a_due_time() {
    let change = "create or replace function turno.inbox_is_ready(run_at timestamptz) returns boolean \
         language sql immutable as $$ select false $$";
    check_claims("", None, change, ["1", "0"]).await;
    check_outbox(
        "select turno.outbox_emit('T', '{}')",
        None,
        change,
        ["1", "0"],
    )
    .await;
}
