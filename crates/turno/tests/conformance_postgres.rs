//! PostgreSQL keeps every rule.

turno_testkit::conformance_suite!(turno_testkit::conformance::Bed::postgres());
