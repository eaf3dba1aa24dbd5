//! *Cambios realizados*: the single operations.

use presentations::inbox_repository::InboxRepository;
use presentations::ledger::Manner;
use presentations::strategy::Strategy;
use presentations::use_case::Outcome;
use presentations::web_service::WebService;
use uuid::Uuid;

use crate::on_each_store;
use crate::test_database::TestDatabase;

on_each_store! {
    /// *Cambios* 1 and 2: `tryMarkAsProcessing` returns 1 and then 0; `markAsUnprocessed` removes the mark.
    an_id_is_marked_once_until_it_is_given_back;
    /// *Estrategia*: "saber si ganamos la carrera".
    one_of_many_wins_the_race;
    /// *Cambios* 3: with 0 rows updated, the use case skips the presentation and does not call the web service.
    what_is_marked_is_skipped;
}

async fn an_id_is_marked_once_until_it_is_given_back(place: TestDatabase) {
    let id = Uuid::now_v7();
    place.database.receive(&[id], None).await.unwrap();
    assert_eq!(mark(&place, id).await, 1);
    assert_eq!(mark(&place, id).await, 0);
    assert_eq!(place.database.processed().await.unwrap(), [id]);

    let mut inbox = InboxRepository::begin(&place.database).await.unwrap();
    inbox.mark_as_unprocessed(id).await.unwrap();
    inbox.commit().await.unwrap();
    assert!(place.database.processed().await.unwrap().is_empty());
    assert_eq!(mark(&place, id).await, 1);

    let nobodys = Uuid::now_v7();
    assert_eq!(mark(&place, nobodys).await, 0, "there is no such row");
}

async fn one_of_many_wins_the_race(place: TestDatabase) {
    let id = Uuid::now_v7();
    place.database.receive(&[id], None).await.unwrap();
    let (a, b, c, d) = tokio::join!(
        mark(&place, id),
        mark(&place, id),
        mark(&place, id),
        mark(&place, id)
    );
    assert_eq!(a + b + c + d, 1);
}

async fn what_is_marked_is_skipped(place: TestDatabase) {
    let service = WebService::start(Manner::RefuseFirst).await.unwrap();
    let id = Uuid::now_v7();
    place.database.receive(&[id], None).await.unwrap();
    assert_eq!(mark(&place, id).await, 1);
    for how in [
        Strategy::ConditionalUpdate,
        Strategy::ConditionalUpdateInTransaction,
    ] {
        let outcome = place.use_case(how, &service).execute(id).await.unwrap();
        assert_eq!(outcome, Outcome::Skipped);
    }
    assert_eq!(service.ledger().calls.len(), 0);
}

async fn mark(place: &TestDatabase, id: Uuid) -> u64 {
    let mut inbox = InboxRepository::begin(&place.database).await.unwrap();
    let updated = inbox.try_mark_as_processing(id).await.unwrap();
    inbox.commit().await.unwrap();
    updated
}
