//! The sequence of item ids goes back, as after a restore of only the data: no item is lost.

use turno::inbox::ClaimedItem;
use turno::store::{Roles, Severity};

use turno_testkit::Sql as _;
use turno_testkit::faults::{FromStore as _, client};

use crate::fixture::{Fixture, item};

const ITEMS: usize = 10;
const BACK: &str = "select setval('turno.inbox_item_id', 1, false)";

/// Creates a queue whose cursor is above the sequence.
async fn gone_back(fixture: &Fixture) -> tokio_postgres::Client {
    let inbox = fixture.inbox();
    inbox
        .push_many((0..ITEMS).map(|_| item("before")))
        .await
        .unwrap();
    let claims: Vec<_> = take(fixture).await.iter().map(|item| item.claim).collect();
    assert_eq!(inbox.complete(&claims).await.unwrap().done, ITEMS as u64);
    let client = client(&fixture.url).await;
    client.run(BACK).await;
    let pushed = inbox
        .push_many((0..3).map(|_| item("after")))
        .await
        .unwrap();
    assert_eq!(pushed[0].id.0, 1, "a number that was used before");
    client
}

async fn take(fixture: &Fixture) -> Vec<ClaimedItem> {
    let claim = fixture.inbox().claim().limit(100).lease(crate::LONG);
    claim.take().await.unwrap()
}

async fn numbers(turno: &turno::Turno) -> Severity {
    let findings = turno.store().diagnose().await.unwrap();
    let finding = findings.into_iter().find(|found| found.check == "numbers");
    finding.unwrap().severity
}

#[test]
fn a_claim_survives_a_sequence_that_went_back() {
    let fixture = Fixture::postgres();
    fixture.runtime.block_on(async {
        gone_back(&fixture).await;
        assert_eq!(take(&fixture).await.len(), 3);
        let next = fixture.inbox().push(item("next")).await.unwrap();
        assert!(next.id.0 > ITEMS as i64, "{:?}", next.id);
        assert_eq!(take(&fixture).await.len(), 1);
    });
}

/// Other pushes have increased the sequence before the first claim, which then cannot detect anything.
#[test]
fn a_repair_finds_what_claims_do_not() {
    let fixture = Fixture::postgres();
    fixture.runtime.block_on(async {
        let turno = turno::Turno::connect(&fixture.url).await.unwrap();
        assert_eq!(numbers(&turno).await, Severity::Ok);
        let client = gone_back(&fixture).await;
        assert_eq!(numbers(&turno).await, Severity::Problem);
        let ahead = "select setval('turno.inbox_item_id', 1000)";
        client.run(ahead).await;
        // As after some time: no item that was committed late can be below the cursor.
        let floor = "update turno.inbox_cursor set floor_id = at_id, mark_xid = null";
        client.run(floor).await;
        // The control: without a repair they are not claimed.
        assert!(take(&fixture).await.is_empty());
        assert_eq!(numbers(&turno).await, Severity::Problem);
        turno.store().repair(Roles::Grant).await.unwrap();
        assert_eq!(take(&fixture).await.len(), 3);
        assert_eq!(numbers(&turno).await, Severity::Ok);
    });
}
