//! A store of version 9, whose attempt counters are near the maximum of a smallint.

use std::time::Duration;

use tokio_postgres::Client;
use turno::inbox::{Again, Failure};
use turno::store::SCHEMA_VERSION;
use turno_testkit::Sql as _;
use turno_testkit::conformance::TestStore;

use super::TO_VERSION_9;

/// Version 9 had smallint counters.
const SMALLINT: &str = "
    alter table turno.inbox_item
      alter column attempts type smallint, alter column abandoned type smallint, alter column max_attempts type smallint;
    alter table turno.inbox_failed
      alter column attempts type smallint, alter column abandoned type smallint, alter column max_attempts type smallint";
const NEARLY: &str =
    "update turno.inbox_item set attempts = 32766, abandoned = 32700, max_attempts = 32767";

async fn number(client: &Client, sql: &str) -> i64 {
    let row = client
        .query_one(&format!("select ({sql})::bigint"), &[])
        .await;
    row.unwrap_or_else(|error| panic!("{sql}: {error:?}"))
        .get(0)
}

#[tokio::test]
async fn attempts_go_on_past_the_end_of_a_smallint() {
    let test_store = TestStore::empty_postgres();
    let turno = test_store.turno().await;
    turno.inbox("q").push(&1).await.unwrap();
    turno.close().await;
    let client = test_store.postgres_connection().await;
    let emit = "select turno.outbox_emit('T', '1')";
    client.query_one(emit, &[]).await.unwrap();
    for sql in [TO_VERSION_9, SMALLINT, NEARLY] {
        client.run(sql).await;
    }
    // The control: in version 9 the next two attempts fail permanently.
    let past = "update turno.inbox_item set attempts = attempts + 2::smallint";
    let error = client.batch_execute(past).await.unwrap_err();
    assert_eq!(error.code().unwrap().code(), "22003");

    let turno = test_store.turno().await;
    let version = turno.store().schema_version().await.unwrap();
    assert_eq!(version, Some(SCHEMA_VERSION));
    let attempts = "select max(attempts) from turno.inbox_item where max_attempts <> 0";
    assert_eq!(
        number(&client, attempts).await,
        32766,
        "kept by the migration"
    );
    let unlimited = "select count(*) from turno.inbox_item where max_attempts = 0";
    assert_eq!(number(&client, unlimited).await, 1, "the event");
    client
        .run("update turno.inbox_item set max_attempts = 100000 where max_attempts <> 0")
        .await;
    let inbox = turno.inbox("q");
    for attempt in 32767..32772 {
        let items = inbox.claim().take().await.unwrap();
        assert_eq!(items.len(), 1);
        assert_eq!(items[0].attempt, attempt);
        let failure = Failure {
            claim: items[0].claim,
            error: "again".into(),
            retry_in: Some(Duration::ZERO),
            again: Again::Retry,
        };
        inbox.fail(&[failure]).await.unwrap();
    }
    // An event has a separate counter of attempts with an unknown end, and each attempt ends here without a response.
    let claim = "select count(*) from turno.outbox_claim('relay', 10, '1 minute')";
    let over = "update turno.inbox_claim set claimed_at = claimed_at - interval '1 hour', until = until - interval '1 hour'; \
                update turno.inbox_cursor set expiry = clock_timestamp() - interval '1 second'";
    let events = "select max(attempts) from turno.inbox_item where max_attempts = 0";
    for doubt in 0..5 {
        assert_eq!(number(&client, claim).await, 1, "{doubt}");
        client.run(over).await;
    }
    assert_eq!(number(&client, claim).await, 1);
    assert!(number(&client, events).await > 32767 + 2);
    let abandoned = "select max(abandoned) from turno.inbox_item where max_attempts = 0";
    assert!(number(&client, abandoned).await > 32700 + 2);
}
