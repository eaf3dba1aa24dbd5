//! Every store passes every conformance rule.

use std::env;

use libtest_mimic::{Arguments, Trial, run};
use turno_testkit::conformance::{TestStore, trials};

/// Variable with the names of the tests to run, separated by commas: an argument names only one. Default: all.
const NAMES: &str = "TURNO_TEST_NAMES";

fn main() {
    let sqlite = trials("sqlite", TestStore::sqlite);
    let postgres = trials("postgres", TestStore::postgres);
    // PostgreSQL behind a transaction pooler.
    let pgbouncer = trials("pgbouncer", TestStore::pgbouncer);
    let all = sqlite.chain(postgres).chain(pgbouncer);
    let tests = match env::var(NAMES) {
        Ok(names) => all.filter(|test| is_named(&names, test)).collect(),
        Err(_) => all.collect(),
    };
    run(&Arguments::from_args(), tests).exit();
}

fn is_named(names: &str, test: &Trial) -> bool {
    names.split(',').any(|name| name == test.name())
}
