//! *Manejo de errores*, and *ventaja* 4.

use clap::ValueEnum;
use presentations::ledger::Manner;
use presentations::scene;
use presentations::strategy::Strategy;
use presentations::use_case::Outcome;
use presentations::web_service::WebService;
use uuid::Uuid;

use crate::on_each_store;
use crate::test_database::TestDatabase;

on_each_store! {
    /// Steps 1 to 5 in order: the error is returned, the record is unprocessed, the next run processes it.
    what_failed_is_unprocessed_and_processed_in_the_next_run;
    /// Each alternative retries, with three processes.
    what_the_web_service_refused_is_sent_again;
}

async fn what_failed_is_unprocessed_and_processed_in_the_next_run(place: TestDatabase) {
    for how in [
        Strategy::ConditionalUpdate,
        Strategy::ConditionalUpdateInTransaction,
    ] {
        let service = WebService::start(Manner::RefuseFirst).await.unwrap();
        let use_case = place.use_case(how, &service);
        let id = Uuid::now_v7();
        place.database.receive(&[id], None).await.unwrap();

        let error = use_case.execute(id).await.unwrap_err();
        assert!(error.to_string().contains("503"), "{how:?}: {error}");
        assert_eq!(place.database.unprocessed().await.unwrap(), [id], "{how:?}");

        assert_eq!(use_case.execute(id).await.unwrap(), Outcome::Processed);
        assert!(place.database.unprocessed().await.unwrap().is_empty());
        assert_eq!(service.ledger().calls.len(), 2, "{how:?}");
    }
}

async fn what_the_web_service_refused_is_sent_again(place: TestDatabase) {
    for how in Strategy::value_variants() {
        if how.is_possible_on(&place.setup.store) {
            let errors = scene::errors(&place.setup, *how).await.unwrap();
            let (refused, retried) = (errors.refused, errors.retried);
            assert_eq!((refused, retried), (6, 6), "{how:?}: {errors:?}");
        }
    }
}
