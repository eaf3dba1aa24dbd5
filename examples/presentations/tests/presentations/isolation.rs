//! *Alternativa 3*, *desventajas*: deadlocks, and work that is lost, each with its control.

use presentations::isolation::{self, Isolation};

use crate::on_each_store;
use crate::test_database::TestDatabase;

on_each_store! {
    /// "Mayor riesgo de deadlocks": a run in one transaction marks several rows, and two runs in different order wait for each
    /// other. SQLite refuses to wait. The control, with one transaction per presentation: no instance is aborted.
    repeatable_read_deadlocks;
    /// "Reduce concurrencia": where the conditional update says 0 rows, which costs nothing, the database aborts the whole
    /// transaction of the second instance.
    repeatable_read_aborts_what_read_committed_skips;
}

async fn repeatable_read_deadlocks(place: TestDatabase) {
    let met = isolation::opposite_order(&place.database).await.unwrap();
    let aborted = met.aborted.as_deref();
    if place.is_postgres() {
        assert_eq!(aborted, Some("40P01"), "{met:?}");
    } else {
        assert_eq!(aborted, Some("5"), "{met:?}");
    }
    assert_eq!(met.marked, 2, "{met:?}");

    let control = isolation::one_transaction_each(&place.database).await;
    let control = control.unwrap();
    assert_eq!((control.marked, control.aborted), (2, None));
}

async fn repeatable_read_aborts_what_read_committed_skips(place: TestDatabase) {
    let met = isolation::same_presentation(&place.database, Isolation::RepeatableRead).await;
    let met = met.unwrap();
    let aborted = met.aborted.as_deref().unwrap();
    if place.is_postgres() {
        assert_eq!(aborted, "40001");
    } else {
        // Busy, or busy with a snapshot that is out of date, if the first had committed by then.
        assert!(["5", "517"].contains(&aborted), "{met:?}");
    }
    assert_eq!(met.marked, 1, "{met:?}");

    let control = isolation::same_presentation(&place.database, Isolation::ReadCommitted).await;
    let control = control.unwrap();
    assert_eq!((control.marked, control.aborted), (1, None));
}
