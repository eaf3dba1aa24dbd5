//! Over HTTP everything means the same: the library on [`RemoteStore`] keeps the rules that every store keeps.
//!
//! Each instance of a rule has a server of its own on the one store. A new rule is run here by being in the list of all rules;
//! what is left out is named below, and why. On PostgreSQL those are run again that depend on who comes when.
#![allow(clippy::unwrap_used, reason = "a test ends where its expectation does")]
#![deny(unused_macro_rules)]

use std::sync::Arc;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use turno::{Settings, Turno};
use turno_client::{Client, RemoteStore};
use turno_server::serve::{Options, Server};
use turno_testkit::conformance::{self, TestStore};

async fn remote(url: String) -> Turno {
    let server = Server::new(Turno::connect(&url).await.unwrap(), Options::default());
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    // It ends with the rule's runtime.
    tokio::spawn(async move { server.run(listener, std::future::pending()).await });
    let client = Client::new(&format!("http://{address}")).unwrap();
    Turno::with_store(Arc::new(RemoteStore::new(client)), Settings::default())
}

fn keep(rule: &str, bed: TestStore) {
    conformance::keep(rule, &bed.through(|url| Box::pin(remote(url))));
}

macro_rules! left_out {
    ($subject:ident::$rule:ident, $why:literal) => {
        #[test]
        #[ignore = $why]
        fn $rule() {
            let rule = concat!(stringify!($subject), "::", stringify!($rule));
            crate::keep(rule, turno_testkit::conformance::TestStore::sqlite());
        }
    };
}

/// The test of a rule. The first line that it matches decides.
#[rustfmt::skip]
macro_rules! over_http {
    // The caller's own transaction is where the store is.
    (guard::$r:ident) => { left_out! { guard::$r, "needs the caller's own transaction" } };
    (inbox_tx::$r:ident) => { left_out! { inbox_tx::$r, "needs the caller's own transaction" } };
    (inbox_late::$r:ident) => { left_out! { inbox_late::$r, "needs the caller's own transaction" } };
    (inbox_effect::$r:ident) => { left_out! { inbox_effect::$r, "needs the caller's own transaction" } };
    (inbox_together::an_open_transaction_keeps_nobody_else_waiting) => { left_out! { inbox_together::an_open_transaction_keeps_nobody_else_waiting, "needs the caller's own transaction" } };
    (once_tx::$r:ident) => { left_out! { once_tx::$r, "needs the caller's own transaction" } };
    (once_resolve::a_resolve_waits_for_an_answer_being_written) => { left_out! { once_resolve::a_resolve_waits_for_an_answer_being_written, "needs the caller's own transaction" } };
    (once_wait::a_commit_reaches_who_waits) => { left_out! { once_wait::a_commit_reaches_who_waits, "needs the caller's own transaction" } };
    (outbox_emit::a_bad_event_leaves_the_transaction_alone) => { left_out! { outbox_emit::a_bad_event_leaves_the_transaction_alone, "needs the caller's own transaction" } };
    (outbox_emit::a_given_id_is_emitted_once) => { left_out! { outbox_emit::a_given_id_is_emitted_once, "needs the caller's own transaction" } };
    (outbox_emit::a_late_commit_is_delivered) => { left_out! { outbox_emit::a_late_commit_is_delivered, "needs the caller's own transaction" } };
    (outbox_emit::an_event_commits_with_its_transaction) => { left_out! { outbox_emit::an_event_commits_with_its_transaction, "needs the caller's own transaction" } };
    (outbox_emit::an_event_is_seen_once) => { left_out! { outbox_emit::an_event_is_seen_once, "needs the caller's own transaction" } };
    (outbox_emit::an_event_is_undone_with_its_transaction) => { left_out! { outbox_emit::an_event_is_undone_with_its_transaction, "needs the caller's own transaction" } };

    // A relay, a schedule and whoever makes access tokens work on the store.
    (access::$r:ident) => { left_out! { access::$r, "tokens are made at the store" } };
    (schedule::$r:ident) => { left_out! { schedule::$r, "a server ticks for its clients" } };
    (by_hand::what_is_done_to_events_is_in_the_history) => { left_out! { by_hand::what_is_done_to_events_is_in_the_history, "a relay works on the store" } };
    (outbox_dead::$r:ident) => { left_out! { outbox_dead::$r, "a relay works on the store" } };
    (outbox_emit::an_event_is_kept_whole) => { left_out! { outbox_emit::an_event_is_kept_whole, "a relay works on the store" } };
    (outbox_input::$r:ident) => { left_out! { outbox_input::$r, "a relay works on the store" } };
    (outbox_order::$r:ident) => { left_out! { outbox_order::$r, "a relay works on the store" } };
    (outbox_doubt::$r:ident) => { left_out! { outbox_doubt::$r, "a relay works on the store" } };
    (outbox_relay::$r:ident) => { left_out! { outbox_relay::$r, "a relay works on the store" } };

    // Made with settings of its own, on a store's address: it would not come through here.
    (acquire::settings_fill_in_user_and_service) => { left_out! { acquire::settings_fill_in_user_and_service, "connects by itself" } };
    (crowd::a_crowd_shares_its_commits) => { left_out! { crowd::a_crowd_shares_its_commits, "connects by itself" } };
    (crowd::alone_is_the_same) => { left_out! { crowd::alone_is_the_same, "connects by itself" } };
    (inbox_input::a_larger_payload_can_be_allowed) => { left_out! { inbox_input::a_larger_payload_can_be_allowed, "connects by itself" } };
    (inbox_input::a_payload_is_json) => { left_out! { inbox_input::a_payload_is_json, "connects by itself" } };
    (input::a_longer_ttl_can_be_allowed) => { left_out! { input::a_longer_ttl_can_be_allowed, "connects by itself" } };
    (once_input::a_bad_answer_names_its_field) => { left_out! { once_input::a_bad_answer_names_its_field, "connects by itself" } };
    (once_input::a_larger_answer_can_be_allowed) => { left_out! { once_input::a_larger_answer_can_be_allowed, "connects by itself" } };
    (once_seal::$r:ident) => { left_out! { once_seal::$r, "connects by itself" } };
    (once_wait::many_who_wait_look_little) => { left_out! { once_wait::many_who_wait_look_little, "connects by itself" } };
    (once_wait::who_looks_for_all_hands_over) => { left_out! { once_wait::who_looks_for_all_hands_over, "connects by itself" } };
    (waiting::retries_are_counted) => { left_out! { waiting::retries_are_counted, "connects by itself" } };
    (waiting_store::$r:ident) => { left_out! { waiting_store::$r, "connects by itself" } };

    // Steps of the store that a server takes for its clients.
    (inbox_claim::the_next_due_time_is_known) => { left_out! { inbox_claim::the_next_due_time_is_known, "a server sleeps for its clients" } };
    (inbox_revive::a_requeue_begins_with_the_oldest_failure) => { left_out! { inbox_revive::a_requeue_begins_with_the_oldest_failure, "a server goes on to the end" } };
    (inbox_discard::a_discard_begins_with_the_oldest_failure) => { left_out! { inbox_discard::a_discard_begins_with_the_oldest_failure, "a server goes on to the end" } };
    (inbox_revive::a_reset_goes_step_by_step) => { left_out! { inbox_revive::a_reset_goes_step_by_step, "a server goes on to the end" } };
    (inbox_sweep::a_sweep_of_the_inbox_goes_batch_by_batch) => { left_out! { inbox_sweep::a_sweep_of_the_inbox_goes_batch_by_batch, "a server goes on to the end" } };
    (inbox_sweep::a_sweep_of_failed_items_goes_batch_by_batch) => { left_out! { inbox_sweep::a_sweep_of_failed_items_goes_batch_by_batch, "a server goes on to the end" } };
    (once_sweep::a_sweep_of_once_goes_batch_by_batch) => { left_out! { once_sweep::a_sweep_of_once_goes_batch_by_batch, "a server goes on to the end" } };
    (sweeping::a_sweep_forgets_what_is_old) => { left_out! { sweeping::a_sweep_forgets_what_is_old, "a server goes on to the end" } };
    (inbox_together::a_claim_tells_its_queue) => { left_out! { inbox_together::a_claim_tells_its_queue, "a server looks for itself" } };
    (inbox_together::one_who_is_refused_is_alone_with_it) => { left_out! { inbox_together::one_who_is_refused_is_alone_with_it, "what is no JSON cannot be sent" } };
    (show::a_status_tells_everything) => { left_out! { show::a_status_tells_everything, "a server signs waiters in" } };
    (sweeping::a_sweep_keeps_what_is_wanted) => { left_out! { sweeping::a_sweep_keeps_what_is_wanted, "a server signs waiters in" } };
    (waiting::a_dead_waiter_loses_its_place) => { left_out! { waiting::a_dead_waiter_loses_its_place, "a server signs waiters in" } };
    (waiting::a_line_of_the_dead_blocks_nobody) => { left_out! { waiting::a_line_of_the_dead_blocks_nobody, "a server signs waiters in" } };
    (waiting::a_newcomer_does_not_overtake) => { left_out! { waiting::a_newcomer_does_not_overtake, "a server signs waiters in" } };
    (waiting::a_waiter_keeps_its_place) => { left_out! { waiting::a_waiter_keeps_its_place, "a server signs waiters in" } };
    (once_wait::a_release_reaches_who_waits) => { left_out! { once_wait::a_release_reaches_who_waits, "looks for waiters in its own process" } };
    (once_wait::an_answer_reaches_who_waits) => { left_out! { once_wait::an_answer_reaches_who_waits, "looks for waiters in its own process" } };
    (once_resolve::a_resolve_reaches_who_waits) => { left_out! { once_resolve::a_resolve_reaches_who_waits, "looks for waiters in its own process" } };
    (once_wait::who_goes_away_is_not_missed) => { left_out! { once_wait::who_goes_away_is_not_missed, "looks for waiters in its own process" } };
    (losing::$r:ident) => { left_out! { losing::$r, "signs waiters in, or counts what the store writes" } };
    (once_losing::$r:ident) => { left_out! { once_losing::$r, "counts what the store writes" } };
    (tokens::a_restored_store_goes_on_above) => { left_out! { tokens::a_restored_store_goes_on_above, "the server would have to stop" } };

    // And the one difference: white space around an answer is lost on the way.
    (once_begin::an_answer_is_replayed_as_it_was_given) => { left_out! { once_begin::an_answer_is_replayed_as_it_was_given, "white space around it is lost" } };

    ($subject:ident::$rule:ident) => {
        #[test]
        fn $rule() {
            let rule = concat!(stringify!($subject), "::", stringify!($rule));
            crate::keep(rule, turno_testkit::conformance::TestStore::sqlite());
        }
    };
}

turno_testkit::conformance_rules! { conformance_each, over_http }

/// What depends on who comes when, through servers on PostgreSQL.
mod postgres {
    macro_rules! test {
        ($subject:ident::$rule:ident) => {
            #[test]
            fn $rule() {
                let rule = concat!(stringify!($subject), "::", stringify!($rule));
                crate::keep(rule, turno_testkit::conformance::TestStore::postgres());
            }
        };
    }

    /// Of each subject all that is not left out above.
    #[rustfmt::skip]
    macro_rules! on_postgres {
        (crowd::a_crowd_shares_its_commits) => {};
        (crowd::alone_is_the_same) => {};
        (crowd::$r:ident) => { test! { crowd::$r } };
        (again::$r:ident) => { test! { again::$r } };
        (request::$r:ident) => { test! { request::$r } };
        (readers::$r:ident) => { test! { readers::$r } };
        (runner::$r:ident) => { test! { runner::$r } };
        (inbox_again::$r:ident) => { test! { inbox_again::$r } };
        (inbox_crowd::$r:ident) => { test! { inbox_crowd::$r } };
        (inbox_abandoned::$r:ident) => { test! { inbox_abandoned::$r } };
        (once_again::$r:ident) => { test! { once_again::$r } };
        (once_crowd::$r:ident) => { test! { once_crowd::$r } };
        ($subject:ident::$rule:ident) => {};
    }

    turno_testkit::conformance_rules! { conformance_each, on_postgres }
}
