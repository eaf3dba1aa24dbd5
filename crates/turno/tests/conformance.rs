//! Runs all conformance rules on every store.

mod sqlite {
    turno_testkit::conformance_suite!(turno_testkit::conformance::TestStore::sqlite());
}

mod postgres {
    turno_testkit::conformance_suite!(turno_testkit::conformance::TestStore::postgres());
}

/// PostgreSQL behind a transaction pooler.
mod pgbouncer {
    turno_testkit::conformance_suite!(turno_testkit::conformance::TestStore::pgbouncer());
}
