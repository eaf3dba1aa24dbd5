//! Every store passes every conformance rule.

use libtest_mimic::{Arguments, run};
use turno_testkit::conformance::{TestStore, trials};

fn main() {
    let sqlite = trials("sqlite", TestStore::sqlite);
    let postgres = trials("postgres", TestStore::postgres);
    // PostgreSQL behind a transaction pooler.
    let pgbouncer = trials("pgbouncer", TestStore::pgbouncer);
    let tests = sqlite.chain(postgres).chain(pgbouncer).collect();
    run(&Arguments::from_args(), tests).exit();
}
