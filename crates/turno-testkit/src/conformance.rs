//! The conformance suite: the behaviour that each store must have, with one function per rule.
//!
//! A store ships when it passes all rules. A new rule is a function with the attribute [`rule`] in one of the folders; from then
//! on each store runs it, directly and over HTTP. [`trials`] makes a test of each rule for a test program without the default
//! harness (`harness = false`), so that rules are compiled once and not again for each store.
#![allow(
    clippy::unwrap_used,
    reason = "a rule is a test: it fails by panicking"
)]

mod admin;
mod caller;
mod caller_writes;
mod dialect;
mod inbox;
mod lock;
mod once;
mod outbox;
mod test_store;
mod trace;

use std::pin::Pin;

use libtest_mimic::Trial;
use turno_testkit_macros::rule;

pub use caller::{Ask, Caller, OpenTx};
pub use lock::fixtures::acquired;
pub use test_store::{Connect, TestStore};
pub use trace::{Backup, Trace, Watch};

/// A rule that can run on a test store.
#[derive(Debug)]
pub struct Rule {
    /// Path of its function.
    path: &'static str,
    only_postgres: bool,
    run: for<'a> fn(&'a TestStore) -> Pin<Box<dyn Future<Output = ()> + 'a>>,
}

inventory::collect!(Rule);

impl Rule {
    /// Returns all rules, by name.
    pub fn all() -> Vec<&'static Rule> {
        let mut rules: Vec<_> = inventory::iter::<Rule>().collect();
        rules.sort_by_key(|rule| rule.path);
        rules
    }

    /// Returns the name, such as `lock::acquire::a_free_lock_is_granted`.
    pub fn name(&self) -> &'static str {
        let suite = concat!(module_path!(), "::");
        self.path.strip_prefix(suite).unwrap_or(self.path)
    }

    /// Returns whether the rule is about what only PostgreSQL has.
    pub fn is_only_postgres(&self) -> bool {
        self.only_postgres
    }

    /// Runs the rule on a test store of its own.
    ///
    /// # Panics
    ///
    /// Panics if the store breaks the rule.
    pub fn run(&self, store: &TestStore) {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap()
            .block_on((self.run)(store));
    }
}

/// Returns one test per rule, each on its own test store. `store` is the first part of their names.
pub fn trials(store: &'static str, open: fn() -> TestStore) -> impl Iterator<Item = Trial> {
    Rule::all().into_iter().map(move |rule| {
        Trial::test(format!("{store}::{}", rule.name()), move || {
            rule.run(&open());
            Ok(())
        })
        .with_ignored_flag(rule.is_only_postgres() && store == "sqlite")
    })
}

#[cfg(test)]
mod tests {
    use super::Rule;

    /// A rule without the attribute, or one that the linker drops, would never run.
    #[test]
    fn every_function_that_takes_a_store_alone_is_a_rule() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/conformance");
        let names: Vec<_> = Rule::all().iter().map(|rule| rule.name()).collect();
        let mut functions = 0;
        for noun in ["lock", "inbox", "outbox", "once", "admin"] {
            for file in std::fs::read_dir(format!("{folder}/{noun}")).unwrap() {
                let path = file.unwrap().path();
                let module = path.file_stem().unwrap().to_str().unwrap();
                if module == "fixtures" {
                    continue;
                }
                let source = std::fs::read_to_string(&path).unwrap();
                for name in source.lines().filter_map(rule_in) {
                    let name = format!("{noun}::{module}::{name}");
                    assert!(names.contains(&name.as_str()), "{name} is not registered");
                    functions += 1;
                }
            }
        }
        assert_eq!(names.len(), functions);
    }

    /// Returns the name of a function that starts on this line and has the parameter of a rule.
    fn rule_in(line: &str) -> Option<&str> {
        let name = line.strip_prefix("async fn ")?;
        name.strip_suffix("(test_store: &TestStore) {")
    }
}
