//! The conformance suite: what every store must do, one function a rule.
//!
//! A store ships by passing all of it. [`conformance_suite!`](crate::conformance_suite) makes one test of each rule; a new
//! rule is a function in one of these modules and a line in the list below, and every store runs it from then on.
#![allow(
    clippy::unwrap_used,
    reason = "a rule is a test: it fails by panicking"
)]

pub mod acquire;
pub mod again;
mod bed;
mod caller;
pub mod crowd;
pub mod expiry;
pub mod forced;
pub mod guard;
pub mod holds;
pub mod inbox_abandoned;
pub mod inbox_again;
mod inbox_caller;
pub mod inbox_claim;
pub mod inbox_crowd;
pub mod inbox_effect;
pub mod inbox_fail;
pub mod inbox_groups;
pub mod inbox_input;
pub mod inbox_keys;
mod inbox_kit;
pub mod inbox_late;
pub mod inbox_list;
pub mod inbox_order;
pub mod inbox_push;
pub mod inbox_revive;
mod inbox_run;
pub mod inbox_settle;
pub mod inbox_shutdown;
pub mod inbox_stats;
pub mod inbox_sweep;
pub mod inbox_tx;
pub mod inbox_worker;
pub mod input;
mod kit;
pub mod losing;
pub mod once_again;
pub mod once_begin;
mod once_counted;
pub mod once_crowd;
pub mod once_input;
pub mod once_keep;
mod once_kit;
pub mod once_losing;
pub mod once_quota;
pub mod once_seal;
pub mod once_show;
pub mod once_stale;
pub mod once_sweep;
pub mod once_tx;
pub mod once_unknown;
pub mod once_wait;
pub mod outbox_dead;
pub mod outbox_emit;
pub mod outbox_input;
mod outbox_kit;
pub mod outbox_order;
pub mod outbox_relay;
pub mod runner;
pub mod schedule;
pub mod share;
pub mod show;
pub mod stale;
pub mod sweeping;
pub mod together;
pub mod tokens;
mod trace;
pub mod waiting;

pub use bed::Bed;
pub use caller::{Ask, Caller, OpenTx};
pub use trace::{Backup, Trace, Watch};

/// Makes a test of every rule, each on a bed of its own.
///
/// ```no_run
/// turno_testkit::conformance_suite!(turno_testkit::conformance::Bed::sqlite());
/// ```
#[macro_export]
macro_rules! conformance_suite {
    ($bed:expr) => {
        $crate::conformance_tests! {
            $bed;
            acquire::a_free_lock_is_granted,
            acquire::a_held_lock_is_busy_and_tells_by_whom,
            acquire::a_nameless_holder_is_shown_too,
            acquire::settings_fill_in_user_and_service,
            acquire::the_same_owner_enters_again,
            acquire::a_released_lock_is_free,
            acquire::a_dropped_lease_is_given_back,
            acquire::of_many_at_once_one_wins,
            input::names_may_be_anything_printable,
            input::bad_input_names_its_field,
            input::a_longer_ttl_can_be_allowed,
            losing::losing_to_a_holder_writes_nothing,
            losing::losing_to_a_rest_writes_nothing,
            losing::losing_to_a_shared_rest_writes_nothing,
            losing::losing_to_a_line_writes_nothing,
            losing::losing_to_a_line_after_an_expiry_writes_nothing,
            losing::losing_to_full_permits_writes_nothing,
            losing::a_stale_renew_does_not_touch_the_row,
            expiry::an_expired_lock_is_taken_over,
            expiry::an_expired_owner_starts_anew,
            expiry::a_takeover_may_change_the_mode,
            expiry::a_late_renewal_is_recorded,
            expiry::a_renewal_never_revives,
            expiry::a_renewal_never_shortens,
            schedule::a_tick_is_pushed_once,
            schedule::a_tick_belongs_to_whoever_came_first,
            schedule::a_new_schedule_begins_now,
            schedule::missed_ticks_are_skipped,
            schedule::missed_ticks_are_caught_up_with,
            schedule::a_schedule_out_of_rule_is_refused,
            schedule::a_schedule_knows_its_time_zone,
            sweeping::a_sweep_closes_what_has_expired,
            sweeping::a_sweep_forgets_what_is_old,
            sweeping::a_sweep_keeps_what_is_wanted,
            tokens::tokens_only_grow,
            tokens::a_purged_resource_comes_back_higher,
            tokens::a_clock_that_is_behind_still_counts_up,
            tokens::a_restored_store_goes_on_above,
            stale::a_wrong_token_is_lost,
            stale::a_token_is_of_one_resource,
            stale::a_zombie_is_recorded_once,
            stale::each_lease_has_its_own_zombie,
            stale::a_zombie_is_recorded_once_after_a_late_renewal,
            stale::a_shared_zombie_is_recorded_once,
            stale::a_release_after_the_expiry_says_so,
            holds::a_min_hold_outlasts_the_release,
            holds::a_min_hold_ends_with_its_time,
            holds::a_max_hold_caps_every_renewal,
            holds::a_max_hold_may_be_below_the_ttl,
            share::permits_let_so_many_in,
            share::of_many_at_once_so_many_get_permits,
            share::an_expired_permit_makes_room,
            share::busy_sharers_tell_who_ends_first,
            share::an_exclusive_one_waits_for_the_last_sharer,
            share::a_renewed_sharer_keeps_the_exclusive_one_out,
            share::a_sharer_enters_again,
            share::an_exclusive_owner_enters_again_as_a_sharer,
            share::a_sharer_does_not_become_exclusive,
            share::each_sharer_has_its_history,
            share::a_sharer_who_enters_again_ends_nobody,
            together::all_are_taken_in_order,
            together::one_busy_means_none,
            together::one_shared_means_none,
            together::expired_ones_are_taken_over_together,
            together::a_name_given_twice_is_one,
            together::an_owner_of_one_enters_it_again,
            together::opposite_orders_never_deadlock,
            waiting::a_release_grants_a_waiter,
            waiting::an_expiry_grants_a_waiter,
            waiting::a_wait_ends_as_busy,
            waiting::a_wait_of_zero_is_a_look,
            waiting::a_cancelled_waiter_leaves_the_line,
            waiting::a_break_wakes_a_waiter,
            waiting::retries_are_counted,
            waiting::a_line_is_served_in_order,
            waiting::a_newcomer_does_not_overtake,
            waiting::a_dead_waiter_loses_its_place,
            waiting::a_line_of_the_dead_blocks_nobody,
            waiting::a_waiter_keeps_its_place,
            waiting::a_holder_enters_again_past_the_line,
            waiting::every_waiter_gets_its_turn,
            forced::a_broken_lock_is_free,
            forced::a_break_ends_all_holds,
            forced::a_break_names_the_holders_token,
            forced::one_sharer_is_broken,
            forced::a_break_ends_the_min_hold,
            forced::a_break_keeps_the_others_min_hold,
            show::a_status_tells_everything,
            show::sharers_do_not_borrow_names,
            show::a_list_has_what_is_held,
            show::a_prefix_is_no_pattern,
            show::pages_lose_nobody,
            show::a_history_is_newest_first,
            show::a_history_of_a_prefix,
            again::an_acquire_sent_twice_is_one,
            again::an_acquire_of_several_sent_twice_is_one,
            again::a_release_sent_twice_is_one,
            again::a_release_sent_twice_meets_the_next_holder,
            again::a_release_sent_twice_takes_one_of_several,
            again::a_break_sent_twice_is_one,
            guard::a_guard_passes_for_a_live_lease,
            guard::a_guard_fails_for_a_stale_lease,
            guard::a_guarded_lock_is_not_taken_over,
            guard::an_unguarded_lock_is_taken_over,
            guard::a_wait_beside_a_guard_ends_as_an_answer,
            guard::a_line_beside_a_guard_counts,
            guard::a_guard_ends_with_its_transaction,
            runner::a_run_releases_on_success,
            runner::a_run_releases_on_error,
            runner::a_run_releases_on_panic,
            runner::a_run_releases_on_cancellation,
            runner::a_run_tells_busy,
            runner::a_run_stops_when_its_lease_is_lost,
            runner::a_run_renews_long_work,
            runner::a_run_under_several,
            runner::a_short_max_hold_leaves_its_work_time,
            crowd::each_of_many_gets_its_own_answer,
            crowd::one_of_many_wins,
        }
        // In a module of their own, so that they can be run by its name.
        mod inbox {
            $crate::conformance_tests! {
                $bed;
                inbox_push::ids_grow_in_the_order_of_the_pushes,
                inbox_push::an_item_is_claimed_as_it_was_pushed,
                inbox_push::a_delayed_item_waits_for_its_time,
                inbox_push::a_delayed_item_is_claimed_in_time,
                inbox_push::queues_are_apart,
                inbox_push::a_push_of_nothing_is_nothing,
                inbox_push::pushes_at_once_lose_nothing,
                inbox_keys::a_key_is_taken_in_every_state,
                inbox_keys::a_key_twice_in_one_push_is_stored_once,
                inbox_keys::of_many_pushes_of_one_key_one_stores_it,
                inbox_keys::pushes_without_a_key_are_all_stored,
                inbox_claim::a_claimed_item_is_nobody_elses,
                inbox_claim::a_claim_of_none_claims_nothing,
                inbox_claim::a_claim_is_shown_with_its_worker,
                inbox_claim::a_waiting_claim_gets_the_next_push,
                inbox_claim::the_next_due_time_is_known,
                inbox_claim::of_many_claims_each_gets_its_own,
                inbox_order::by_priority_and_then_by_age,
                inbox_order::an_urgent_one_goes_first,
                inbox_order::those_with_a_time_go_by_it,
                inbox_order::a_time_does_not_beat_a_priority,
                inbox_order::one_claim_answers_in_order,
                inbox_groups::a_claim_takes_one_of_each_group,
                inbox_groups::the_order_of_a_group_beats_all_else,
                inbox_groups::a_failed_first_holds_its_group_up,
                inbox_groups::a_first_one_set_aside_lets_the_next_go,
                inbox_groups::a_vanished_worker_keeps_the_order,
                inbox_groups::a_revived_one_goes_back_to_its_place,
                inbox_groups::a_revived_one_waits_for_the_one_at_work,
                inbox_groups::a_reset_keeps_the_order,
                inbox_groups::groups_are_of_one_queue,
                inbox_groups::a_long_group_runs_through,
                inbox_settle::a_completed_item_is_gone,
                inbox_settle::a_wrong_claim_is_stale,
                inbox_settle::a_claim_given_twice_is_settled_once,
                inbox_settle::a_claim_given_twice_is_extended_once,
                inbox_settle::settling_nothing_is_nothing,
                inbox_settle::a_claim_taken_over_is_stale,
                inbox_settle::without_its_claim_an_item_would_be_lost,
                inbox_settle::a_late_claim_is_right_until_taken_over,
                inbox_settle::an_extension_only_lengthens,
                inbox_fail::a_failed_item_is_tried_again,
                inbox_fail::a_last_attempt_sets_it_aside,
                inbox_fail::a_hopeless_item_is_set_aside_at_once,
                inbox_fail::the_back_off_doubles,
                inbox_fail::errors_are_bounded,
                inbox_fail::an_error_may_be_any_text,
                inbox_fail::an_error_may_have_a_zero,
                inbox_abandoned::a_claim_ends_with_its_lease,
                inbox_abandoned::an_abandoned_item_is_claimed_at_once,
                inbox_abandoned::an_abandoned_attempt_is_recorded,
                inbox_abandoned::an_item_that_kills_its_workers_is_set_aside,
                inbox_abandoned::an_extended_claim_is_not_taken_over,
                inbox_abandoned::what_was_done_is_not_abandoned,
                inbox_abandoned::very_many_are_taken_over,
                inbox_revive::what_is_given_back_costs_no_attempt,
                inbox_revive::some_of_a_claim_can_be_given_back,
                inbox_revive::a_reset_takes_items_away,
                inbox_revive::a_reset_goes_step_by_step,
                inbox_revive::a_requeue_revives_with_all_attempts,
                inbox_revive::a_requeue_of_some_leaves_the_others,
                inbox_revive::a_requeue_begins_with_the_oldest_failure,
                inbox_stats::an_unknown_queue_has_zeros,
                inbox_stats::queues_are_listed_by_their_beginning,
                inbox_stats::the_oldest_pending_item_is_known,
                inbox_stats::who_waits_for_its_group_is_pending,
                inbox_stats::time_makes_items_pending,
                inbox_stats::the_counters_are_what_the_lists_show,
                inbox_stats::the_counters_add_up_under_load,
                inbox_list::pages_of_items_lose_nobody,
                inbox_list::a_list_tells_everything,
                inbox_list::the_size_of_a_page_is_bounded,
                inbox_again::a_push_sent_twice_is_one,
                inbox_again::a_claim_sent_twice_is_one,
                inbox_again::a_completion_sent_twice_is_one,
                inbox_again::a_failure_sent_twice_is_one,
                inbox_again::a_give_back_sent_twice_is_one,
                inbox_again::a_turn_sent_twice_is_one,
                inbox_again::another_request_is_another,
                inbox_tx::a_push_commits_with_its_transaction,
                inbox_tx::a_push_is_undone_with_its_transaction,
                inbox_tx::a_push_in_a_transaction_knows_keys,
                inbox_tx::a_push_in_a_transaction_is_checked,
                inbox_tx::a_committed_push_reaches_a_waiting_claim,
                inbox_tx::a_completion_commits_with_its_transaction,
                inbox_tx::a_completion_is_undone_with_its_transaction,
                inbox_tx::a_stale_completion_fails_its_transaction,
                inbox_tx::an_item_being_completed_is_not_taken_over,
                inbox_late::who_commits_last_is_found,
                inbox_late::commits_in_any_order_are_found,
                inbox_late::a_rolled_back_push_holds_nobody_up,
                inbox_late::a_late_one_of_a_group_waits_for_the_other,
                inbox_worker::a_worker_handles_every_item,
                inbox_worker::a_worker_keeps_to_its_concurrency,
                inbox_worker::a_push_wakes_an_idle_worker,
                inbox_worker::a_worker_wakes_for_what_is_due,
                inbox_worker::a_worker_looks_by_itself,
                inbox_worker::failures_and_panics_are_tried_again,
                inbox_worker::a_wrong_payload_is_a_failed_attempt,
                inbox_worker::a_failed_handler_backs_off,
                inbox_shutdown::a_slow_handler_keeps_its_claim,
                inbox_shutdown::a_lost_claim_stops_its_handler,
                inbox_shutdown::a_shutdown_gives_back_what_was_not_begun,
                inbox_shutdown::grace_comes_to_an_end,
                inbox_shutdown::an_idle_worker_ends_at_once,
                inbox_effect::an_effect_commits_with_its_completion,
                inbox_effect::a_lost_item_leaves_no_effect,
                inbox_input::a_bad_item_refuses_the_whole_push,
                inbox_input::a_payload_is_json,
                inbox_input::a_queue_has_a_name,
                inbox_input::a_bad_claim_claims_nothing,
                inbox_input::a_bad_change_changes_nothing,
                inbox_input::a_claim_is_read_strictly,
                inbox_input::a_larger_payload_can_be_allowed,
                inbox_sweep::a_sweep_forgets_completed_items,
                inbox_sweep::a_sweep_keeps_what_is_not_done,
                inbox_sweep::a_sweep_of_the_inbox_goes_batch_by_batch,
                inbox_sweep::a_sweep_keeps_recent_answers,
                inbox_crowd::a_crowd_of_workers_does_each_item_once,
                inbox_crowd::without_claims_a_crowd_does_items_twice,
                outbox_emit::an_event_is_kept_whole,
                outbox_emit::ids_grow_with_the_time,
                outbox_emit::an_event_commits_with_its_transaction,
                outbox_emit::an_event_is_undone_with_its_transaction,
                outbox_emit::a_bad_event_leaves_the_transaction_alone,
                outbox_emit::a_given_id_is_emitted_once,
                outbox_emit::an_emission_is_answered_again,
                outbox_emit::a_late_commit_is_delivered,
                outbox_emit::the_outbox_is_no_inbox,
                outbox_emit::an_event_is_seen_once,
                outbox_input::a_bad_event_refuses_the_whole_call,
                outbox_input::a_bad_relay_does_not_start,
                outbox_order::of_each_key_one_at_a_time,
                outbox_order::without_order_all_at_once,
                outbox_order::relays_of_both_kinds_share_an_outbox,
                outbox_order::a_refused_event_keeps_its_place,
                outbox_order::a_refused_event_comes_again,
                outbox_order::what_is_not_named_goes_back,
                outbox_order::a_vanished_relay_spends_no_attempt,
                outbox_order::a_zombie_relay_settles_nothing,
                outbox_order::a_lost_answer_is_given_again,
                outbox_order::the_only_relay_takes_over_at_once,
                outbox_order::a_delayed_event_comes_at_its_time,
                outbox_dead::a_skipped_event_lets_its_key_go_on,
                outbox_dead::a_blocked_event_holds_its_key,
                outbox_dead::a_discarded_event_is_gone,
                outbox_dead::a_parked_key_is_set_aside_together,
                outbox_dead::a_key_given_up_goes_on,
                outbox_dead::dispatched_events_leave_a_record,
                outbox_dead::events_are_listed_page_by_page,
                outbox_relay::everything_arrives_once,
                outbox_relay::an_emission_wakes_a_relay,
                outbox_relay::an_outage_costs_nothing,
                outbox_relay::a_refused_event_dies_alone,
                outbox_relay::poison_is_found_by_halves,
                outbox_relay::a_dead_event_does_to_its_key_as_chosen,
                outbox_relay::a_vanished_relay_is_followed_by_another,
                outbox_relay::one_relay_at_a_time,
                outbox_relay::a_relay_told_to_stop_gives_back,
            }
        }
        mod once {
            $crate::conformance_tests! {
                $bed;
                once_begin::a_new_key_is_fresh_and_then_in_flight,
                once_begin::a_question_can_be_asked_again,
                once_begin::an_answer_is_replayed_as_it_was_given,
                once_begin::a_value_is_answered_to_everybody,
                once_begin::other_content_is_a_mismatch,
                once_begin::without_a_fingerprint_nothing_is_compared,
                once_begin::an_answer_is_kept_for_its_time,
                once_begin::an_answer_can_be_kept_for_another_time,
                once_begin::without_a_ttl_only_the_flight_counts,
                once_begin::a_released_key_is_fresh,
                once_begin::a_tombstone_is_replayed_as_not_stored,
                once_begin::an_answer_of_another_kind_is_an_error,
                once_quota::a_scope_has_so_many_live_keys,
                once_quota::only_live_keys_count,
                once_quota::a_rerun_is_not_counted_twice,
                once_quota::what_lives_longer_than_was_said_counts,
                once_unknown::a_run_past_its_lease_is_unknown,
                once_unknown::a_rerun_takes_over,
                once_unknown::of_many_reruns_one_gets_it,
                once_unknown::a_doubted_run_is_unknown_at_once,
                once_unknown::unknown_is_remembered_for_a_day_at_least,
                once_unknown::a_probe_decides,
                once_unknown::a_probe_that_cannot_tell_leaves_it_unknown,
                once_unknown::a_person_completes_what_is_unknown,
                once_unknown::a_person_forgets,
                once_unknown::a_vanished_run_is_not_repeated,
                once_unknown::with_a_lock_a_vanished_run_would_be_repeated,
                once_stale::a_stale_answer_is_told_and_counted,
                once_stale::a_zombie_does_not_overwrite,
                once_stale::without_its_token_a_zombie_would_overwrite,
                once_stale::a_late_answer_counts_if_nobody_took_over,
                once_stale::a_stale_release_changes_nothing,
                once_stale::what_has_ended_stays_ended,
                once_stale::a_claim_is_of_one_key,
                once_stale::a_token_is_never_given_again,
                once_again::a_begin_sent_twice_is_one,
                once_again::a_rerun_sent_twice_is_one,
                once_again::a_completion_sent_twice_is_one,
                once_again::a_release_sent_twice_is_one,
                once_keep::long_work_keeps_its_claim,
                once_keep::work_that_was_taken_over_hears_of_it,
                once_keep::an_extension_after_the_end_counts,
                once_keep::an_extension_never_shortens,
                once_keep::a_dropped_claim_leaves_the_key_unknown,
                once_keep::a_claim_that_ended_is_dropped_quietly,
                once_keep::a_dropped_question_gives_the_claim_back,
                once_keep::work_that_is_cut_off_leaves_the_key_unknown,
                once_keep::work_that_fails_releases_or_doubts,
                once_wait::an_answer_reaches_who_waits,
                once_wait::a_commit_reaches_who_waits,
                once_wait::a_wait_ends_as_in_flight,
                once_wait::a_vanished_run_ends_the_wait,
                once_wait::a_release_reaches_who_waits,
                once_wait::a_mismatch_does_not_wait,
                once_wait::many_who_wait_look_little,
                once_wait::who_looks_for_all_hands_over,
                once_wait::who_goes_away_is_not_missed,
                once_tx::an_answer_commits_with_its_transaction,
                once_tx::an_answer_is_undone_with_its_transaction,
                once_tx::an_answer_and_its_events_are_one,
                once_tx::a_stale_answer_fails_its_transaction,
                once_tx::an_answer_said_again_in_a_transaction_stays,
                once_tx::a_claim_answered_in_a_transaction_is_dropped_quietly,
                once_tx::a_begin_beside_an_open_answer_does_not_wait,
                once_tx::work_being_answered_is_not_taken_over,
                once_tx::neighbours_of_an_open_answer_do_not_wait,
                once_tx::answers_beside_an_open_one_do_not_wait,
                once_losing::being_turned_away_writes_nothing,
                once_losing::a_crowd_turned_away_writes_nothing,
                once_input::keys_may_be_anything_printable,
                once_input::a_bad_question_names_its_field,
                once_input::the_extremes_are_allowed,
                once_input::a_bad_answer_names_its_field,
                once_input::a_larger_answer_can_be_allowed,
                once_input::a_strange_claim_is_stale,
                once_sweep::a_sweep_forgets_answers_past_their_time,
                once_sweep::a_sweep_keeps_what_is_kept_for_longer,
                once_sweep::a_sweep_keeps_what_is_unknown,
                once_sweep::a_sweep_keeps_a_long_run,
                once_sweep::a_sweep_of_once_goes_batch_by_batch,
                once_crowd::a_crowd_has_its_work_done_once,
                once_crowd::a_crowd_that_does_not_wait_is_told,
                once_crowd::each_of_a_crowd_gets_its_own_answer,
                once_seal::a_sealed_answer_is_not_in_the_table,
                once_seal::another_key_is_refused,
                once_seal::a_sealed_answer_cannot_be_moved,
                once_seal::keys_can_be_changed,
                once_show::a_status_of_a_key_tells_everything,
                once_show::a_list_has_what_is_known,
                once_show::a_prefix_of_keys_is_no_pattern,
                once_show::pages_of_keys_lose_nobody,
            }
        }
    };
}

/// One test for each `module::rule`.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_tests {
    ($bed:expr; $($subject:ident::$rule:ident,)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $rule() {
                let bed = $bed;
                $crate::conformance::$subject::$rule(&bed).await;
            }
        )*
    };
}

#[cfg(test)]
mod tests {
    /// A rule that is not in the list would never run.
    #[test]
    fn every_rule_is_in_the_list() {
        let list = include_str!("conformance.rs");
        let subjects = [
            ("acquire", include_str!("conformance/acquire.rs")),
            ("input", include_str!("conformance/input.rs")),
            ("losing", include_str!("conformance/losing.rs")),
            ("expiry", include_str!("conformance/expiry.rs")),
            ("schedule", include_str!("conformance/schedule.rs")),
            ("sweeping", include_str!("conformance/sweeping.rs")),
            ("tokens", include_str!("conformance/tokens.rs")),
            ("stale", include_str!("conformance/stale.rs")),
            ("holds", include_str!("conformance/holds.rs")),
            ("share", include_str!("conformance/share.rs")),
            ("together", include_str!("conformance/together.rs")),
            ("waiting", include_str!("conformance/waiting.rs")),
            ("forced", include_str!("conformance/forced.rs")),
            ("show", include_str!("conformance/show.rs")),
            ("again", include_str!("conformance/again.rs")),
            ("guard", include_str!("conformance/guard.rs")),
            ("runner", include_str!("conformance/runner.rs")),
            ("crowd", include_str!("conformance/crowd.rs")),
            ("inbox_push", include_str!("conformance/inbox_push.rs")),
            ("inbox_keys", include_str!("conformance/inbox_keys.rs")),
            ("inbox_claim", include_str!("conformance/inbox_claim.rs")),
            ("inbox_order", include_str!("conformance/inbox_order.rs")),
            ("inbox_groups", include_str!("conformance/inbox_groups.rs")),
            ("inbox_settle", include_str!("conformance/inbox_settle.rs")),
            ("inbox_fail", include_str!("conformance/inbox_fail.rs")),
            (
                "inbox_abandoned",
                include_str!("conformance/inbox_abandoned.rs"),
            ),
            ("inbox_revive", include_str!("conformance/inbox_revive.rs")),
            ("inbox_stats", include_str!("conformance/inbox_stats.rs")),
            ("inbox_list", include_str!("conformance/inbox_list.rs")),
            ("inbox_again", include_str!("conformance/inbox_again.rs")),
            ("inbox_tx", include_str!("conformance/inbox_tx.rs")),
            ("inbox_late", include_str!("conformance/inbox_late.rs")),
            ("inbox_worker", include_str!("conformance/inbox_worker.rs")),
            (
                "inbox_shutdown",
                include_str!("conformance/inbox_shutdown.rs"),
            ),
            ("inbox_effect", include_str!("conformance/inbox_effect.rs")),
            ("inbox_input", include_str!("conformance/inbox_input.rs")),
            ("inbox_sweep", include_str!("conformance/inbox_sweep.rs")),
            ("inbox_crowd", include_str!("conformance/inbox_crowd.rs")),
            ("outbox_emit", include_str!("conformance/outbox_emit.rs")),
            ("outbox_input", include_str!("conformance/outbox_input.rs")),
            ("outbox_order", include_str!("conformance/outbox_order.rs")),
            ("outbox_dead", include_str!("conformance/outbox_dead.rs")),
            ("outbox_relay", include_str!("conformance/outbox_relay.rs")),
            ("once_begin", include_str!("conformance/once_begin.rs")),
            ("once_quota", include_str!("conformance/once_quota.rs")),
            ("once_unknown", include_str!("conformance/once_unknown.rs")),
            ("once_stale", include_str!("conformance/once_stale.rs")),
            ("once_again", include_str!("conformance/once_again.rs")),
            ("once_keep", include_str!("conformance/once_keep.rs")),
            ("once_wait", include_str!("conformance/once_wait.rs")),
            ("once_tx", include_str!("conformance/once_tx.rs")),
            ("once_losing", include_str!("conformance/once_losing.rs")),
            ("once_input", include_str!("conformance/once_input.rs")),
            ("once_sweep", include_str!("conformance/once_sweep.rs")),
            ("once_crowd", include_str!("conformance/once_crowd.rs")),
            ("once_seal", include_str!("conformance/once_seal.rs")),
            ("once_show", include_str!("conformance/once_show.rs")),
        ];
        for (subject, source) in subjects {
            for line in source
                .lines()
                .filter_map(|line| line.strip_prefix("pub async fn "))
            {
                let rule = line.split('(').next().unwrap();
                assert!(
                    list.contains(&format!(" {subject}::{rule},")),
                    "{subject}::{rule} is not in the list"
                );
            }
        }
    }
}
