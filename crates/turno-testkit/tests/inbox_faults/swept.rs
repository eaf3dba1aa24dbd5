//! A push whose unique key is swept during the push: the item is stored, or the push returns a duplicate.

use turno_testkit::faults::{FromStore as _, client};
use turno_testkit::{Sql as _, eventually_async};

use crate::LONG;
use crate::fixture::{Fixture, QUEUE, item};

const PUSH: &str = "
    select ids[1], duplicates is not null
    from turno.inbox_push_batch('presentations', array['1'], array['k'])";
const SWEEP: &str = "select turno.sweep(keep_completed => '0')";
const ROUNDS: usize = 200;
/// The point at which the push has tried to store its keys, and has not yet read which item has each key.
const BETWEEN: &str = "-- A statement of its own: it sees the rows that the keys met.";

/// The push has found the key, and waits for a table before it returns. Then the key is swept.
#[test]
fn a_push_whose_key_is_swept_meanwhile_is_a_duplicate_or_stored() {
    let fixture = Fixture::postgres();
    let known = fixture.push([item("done").unique_key("k")])[0];
    fixture.runtime.block_on(async {
        complete(&fixture).await;
        let (holder, pusher) = (client(&fixture.url).await, client(&fixture.url).await);
        let observer = client(&fixture.url).await;
        let hold = "begin; lock table turno.inbox_item in share row exclusive mode";
        holder.run(hold).await;
        let push = tokio::spawn(async move { pusher.query_one(PUSH, &[]).await.unwrap() });
        let waiting = "select count(*) from pg_locks where not granted and relation = 'turno.inbox_item'::regclass \
            and database = (select oid from pg_database where datname = current_database())";
        eventually_async(LONG, "the push waits", async || {
            let count: i64 = observer.query_one(waiting, &[]).await.unwrap().get(0);
            (count == 1).then_some(())
        })
        .await;
        observer.run(SWEEP).await;
        // The control: the key is deleted while the push that has found it is in progress.
        assert_eq!(keys(&observer).await, 0);
        holder.run("commit").await;
        let pushed = push.await.unwrap();
        let (id, duplicate): (i64, bool) = (pushed.get(0), pushed.get(1));
        assert!(duplicate, "{id} is acknowledged");
        assert_eq!(id, known.0);
        assert_eq!(fixture.inbox().stats().await.unwrap().pending, 0);
    });
}

/// The key is swept after the push has found it, and before the push reads which item has it: the key is then free, and the
/// item is stored.
#[test]
fn a_push_is_stored_if_its_key_is_swept_before_it_is_read() {
    let (duplicate, pending) = swept_between("");
    assert_eq!((duplicate, pending), (false, 1));
}

/// The control: without the second attempt, the push is acknowledged and nothing is stored.
#[test]
fn without_a_second_try_it_is_acknowledged_and_lost() {
    let once = "changed := replace(changed, 'exit when not gone;', 'exit;');";
    let (duplicate, pending) = swept_between(once);
    assert_eq!((duplicate, pending), (false, 0));
}

/// Pushes an existing key, and sweeps it between the two statements of the push that concern keys. `change` is an additional
/// change of the function. Returns whether the push was a duplicate, and the number of pending items afterwards.
fn swept_between(change: &str) -> (bool, u64) {
    let fixture = Fixture::postgres();
    fixture.push([item("done").unique_key("k")]);
    fixture.runtime.block_on(async {
        complete(&fixture).await;
        let (holder, pusher) = (client(&fixture.url).await, client(&fixture.url).await);
        let observer = client(&fixture.url).await;
        let stop = format!(
            "do $do$
            declare
              was     text := pg_get_functiondef(p.oid) from pg_proc p
                where p.pronamespace = 'turno'::regnamespace and p.proname = 'inbox_push_batch';
              changed text := replace(was, '{BETWEEN}', 'perform pg_advisory_xact_lock_shared(1);');
              stopped text := changed;
            begin
              assert changed <> was;
              {change}
              assert changed <> stopped or {unchanged};
              execute changed;
            end $do$",
            unchanged = change.is_empty()
        );
        observer.run(&stop).await;
        let hold = "begin; select pg_advisory_xact_lock(1)";
        holder.run(hold).await;
        let push = tokio::spawn(async move { pusher.query_one(PUSH, &[]).await.unwrap() });
        let waiting = "select count(*) from pg_locks where locktype = 'advisory' and not granted \
            and database = (select oid from pg_database where datname = current_database())";
        eventually_async(LONG, "the push waits", async || {
            let count: i64 = observer.query_one(waiting, &[]).await.unwrap().get(0);
            (count == 1).then_some(())
        })
        .await;
        observer.run(SWEEP).await;
        assert_eq!(keys(&observer).await, 0);
        holder.run("commit").await;
        let duplicate = push.await.unwrap().get(1);
        (duplicate, fixture.inbox().stats().await.unwrap().pending)
    })
}

/// The same repeatedly, without an order between the push and the sweep.
#[test]
fn no_push_is_lost_beside_a_sweep() {
    let fixture = Fixture::postgres();
    fixture.runtime.block_on(async {
        let (pusher, sweeper) = (client(&fixture.url).await, client(&fixture.url).await);
        let (mut stored, mut duplicates) = (0, 0);
        for _ in 0..ROUNDS {
            let (pushed, swept) =
                tokio::join!(pusher.query_one(PUSH, &[]), sweeper.batch_execute(SWEEP));
            swept.unwrap();
            let duplicate: bool = pushed.unwrap().get(1);
            let pending = fixture.inbox().stats().await.unwrap().pending;
            assert_eq!(pending, u64::from(!duplicate));
            match duplicate {
                true => duplicates += 1,
                false => stored += 1,
            }
            complete(&fixture).await;
        }
        println!("{QUEUE}: {stored} stored, {duplicates} duplicates");
    });
}

/// Completes all items.
async fn complete(fixture: &Fixture) {
    let items = fixture.inbox().claim().limit(10).take().await.unwrap();
    let claims: Vec<_> = items.iter().map(|item| item.claim).collect();
    fixture.inbox().complete(&claims).await.unwrap();
}

async fn keys(client: &tokio_postgres::Client) -> i64 {
    let count = "select count(*) from turno.inbox_key";
    client.query_one(count, &[]).await.unwrap().get(0)
}
