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
pub mod input;
mod kit;
pub mod losing;
pub mod runner;
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
