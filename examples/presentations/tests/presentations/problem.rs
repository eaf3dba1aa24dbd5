//! *Problema original*, which is the control of all other tests here.

use presentations::scene;
use presentations::strategy::Strategy;

use crate::on_each_store;
use crate::test_database::TestDatabase;

on_each_store! {
    /// *Escenario problemático*, T0 to T6: the web service is called twice for one presentation.
    a_plain_select_calls_the_web_service_twice;
    /// *Alternativa 3*: the database rejects the second mark, after the second call was made.
    repeatable_read_calls_the_web_service_twice_too;
}

async fn a_plain_select_calls_the_web_service_twice(place: TestDatabase) {
    let race = scene::race(&place.setup, Strategy::PlainSelect)
        .await
        .unwrap();
    assert_eq!(race.doubled, race.presentations, "{race:?}");
    assert!(race.calls >= 2 * race.presentations, "{race:?}");
}

async fn repeatable_read_calls_the_web_service_twice_too(place: TestDatabase) {
    let race = scene::race(&place.setup, Strategy::RepeatableRead)
        .await
        .unwrap();
    assert_eq!(race.doubled, race.presentations, "{race:?}");
}
