//! Every store keeps every rule.

mod sqlite {
    turno_testkit::conformance_suite!(turno_testkit::conformance::Bed::sqlite());
}

mod postgres {
    turno_testkit::conformance_suite!(turno_testkit::conformance::Bed::postgres());
}

/// PostgreSQL behind a transaction pooler.
mod pgbouncer {
    turno_testkit::conformance_suite!(turno_testkit::conformance::Bed::pgbouncer());
}
