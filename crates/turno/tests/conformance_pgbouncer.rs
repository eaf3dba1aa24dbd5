//! PostgreSQL keeps every rule behind a transaction pooler.

turno_testkit::conformance_suite!(turno_testkit::conformance::Bed::pgbouncer());
