//! A push meets a key that is swept while the push is under way: it is stored, or it is answered as a duplicate.

use turno_testkit::eventually_async;

use crate::LONG;
use crate::place::{Place, QUEUE, client, item};

const PUSH: &str = "
    select ids[1], duplicates is not null
    from turno.inbox_push_batch('presentations', array['1'], array['k'])";
const SWEEP: &str = "select turno.sweep(keep_completed => '0')";
const ROUNDS: usize = 200;

/// The push has met the key, and waits for a table before it answers. Then the key is swept.
#[test]
fn a_push_whose_key_is_swept_meanwhile_is_a_duplicate_or_stored() {
    let place = Place::postgres();
    let known = place.push([item("done").key("k")])[0];
    place.runtime.block_on(async {
        complete(&place).await;
        let (holder, pusher) = (client(&place.url).await, client(&place.url).await);
        let observer = client(&place.url).await;
        let hold = "begin; lock table turno.inbox_item in share row exclusive mode";
        holder.batch_execute(hold).await.unwrap();
        let push = tokio::spawn(async move { pusher.query_one(PUSH, &[]).await.unwrap() });
        let waiting = "select count(*) from pg_locks where not granted and relation = 'turno.inbox_item'::regclass";
        eventually_async(LONG, "the push waits", async || {
            let count: i64 = observer.query_one(waiting, &[]).await.unwrap().get(0);
            (count == 1).then_some(())
        })
        .await;
        observer.batch_execute(SWEEP).await.unwrap();
        // The control: the key has gone, while the push that has met it is under way.
        assert_eq!(keys(&observer).await, 0);
        holder.batch_execute("commit").await.unwrap();
        let pushed = push.await.unwrap();
        let (id, duplicate): (i64, bool) = (pushed.get(0), pushed.get(1));
        assert!(duplicate, "{id} is acknowledged");
        assert_eq!(id, known.0);
        assert_eq!(place.inbox().stats().await.unwrap().pending, 0);
    });
}

/// The same again and again, with no order between the push and the sweep.
#[test]
fn no_push_is_lost_beside_a_sweep() {
    let place = Place::postgres();
    place.runtime.block_on(async {
        let (pusher, sweeper) = (client(&place.url).await, client(&place.url).await);
        let (mut stored, mut duplicates) = (0, 0);
        for _ in 0..ROUNDS {
            let (pushed, swept) =
                tokio::join!(pusher.query_one(PUSH, &[]), sweeper.batch_execute(SWEEP));
            swept.unwrap();
            let duplicate: bool = pushed.unwrap().get(1);
            let pending = place.inbox().stats().await.unwrap().pending;
            assert_eq!(pending, u64::from(!duplicate));
            match duplicate {
                true => duplicates += 1,
                false => stored += 1,
            }
            complete(&place).await;
        }
        println!("{QUEUE}: {stored} stored, {duplicates} duplicates");
    });
}

/// Completes what there is.
async fn complete(place: &Place) {
    let items = place.inbox().claim().limit(10).take().await.unwrap();
    let claims: Vec<_> = items.iter().map(|item| item.claim).collect();
    place.inbox().complete(&claims).await.unwrap();
}

async fn keys(client: &tokio_postgres::Client) -> i64 {
    let count = "select count(*) from turno.inbox_key";
    client.query_one(count, &[]).await.unwrap().get(0)
}
