//! A roll-out: instances with the document's statements and instances with Turno, each in a process of its own, on the same
//! table at once.

use std::collections::HashSet;
use std::time::Duration;

use presentations::database::Database;
use presentations::instance::Instance;
use presentations::ledger::{Ledger, Manner};
use presentations::scheduler;
use presentations::strategy::{Fleet, Strategy};
use presentations::web_service::WebService;
use turno::Turno;
use turno_testkit::eventually_async;
use uuid::Uuid;

use crate::on_each_store;
use crate::test_database::{LONG, TestDatabase};

on_each_store! {
    /// Never two at once: while each new instance has a presentation in hand, the old ones take the others.
    a_claimed_presentation_is_not_marked_by_an_old_instance;
    /// The same with the document's `@Transactional`.
    a_claimed_presentation_is_not_marked_in_a_transaction;
    /// The control: `turno adopt` alone. An old instance does not look at Turno's columns, and marks what is claimed.
    control_without_the_triggers_an_old_instance_calls_too;
    /// The control: new instances on Turno's inbox, which an old one does not look at either.
    control_with_the_inbox_an_old_instance_calls_too;
    /// The control: an old instance that does not mark before it calls cannot be kept from calling.
    control_an_old_instance_that_selects_only_calls_too;
    /// Each exactly once, with all instances busy, and presentations that are received meanwhile by old instances.
    each_presentation_is_sent_once;
    /// The same with the document's `@Transactional`.
    each_presentation_is_sent_once_beside_transactions;
    /// What either kind could not send is sent by either kind, once.
    what_failed_is_sent_by_either;
    /// What a killed new instance had is taken over by a new one, after its lease. An old one does not take it.
    what_a_killed_new_instance_had_is_done_again;
}

/// Instances of each kind.
const EACH: u32 = 3;
/// Number of the first old instance.
const OLD: u32 = 100;
/// How long nothing may change before the instances are assumed to wait.
const SETTLED: Duration = Duration::from_secs(1);
/// Runs of each scheduler after the end, in which a second call would be made.
const RUNS: u64 = 3;

/// A table that both kinds use, a web service, and the instances.
struct Mixed {
    place: TestDatabase,
    service: WebService,
    new: Vec<Instance>,
    old: Vec<Instance>,
}

impl Mixed {
    async fn new(mut place: TestDatabase, manner: Manner) -> Self {
        place.setup.fleet = Fleet::Mixed;
        let turno = Turno::connect(&place.setup.store).await.unwrap();
        place.database.prepare_mixed_fleet(&turno).await.unwrap();
        turno.close().await;
        Mixed {
            place,
            service: WebService::start(manner).await.unwrap(),
            new: Vec::new(),
            old: Vec::new(),
        }
    }

    async fn instance(&self, how: Strategy, number: u32, lease: Duration) -> Instance {
        let started = Instance::start(&self.place.setup, how, number, &self.service.url, lease);
        started.await.unwrap()
    }

    async fn start_new(&mut self, many: u32) {
        for number in 0..many {
            let instance = self.instance(Strategy::Turno, number, LONG).await;
            self.new.push(instance);
        }
    }

    async fn start_old(&mut self, how: Strategy, many: u32) {
        for number in OLD..OLD + many {
            let instance = self.instance(how, number, LONG).await;
            self.old.push(instance);
        }
    }

    /// As an old instance receives: a row, and nothing else.
    async fn receive(&self, many: u32) -> Vec<Uuid> {
        let ids: Vec<Uuid> = (0..many).map(|_| Uuid::now_v7()).collect();
        self.place.database.receive(&ids, None).await.unwrap();
        ids
    }

    async fn await_first_call(&self) {
        self.service
            .wait_for(LONG, |ledger| !ledger.calls.is_empty())
            .await
            .unwrap();
    }

    /// Each new instance has called for a presentation of its own, and gets no answer.
    async fn await_claims(&self) {
        let all = self.new.len();
        self.service
            .wait_for(LONG, |ledger| ledger.held().len() == all)
            .await
            .unwrap();
    }

    /// Waits until all of them are accepted and marked, and then for more runs of each instance.
    async fn await_all(&self, presentations: usize) {
        self.service
            .wait_for(LONG, |ledger| ledger.accepted().len() == presentations)
            .await
            .unwrap();
        eventually_async(LONG, "every mark", async || {
            let marked = self.place.database.processed().await.unwrap();
            (marked.len() == presentations).then_some(())
        })
        .await;
        for instance in self.new.iter().chain(&self.old) {
            instance.more_runs(RUNS).await.unwrap();
        }
    }

    /// Checks that each presentation was accepted once, and that both kinds have worked.
    fn check(&self, presentations: usize) {
        let ledger = self.service.ledger();
        let times = ledger.accepted();
        assert_eq!(times.len(), presentations);
        assert!(times.values().all(|times| *times == 1), "{ledger:?}");
        let (old, new) = kinds(&ledger);
        assert!(old && new, "{ledger:?}");
    }
}

/// Returns whether an old instance has called, and whether a new one has.
fn kinds(ledger: &Ledger) -> (bool, bool) {
    let callers: HashSet<bool> = ledger.calls.iter().map(|c| c.instance >= OLD).collect();
    (callers.contains(&true), callers.contains(&false))
}

async fn a_claimed_presentation_is_not_marked_by_an_old_instance(place: TestDatabase) {
    never_two_at_once(place, Strategy::ConditionalUpdate).await;
}

async fn a_claimed_presentation_is_not_marked_in_a_transaction(place: TestDatabase) {
    never_two_at_once(place, Strategy::ConditionalUpdateInTransaction).await;
}

/// The web service answers a call when a second one for the same presentation has come, or when none can come any more.
async fn never_two_at_once(place: TestDatabase, how: Strategy) {
    let mut mixed = Mixed::new(place, Manner::WhenTwoHaveCalled).await;
    mixed.start_new(EACH).await;
    mixed.receive(2 * EACH).await;
    mixed.await_claims().await;
    mixed.start_old(how, EACH).await;
    let all = usize::try_from(2 * EACH).unwrap();
    let all_call = |ledger: &Ledger| ledger.held().len() == all;
    let settled = mixed.service.settles(SETTLED, all_call).await;
    // In transactions, old instances wait for each other's row.
    let waiting = how == Strategy::ConditionalUpdateInTransaction;
    assert!(settled || waiting, "{:?}", mixed.service.ledger());
    mixed.service.release();
    mixed.await_all(all).await;
    mixed.check(all);
    assert_eq!(mixed.service.ledger().calls.len(), all);
}

async fn control_without_the_triggers_an_old_instance_calls_too(place: TestDatabase) {
    let mut mixed = Mixed::new(place, Manner::WhenTwoHaveCalled).await;
    drop_triggers(&mixed.place.database).await;
    mixed.start_new(EACH).await;
    mixed.receive(2 * EACH).await;
    mixed.await_claims().await;
    mixed.start_old(Strategy::ConditionalUpdate, EACH).await;
    await_a_second_call(&mixed).await;
}

async fn control_with_the_inbox_an_old_instance_calls_too(place: TestDatabase) {
    let mut mixed = Mixed::new(place, Manner::WhenTwoHaveCalled).await;
    mixed.place.setup.fleet = Fleet::Uniform;
    let turno = Turno::connect(&mixed.place.setup.store).await.unwrap();
    let inbox = scheduler::inbox(&turno);
    mixed.start_new(EACH).await;
    let ids: Vec<Uuid> = (0..EACH).map(|_| Uuid::now_v7()).collect();
    let received = mixed.place.database.receive(&ids, Some(&inbox));
    received.await.unwrap();
    mixed.await_claims().await;
    mixed.start_old(Strategy::ConditionalUpdate, EACH).await;
    await_a_second_call(&mixed).await;
}

async fn control_an_old_instance_that_selects_only_calls_too(place: TestDatabase) {
    let mut ways = vec![Strategy::PlainSelect, Strategy::RepeatableRead];
    if place.is_postgres() {
        // A row lock is no mark either: Turno holds none during the call.
        ways.push(Strategy::SkipLocked);
    }
    let mut mixed = Mixed::new(place, Manner::WhenTwoHaveCalled).await;
    mixed.start_new(1).await;
    for how in ways {
        let id = mixed.receive(1).await[0];
        mixed.await_claims().await;
        let old = mixed.instance(how, OLD, LONG).await;
        let calls = |ledger: &Ledger| of(ledger, |number| number >= OLD).contains(&id);
        mixed.service.wait_for(LONG, calls).await.unwrap();
        old.stop().await.unwrap();
    }
}

/// Waits until a presentation that a new instance has in hand is sent by an old one, too.
async fn await_a_second_call(mixed: &Mixed) {
    let twice = |ledger: &Ledger| {
        let of_new: HashSet<Uuid> = of(ledger, |number| number < OLD);
        let of_old: HashSet<Uuid> = of(ledger, |number| number >= OLD);
        !of_new.is_disjoint(&of_old)
    };
    mixed.service.wait_for(LONG, twice).await.unwrap();
}

fn of(ledger: &Ledger, kind: impl Fn(u32) -> bool) -> HashSet<Uuid> {
    let calls = ledger.calls.iter().filter(|call| kind(call.instance));
    calls.map(|call| call.presentation).collect()
}

async fn drop_triggers(database: &Database) {
    match database {
        Database::Postgres(pool) => {
            let drop = "drop function presentations_mixed_fleet() cascade";
            sqlx::raw_sql(drop).execute(pool).await.unwrap();
        }
        Database::Sqlite(pool) => {
            let drop = "drop trigger presentations_claimed; drop trigger presentations_processed";
            sqlx::raw_sql(drop).execute(pool).await.unwrap();
        }
    }
}

async fn each_presentation_is_sent_once(place: TestDatabase) {
    busy(place, Strategy::ConditionalUpdate).await;
}

async fn each_presentation_is_sent_once_beside_transactions(place: TestDatabase) {
    busy(place, Strategy::ConditionalUpdateInTransaction).await;
}

async fn busy(place: TestDatabase, how: Strategy) {
    let mut mixed = Mixed::new(place, Manner::AcceptAll).await;
    let (batches, size) = (10, 20);
    // The old ones begin alone: on SQLite, new ones can leave nothing to them.
    mixed.start_old(how, EACH).await;
    mixed.receive(size).await;
    mixed.await_first_call().await;
    mixed.start_new(EACH).await;
    for _ in 1..batches {
        mixed.receive(size).await;
    }
    let all = usize::try_from(batches * size).unwrap();
    mixed.await_all(all).await;
    mixed.check(all);
    assert_eq!(mixed.service.ledger().calls.len(), all);
}

async fn what_failed_is_sent_by_either(place: TestDatabase) {
    let mut mixed = Mixed::new(place, Manner::RefuseFirst).await;
    let (first, rest) = (20, 40);
    mixed.start_old(Strategy::ConditionalUpdate, EACH).await;
    mixed.receive(first).await;
    mixed.await_first_call().await;
    mixed.start_new(EACH).await;
    mixed.receive(rest).await;
    let all = usize::try_from(first + rest).unwrap();
    mixed.await_all(all).await;
    mixed.check(all);
    // Refused once, accepted once.
    assert_eq!(mixed.service.ledger().calls.len(), 2 * all);
}

async fn what_a_killed_new_instance_had_is_done_again(place: TestDatabase) {
    let mut mixed = Mixed::new(place, Manner::NeverTheFirst).await;
    let lease = Duration::from_secs(3);
    let victim = mixed.instance(Strategy::Turno, 0, lease).await;
    mixed.receive(1).await;
    mixed.await_first_call().await;
    victim.kill_9().await.unwrap();
    mixed.start_old(Strategy::ConditionalUpdate, EACH).await;
    let next = mixed.instance(Strategy::Turno, 1, lease).await;
    mixed.new.push(next);
    mixed.await_all(1).await;
    let ledger = mixed.service.ledger();
    let calls: Vec<(u32, u32)> = ledger
        .calls
        .iter()
        .map(|call| (call.instance, call.attempt))
        .collect();
    assert_eq!(calls, [(0, 1), (1, 2)]);
}
