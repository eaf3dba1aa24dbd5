use super::super::super::caller::{complete_in, push_in};
use super::*;

impl Desk {
    fn push_tx(&self, items: Vec<NewItem>) -> Vec<PushedItem> {
        let ask = InboxPush {
            queue: QUEUE.to_owned(),
            items,
            request: Uuid::new_v4(),
        };
        push_in(&self.db, &ask, self.now).unwrap()
    }
}

/// Everything that two databases hold, but for requests.
fn dump(desk: &Desk) -> Vec<String> {
    let tables = ["queue", "serial", "item", "key", "due", "error", "done"];
    let mut all = Vec::new();
    for table in tables {
        let sql = format!("select * from turno_inbox_{table} order by 1, 2, 3");
        let sql = sql.replace("serial order by 1, 2, 3", "serial");
        let mut statement = desk.db.prepare(&sql).unwrap();
        let columns = statement.column_count();
        let mut rows = statement.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            let values = (0..columns).map(|n| format!("{:?}", row.get_ref(n).unwrap()));
            all.push(format!("{table}: {}", values.collect::<Vec<_>>().join(" ")));
        }
    }
    all
}

#[test]
fn the_callers_transaction_leaves_what_the_verbs_leave() {
    let (mine, yours) = (Desk::new(), Desk::new());
    let items = vec![
        keyed("a", "k"),
        keyed("b", "k"),
        after("c", secs(400)),
        grouped("g1", "g"),
        NewItem {
            due: Some(Due::After(secs(9))),
            ..grouped("g2", "g")
        },
        grouped("g3", "g"),
        item("d"),
    ];
    assert_eq!(mine.push(items.clone()), yours.push_tx(items));
    assert_eq!(dump(&mine), dump(&yours));

    let mut held = Vec::new();
    for desk in [&mine, &yours] {
        let token = Uuid::from_u128(7);
        let claimed = desk.claim_with(&InboxClaim {
            request: token,
            ..desk.ask(10)
        });
        desk.fail_with(Failure {
            claim: claimed[0].claim,
            error: "no".to_owned(),
            retry_in: Some(secs(0)),
            again: Again::Retry,
        });
        let again = InboxClaim {
            request: Uuid::from_u128(8),
            ..desk.ask(1)
        };
        let first = desk.claim_with(&again).remove(0).claim;
        held = claims(&claimed);
        held.push(first);
        held.push(first);
    }
    let settled = mine.complete(&held);
    assert_eq!(complete_in(&yours.db, &held, yours.now).unwrap(), settled);
    assert_eq!((settled.done, settled.stale), (3, vec![held[0], held[4]]));
    assert_eq!(dump(&mine), dump(&yours));
    assert_eq!(mine.counts(), yours.counts());
    assert_eq!(yours.rows("turno_inbox_error"), 0);
    // The group's next one could go, if it were not for its time.
    assert_eq!(yours.list(ItemState::Scheduled).len(), 2);
}

#[test]
fn a_rollback_leaves_nothing() {
    let desk = Desk::new();
    desk.push(vec![item("a")]);
    let held = desk.claim_one();
    let before = dump(&desk);
    desk.db.execute_batch("begin").unwrap();
    desk.push_tx(vec![keyed("b", "k"), after("c", secs(1))]);
    assert_eq!(
        complete_in(&desk.db, &[held.claim], desk.now).unwrap().done,
        1
    );
    desk.db.execute_batch("rollback").unwrap();
    assert_eq!(dump(&desk), before);
    assert_eq!(desk.complete(&[held.claim]).done, 1);
}
