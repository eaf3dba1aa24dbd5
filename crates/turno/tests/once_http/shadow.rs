//! A policy in shadow mode counts, and changes nothing; one that is off does not even count.

use axum::body::Body;
use axum::extract::Request;
use turno::once::http::{Counts, Policy, Switch};
use turno_testkit::eventually_async;

use crate::kit::{Site, paying, post, run_number};
use crate::{LONG, on_each_store};

on_each_store! {
    it_changes_nothing_and_counts => it_changes_nothing_and_counts;
}

async fn shadowed(url: &str, policy: Policy) -> Site {
    Site::on(url, policy.switch(Switch::Shadow), run_number).await
}

/// Waits for the counters, which are updated in the background.
async fn counted(site: &Site, what: &str, condition: impl Fn(&Counts) -> bool) -> Counts {
    eventually_async(LONG, what, async || {
        let counts = site.counts();
        condition(&counts).then_some(counts)
    })
    .await
}

async fn it_changes_nothing_and_counts(url: &str) {
    let site = shadowed(url, Policy::new("pagos")).await;
    site.send(paying("77")).await.assert_fresh("run 1");
    counted(&site, "the first", |counts| counts.fresh == 1).await;
    site.send(paying("77")).await.assert_fresh("run 2");
    let counts = counted(&site, "a duplicate", |counts| counts.shadowed == 1).await;
    assert_eq!(counts.replayed + counts.in_flight, 1, "{counts:?}");

    let other = post("77").body(Body::from("{}")).unwrap();
    site.send(other).await.assert_fresh("run 3");
    let counts = counted(&site, "a mismatch", |counts| counts.shadowed == 2).await;
    assert_eq!(counts.mismatch, 1, "{counts:?}");
}

#[tokio::test]
async fn what_has_no_identity_passes() {
    let site = shadowed("sqlite::memory:", Policy::new("pagos").max_body(10)).await;
    let bare = Request::post("/pagos").body(Body::empty()).unwrap();
    site.send(bare).await.assert_fresh("run 1");
    let bad = post("77").body(Body::from("{")).unwrap();
    site.send(bad).await.assert_fresh("run 2");
    assert_eq!(site.counts().unidentified, 2);
}

/// Also requests that would have been rejected before they were identified, with their whole body.
#[tokio::test]
async fn what_is_too_large_passes() {
    let policy = Policy::new("pagos").max_body(10).switch(Switch::Shadow);
    let site = Site::new(policy, async |_, request: Request| request.into_body()).await;
    let large = || "x".repeat(1000);
    let response = site
        .send(post("77").body(Body::from(large())).unwrap())
        .await;
    response.assert_fresh(&large());
    assert_eq!(site.counts().unidentified, 1);
}

#[tokio::test]
async fn what_is_off_is_not_there() {
    let policy = Policy::new("pagos").switch(Switch::Off);
    let site = Site::new(policy, run_number).await;
    site.send(paying("77")).await.assert_fresh("run 1");
    site.send(paying("77")).await.assert_fresh("run 2");
    assert_eq!(site.counts(), Counts::default());
}
