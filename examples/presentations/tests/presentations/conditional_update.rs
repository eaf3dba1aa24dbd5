//! *Solución implementada: actualización atómica*, in both variants: with the mark committed before the web service is called,
//! and with the call in the transaction, as with the document's `@Transactional`.

use presentations::scene;
use presentations::strategy::Strategy;

use crate::on_each_store;
use crate::test_database::TestDatabase;

on_each_store! {
    /// *Cómo funciona*, T0 to T5; *ventajas* 2 (no explicit locks), 5 (no instance waits) and 6 (each instance has its own
    /// records).
    only_one_instance_processes;
    /// The same with the call in the transaction. *Ventaja* 5 does not hold: the others wait for the call, on PostgreSQL for
    /// the row and on SQLite for the file.
    only_one_instance_processes_and_the_others_wait;
    /// *Ventaja* 1, "exactly-once", does not hold: a presentation that was marked by an instance that died is never processed.
    a_mark_that_was_committed_outlives_its_instance;
    /// With the call in the transaction, the mark is rolled back. The web service may have been called, so it is at least
    /// once.
    a_mark_in_a_transaction_ends_with_its_instance;
}

async fn only_one_instance_processes(place: TestDatabase) {
    let race = scene::race(&place.setup, Strategy::ConditionalUpdate)
        .await
        .unwrap();
    assert_eq!((race.calls, race.doubled), (6, 0), "{race:?}");
    assert!(!race.waited, "{race:?}");
    assert_eq!(race.instances, 3, "{race:?}");
}

async fn only_one_instance_processes_and_the_others_wait(place: TestDatabase) {
    let race = scene::race(&place.setup, Strategy::ConditionalUpdateInTransaction)
        .await
        .unwrap();
    assert_eq!((race.calls, race.doubled), (6, 0), "{race:?}");
    assert!(race.waited, "{race:?}");
}

async fn a_mark_that_was_committed_outlives_its_instance(place: TestDatabase) {
    let killed = scene::killed(&place.setup, Strategy::ConditionalUpdate)
        .await
        .unwrap();
    assert_eq!(killed.again, None, "{killed:?}");
    assert_eq!((killed.lost, killed.left), (1, 0), "{killed:?}");
}

async fn a_mark_in_a_transaction_ends_with_its_instance(place: TestDatabase) {
    let killed = scene::killed(&place.setup, Strategy::ConditionalUpdateInTransaction)
        .await
        .unwrap();
    assert!(killed.again.is_some(), "{killed:?}");
    assert_eq!((killed.lost, killed.left), (0, 0), "{killed:?}");
}
