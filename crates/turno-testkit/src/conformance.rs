//! The conformance suite: the behaviour that each store must have, with one function per rule.
//!
//! A store ships when it passes all rules. [`conformance_suite!`](crate::conformance_suite) generates one test per rule. A new
//! rule is a function in one of these modules and a line in the list (`rules.rs`); from then on each store runs it.
#![allow(
    clippy::unwrap_used,
    reason = "a rule is a test: it fails by panicking"
)]

pub mod access;
pub mod acquire;
pub mod again;
pub mod by_hand;
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
pub mod inbox_discard;
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
pub mod inbox_together;
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
pub mod once_resolve;
pub mod once_seal;
pub mod once_show;
pub mod once_stale;
pub mod once_sweep;
pub mod once_tx;
pub mod once_unknown;
pub mod once_wait;
pub mod outbox_dead;
pub mod outbox_doubt;
pub mod outbox_emit;
pub mod outbox_input;
mod outbox_kit;
pub mod outbox_order;
pub mod outbox_relay;
pub mod readers;
pub mod request;
mod rules;
pub mod runner;
pub mod schedule;
pub mod share;
pub mod show;
pub mod stale;
pub mod sweeping;
mod test_store;
pub mod together;
pub mod tokens;
mod trace;
pub mod waiting;
pub mod waiting_store;

use std::pin::Pin;

pub use caller::{Ask, Caller, OpenTx};
pub use test_store::{Connect, TestStore};
pub use trace::{Backup, Trace, Watch};

/// A rule that can run on a test store.
type Rule = for<'a> fn(&'a TestStore) -> Pin<Box<dyn Future<Output = ()> + 'a>>;

/// Runs one rule on its own test store. All rules are compiled here once, and not again for each store.
pub fn keep(rule: &str, bed: &TestStore) {
    let (_, keep) = RULES.iter().find(|(name, _)| *name == rule).unwrap();
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(keep(bed));
}

/// Generates one test per rule, each on its own test store.
///
/// ```no_run
/// turno_testkit::conformance_suite!(turno_testkit::conformance::TestStore::sqlite());
/// ```
#[macro_export]
macro_rules! conformance_suite {
    ($bed:expr) => {
        $crate::conformance_rules! { conformance_tests, $bed }
    };
}

/// Generates one test per `module::rule`.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_tests {
    ($bed:expr; $($face:ident { $($subject:ident::$rule:ident,)* })*) => {
        $(
            mod $face {
                $(
                    #[test]
                    fn $rule() {
                        let rule = concat!(stringify!($subject), "::", stringify!($rule));
                        $crate::conformance::keep(rule, &$bed);
                    }
                )*
            }
        )*
    };
}

/// Passes each rule to another macro, for a suite that differs between stores.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_each {
    ($each:ident; $($face:ident { $($subject:ident::$rule:ident,)* })*) => {
        $(
            mod $face {
                $($each! { $subject::$rule })*
            }
        )*
    };
}

/// Maps the name of each rule to its function.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_table {
    (; $($face:ident { $($subject:ident::$rule:ident,)* })*) => {
        const RULES: &[(&str, Rule)] = &[
            $($((
                concat!(stringify!($subject), "::", stringify!($rule)),
                |bed| Box::pin($subject::$rule(bed)),
            ),)*)*
        ];
    };
}

crate::conformance_rules! { conformance_table, }

#[cfg(test)]
mod tests {
    /// A rule that is not in the list would never run.
    #[test]
    fn every_rule_is_in_the_list() {
        let list = include_str!("conformance/rules.rs");
        let subjects = [
            ("access", include_str!("conformance/access.rs")),
            ("by_hand", include_str!("conformance/by_hand.rs")),
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
            ("readers", include_str!("conformance/readers.rs")),
            ("together", include_str!("conformance/together.rs")),
            ("waiting", include_str!("conformance/waiting.rs")),
            (
                "waiting_store",
                include_str!("conformance/waiting_store.rs"),
            ),
            ("forced", include_str!("conformance/forced.rs")),
            ("show", include_str!("conformance/show.rs")),
            ("again", include_str!("conformance/again.rs")),
            ("request", include_str!("conformance/request.rs")),
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
            (
                "inbox_together",
                include_str!("conformance/inbox_together.rs"),
            ),
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
            ("once_resolve", include_str!("conformance/once_resolve.rs")),
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
