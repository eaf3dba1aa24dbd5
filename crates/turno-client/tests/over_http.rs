//! Calls over HTTP have the same meaning: the library on [`RemoteStore`] passes the rules that every store passes.
//!
//! Each rule has its own server on the one store. A new rule runs here too; the exceptions are listed below, with the reason. On
//! PostgreSQL, the rules about concurrent callers run again.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use libtest_mimic::{Arguments, Trial};
use tokio::net::TcpListener;
use turno::{Settings, Turno};
use turno_client::{Client, RemoteStore};
use turno_server::{Options, Server};
use turno_testkit::conformance::{Rule, TestStore};

/// Reasons why rules do not run over HTTP, each with rules, or with modules (`::` at the end).
const LEFT_OUT: &[(&str, &[&str])] = &[
    (
        "needs the caller's own transaction",
        &[
            "lock::guard::",
            "inbox::transaction::",
            "inbox::late_commit::",
            "inbox::effects::",
            "inbox::batch::an_open_transaction_delays_no_other_push",
            "once::transaction::",
            "once::resolve::a_resolve_waits_for_an_answer_being_written",
            "once::wait::a_commit_reaches_who_waits",
            "outbox::emit::a_bad_event_leaves_the_transaction_alone",
            "outbox::emit::a_given_id_is_emitted_once",
            "outbox::emit::a_late_commit_is_delivered",
            "outbox::emit::an_event_commits_with_its_transaction",
            "outbox::emit::an_event_is_seen_once",
            "outbox::emit::an_event_is_undone_with_its_transaction",
        ],
    ),
    (
        "access tokens are created at the store",
        &["admin::access_tokens::"],
    ),
    (
        "the server runs schedules for its clients",
        &["inbox::schedule::"],
    ),
    (
        "a relay works on the store",
        &[
            "admin::operator::what_is_done_to_events_is_in_the_history",
            "outbox::dead::",
            "outbox::emit::an_event_is_kept_whole",
            "outbox::validation::",
            "outbox::order::",
            "outbox::unknown::",
            "outbox::relay::",
        ],
    ),
    (
        "opens its own connection to the store",
        &[
            "lock::acquire::settings_fill_in_user_and_service",
            "lock::concurrency::a_crowd_shares_its_commits",
            "lock::concurrency::alone_is_the_same",
            "inbox::validation::a_larger_payload_can_be_allowed",
            "inbox::validation::a_payload_is_json",
            "lock::validation::a_longer_ttl_can_be_allowed",
            "once::validation::a_bad_answer_names_its_field",
            "once::validation::a_larger_answer_can_be_allowed",
            "once::encryption::",
            "once::wait::many_who_wait_look_little",
            "once::wait::who_looks_for_all_hands_over",
            "lock::wait::retries_are_counted",
            "lock::wait_calls::",
        ],
    ),
    (
        "the server waits for its clients",
        &["inbox::claim::the_next_due_time_is_known"],
    ),
    (
        "the server repeats batches to the end",
        &[
            "inbox::requeue::a_requeue_begins_with_the_oldest_failure",
            "inbox::discard::a_discard_begins_with_the_oldest_failure",
            "inbox::requeue::a_reset_goes_step_by_step",
            "inbox::sweep::a_sweep_of_the_inbox_goes_batch_by_batch",
            "inbox::sweep::a_sweep_of_failed_items_goes_batch_by_batch",
            "once::sweep::a_sweep_of_once_goes_batch_by_batch",
            "lock::sweep::a_sweep_forgets_what_is_old",
        ],
    ),
    (
        "the server looks queues up itself",
        &["inbox::batch::a_claim_tells_its_queue"],
    ),
    (
        "text that is not JSON cannot be sent",
        &["inbox::batch::one_who_is_refused_is_alone_with_it"],
    ),
    (
        "the server registers waiters for its clients",
        &[
            "lock::views::a_status_tells_everything",
            "lock::sweep::a_sweep_keeps_what_is_wanted",
            "lock::wait::a_dead_waiter_loses_its_place",
            "lock::wait::waiters_that_ended_block_no_other",
            "lock::wait::a_newcomer_does_not_overtake",
            "lock::wait::a_waiter_keeps_its_place",
        ],
    ),
    (
        "looks for waiters in its own process",
        &[
            "once::wait::a_release_reaches_who_waits",
            "once::wait::an_answer_reaches_who_waits",
            "once::resolve::a_resolve_reaches_who_waits",
            "once::wait::who_goes_away_is_not_missed",
        ],
    ),
    (
        "registers waiters, or counts what the store writes",
        &["lock::no_write_on_loss::"],
    ),
    (
        "counts what the store writes",
        &["once::no_write_on_loss::"],
    ),
    (
        "needs the server to stop",
        &[
            "lock::tokens::a_restored_store_goes_on_above",
            "once::stale::a_restored_store_goes_on_above",
        ],
    ),
    (
        "white space around an answer is lost in transit",
        &["once::begin::an_answer_is_replayed_as_it_was_given"],
    ),
];

/// Modules of rules that also run on PostgreSQL, because they depend on the order in which callers arrive.
const ON_POSTGRES: &[&str] = &[
    "lock::concurrency::",
    "lock::idempotency::",
    "lock::request_id::",
    "lock::readers::",
    "lock::run::",
    "inbox::idempotency::",
    "inbox::concurrency::",
    "inbox::abandoned::",
    "once::idempotency::",
    "once::concurrency::",
];

fn main() {
    for name in LEFT_OUT.iter().flat_map(|(_, names)| *names) {
        let is_known = Rule::all().iter().any(|rule| is_in(rule, name));
        assert!(is_known, "there is no rule {name}");
    }
    let sqlite = Rule::all().into_iter().map(on_sqlite);
    let postgres = Rule::all().into_iter().filter_map(on_postgres);
    let tests = sqlite.chain(postgres).collect();
    libtest_mimic::run(&Arguments::from_args(), tests).exit();
}

/// Whether `name` is the rule's name or its module.
fn is_in(rule: &Rule, name: &str) -> bool {
    match name.ends_with("::") {
        true => rule.name().starts_with(name),
        false => rule.name() == name,
    }
}

/// Why the rule does not run over HTTP, if it does not.
fn left_out(rule: &Rule) -> Option<&'static str> {
    LEFT_OUT
        .iter()
        .find(|(_, names)| names.iter().any(|name| is_in(rule, name)))
        .map(|(reason, _)| *reason)
}

fn on_sqlite(rule: &'static Rule) -> Trial {
    let reason = left_out(rule).or(rule.is_only_postgres().then_some("only on PostgreSQL"));
    over_http(format!("sqlite::{}", rule.name()), rule, TestStore::sqlite)
        .with_ignored_flag(reason.is_some())
        .with_kind(reason.unwrap_or_default())
}

fn on_postgres(rule: &'static Rule) -> Option<Trial> {
    let is_wanted =
        ON_POSTGRES.iter().any(|module| is_in(rule, module)) && left_out(rule).is_none();
    let name = format!("postgres::{}", rule.name());
    is_wanted.then(|| over_http(name, rule, TestStore::postgres))
}

fn over_http(name: String, rule: &'static Rule, open: fn() -> TestStore) -> Trial {
    Trial::test(name, move || {
        rule.run(&open().through(|url| Box::pin(remote(url))));
        Ok(())
    })
}

async fn remote(url: String) -> Turno {
    let server = Server::new(Turno::connect(&url).await.unwrap(), Options::default());
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    // It ends with the rule's runtime.
    tokio::spawn(async move { server.run(listener, std::future::pending()).await });
    let client = Client::new(&format!("http://{address}")).unwrap();
    Turno::with_store(Arc::new(RemoteStore::new(client)), Settings::default())
}
