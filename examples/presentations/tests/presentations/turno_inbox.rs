//! The same with Turno's inbox.

use presentations::strategy::Strategy;
use presentations::{scene, scheduler};
use turno::Turno;
use turno::inbox::QueueStats;
use uuid::Uuid;

use crate::on_each_store;
use crate::test_database::TestDatabase;

on_each_store! {
    /// The problem does not occur: one call per presentation. *Ventajas* 5 and 6 hold, too.
    each_presentation_is_sent_by_one_instance;
    /// *Ventaja* 1, as far as possible: never lost, and the second attempt is marked as such.
    what_a_killed_instance_had_in_hand_is_done_again;
    /// Received and pushed in one transaction: both or neither.
    what_is_not_received_is_not_pushed;
}

async fn each_presentation_is_sent_by_one_instance(place: TestDatabase) {
    let race = scene::race(&place.setup, Strategy::Turno).await.unwrap();
    assert_eq!((race.calls, race.doubled), (6, 0), "{race:?}");
    assert_eq!((race.instances, race.waited), (3, false), "{race:?}");
    // The mark and the completion have committed together.
    let stats = stats(&place).await;
    assert_eq!((stats.total, stats.completed), (6, 6), "{stats:?}");
}

async fn what_a_killed_instance_had_in_hand_is_done_again(place: TestDatabase) {
    let killed = scene::killed(&place.setup, Strategy::Turno).await.unwrap();
    assert_eq!(killed.again, Some(2), "{killed:?}");
    assert_eq!((killed.lost, killed.left), (0, 0), "{killed:?}");
    assert_eq!(stats(&place).await.completed, 6);
}

async fn what_is_not_received_is_not_pushed(place: TestDatabase) {
    let inbox = scheduler::inbox(&Turno::connect(&place.setup.store).await.unwrap());
    let (one, other) = (Uuid::now_v7(), Uuid::now_v7());
    let receive = async |ids: &[Uuid]| place.database.receive(ids, Some(&inbox)).await;
    receive(&[one]).await.unwrap();
    receive(&[other, one]).await.unwrap_err();
    assert_eq!(place.database.unprocessed().await.unwrap(), [one]);
    assert_eq!(stats(&place).await.total, 1);
}

async fn stats(place: &TestDatabase) -> QueueStats {
    let turno = Turno::connect(&place.setup.store).await.unwrap();
    scheduler::inbox(&turno).stats().await.unwrap()
}
