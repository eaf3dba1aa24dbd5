//! The database's clock is set back: what is due is still found. Setting a clock back is the same as setting all times that
//! the cursor has noted ahead.

use std::time::{Duration, Instant};

use crate::LONG;
use crate::place::{Place, client, item};

const SET_BACK: &str = "update turno.inbox_cursor
    set due_from = due_from + interval '1 hour',
        due_at   = due_at + interval '1 hour',
        late_at  = late_at + interval '1 hour'";
const SOON: Duration = Duration::from_millis(1);
/// Longer than the cursor waits before it looks at everything: a second.
const HIDDEN: Duration = Duration::from_secs(3);

/// The rules as they were: a time that the cursor has noted is never ahead of the clock.
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
          and p.proname in ('inbox_claim_batch', 'inbox_take')
      loop
        was := pg_get_functiondef(f);
        made := regexp_replace(was, '(now_at|clock_timestamp\\(\\)) between \\S+ and', '\\1 <', 'g');
        assert made <> was;
        execute replace(made, 'if c.late_at > clock_timestamp() then', 'if false then');
      end loop;
    end $do$";

/// An item whose time comes after the clock was set back.
#[test]
fn a_timed_item_is_found_after_the_clock_was_set_back() {
    let place = Place::postgres();
    timed(&place, "");
    assert_eq!(found_within(&place, LONG).as_deref(), Some("\"timed\""));
}

/// The control: claims that trust the clock do not find it.
#[test]
fn a_claim_that_trusts_the_clock_does_not_find_a_timed_item() {
    let place = Place::postgres();
    timed(&place, TRUST_THE_CLOCK);
    assert_eq!(found_within(&place, HIDDEN), None);
}

/// An item without a time that was committed behind the cursor.
#[test]
fn a_late_item_is_found_after_the_clock_was_set_back() {
    let place = Place::postgres();
    late(&place, "");
    assert_eq!(found_within(&place, LONG).as_deref(), Some("\"late\""));
}

/// The control, as above.
#[test]
fn a_claim_that_trusts_the_clock_does_not_find_a_late_item() {
    let place = Place::postgres();
    late(&place, TRUST_THE_CLOCK);
    assert_eq!(found_within(&place, HIDDEN), None);
}

fn timed(place: &Place, change: &str) {
    place.push([item("before").delay(SOON)]);
    assert_eq!(found_within(place, LONG).as_deref(), Some("\"before\""));
    place.runtime.block_on(async {
        let owner = client(&place.url).await;
        owner.batch_execute(change).await.unwrap();
        owner.batch_execute(SET_BACK).await.unwrap();
    });
    place.push([item("timed").delay(SOON)]);
}

fn late(place: &Place, change: &str) {
    place.push([item("before")]);
    assert_eq!(found_within(place, LONG).as_deref(), Some("\"before\""));
    place.runtime.block_on(async {
        let owner = client(&place.url).await;
        let push = "begin; select turno.inbox_push('presentations', '\"late\"')";
        owner.batch_execute(push).await.unwrap();
        place.inbox().push(item("in front")).await.unwrap();
        let claimed = place.inbox().claim().lease(LONG).take().await.unwrap();
        assert_eq!(claimed[0].payload, "\"in front\"");
        let other = client(&place.url).await;
        other.batch_execute(change).await.unwrap();
        other.batch_execute(SET_BACK).await.unwrap();
        owner.batch_execute("commit").await.unwrap();
    });
}

/// Claims again and again until there is an item, and answers its payload.
fn found_within(place: &Place, patience: Duration) -> Option<String> {
    let began = Instant::now();
    place.runtime.block_on(async {
        loop {
            // With room for more: then the cursor knows that all that was due is claimed.
            let claim = place.inbox().claim().limit(10).lease(LONG);
            if let Some(item) = claim.take().await.unwrap().pop() {
                return Some(item.payload);
            }
            if began.elapsed() > patience {
                return None;
            }
            tokio::time::sleep(SOON).await;
        }
    })
}
