//! The database's clock is set back: due items are still found. Setting a clock back has the same effect as moving all times
//! that the cursor has recorded into the future.

use std::time::{Duration, Instant};

use turno_testkit::Sql as _;
use turno_testkit::faults::{FromStore as _, client};

use crate::LONG;
use crate::fixture::{Fixture, item};

const SET_BACK: &str = "update turno.inbox_cursor
    set due_from = due_from + interval '1 hour',
        due_at   = due_at + interval '1 hour',
        late_at  = late_at + interval '1 hour'";
const SOON: Duration = Duration::from_millis(1);
/// Longer than the interval at which the cursor checks all items, which is a second.
const HIDDEN: Duration = Duration::from_secs(3);

/// The former rule: a time that the cursor has recorded is never in the future.
const TRUST_THE_CLOCK: &str = "do $do$
    declare
      f    regprocedure;
      was  text;
      made text;
    begin
      for f in
        select p.oid::regprocedure
        from pg_proc p
        where p.pronamespace = 'turno'::regnamespace
          and p.proname in ('inbox_claim_batch', 'inbox_due_from', 'inbox_needs_upkeep', 'inbox_may_look')
      loop
        was := pg_get_functiondef(f);
        made := regexp_replace(was, 'at between \\S+ and', 'at <', 'g');
        made := replace(made, 'if c.late_at > clock_timestamp() then', 'if false then');
        assert made <> was;
        execute made;
      end loop;
    end $do$";

/// An item that becomes due after the clock was set back.
#[test]
fn a_timed_item_is_found_after_the_clock_was_set_back() {
    let fixture = Fixture::postgres();
    timed(&fixture, "");
    assert_eq!(found_within(&fixture, LONG).as_deref(), Some("\"timed\""));
}

/// The control: claims that trust the clock do not find it.
#[test]
fn a_claim_that_trusts_the_clock_does_not_find_a_timed_item() {
    let fixture = Fixture::postgres();
    timed(&fixture, TRUST_THE_CLOCK);
    assert_eq!(found_within(&fixture, HIDDEN), None);
}

/// An item without a due time that was committed behind the cursor.
#[test]
fn a_late_item_is_found_after_the_clock_was_set_back() {
    let fixture = Fixture::postgres();
    late(&fixture, "");
    assert_eq!(found_within(&fixture, LONG).as_deref(), Some("\"late\""));
}

/// The control, as above.
#[test]
fn a_claim_that_trusts_the_clock_does_not_find_a_late_item() {
    let fixture = Fixture::postgres();
    late(&fixture, TRUST_THE_CLOCK);
    assert_eq!(found_within(&fixture, HIDDEN), None);
}

fn timed(fixture: &Fixture, change: &str) {
    fixture.push([item("before").delay(SOON)]);
    assert_eq!(found_within(fixture, LONG).as_deref(), Some("\"before\""));
    fixture.runtime.block_on(async {
        let owner = client(&fixture.url).await;
        owner.run(change).await;
        owner.run(SET_BACK).await;
    });
    fixture.push([item("timed").delay(SOON)]);
}

fn late(fixture: &Fixture, change: &str) {
    fixture.push([item("before")]);
    assert_eq!(found_within(fixture, LONG).as_deref(), Some("\"before\""));
    fixture.runtime.block_on(async {
        let owner = client(&fixture.url).await;
        let push = "begin; select turno.inbox_push('presentations', '\"late\"')";
        owner.run(push).await;
        fixture.inbox().push(item("in front")).await.unwrap();
        // A claim of several moves the cursor past both.
        let claim = fixture.inbox().claim().limit(10).lease(LONG);
        let claimed = claim.take().await.unwrap();
        assert_eq!(claimed[0].payload, "\"in front\"");
        let other = client(&fixture.url).await;
        other.run(change).await;
        other.run(SET_BACK).await;
        owner.run("commit").await;
    });
}

/// Claims repeatedly until there is an item, and returns its payload.
fn found_within(fixture: &Fixture, timeout: Duration) -> Option<String> {
    let began = Instant::now();
    fixture.runtime.block_on(async {
        loop {
            // A limit above the number of items: the cursor then knows that all due items are claimed.
            let claim = fixture.inbox().claim().limit(10).lease(LONG);
            if let Some(item) = claim.take().await.unwrap().pop() {
                return Some(item.payload.into());
            }
            if began.elapsed() > timeout {
                return None;
            }
            tokio::time::sleep(SOON).await;
        }
    })
}
