//! Responses that are not stored, and what they mean for the work.

use axum::Extension;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use turno::once::Released;
use turno::once::http::{Policy, Statuses, WorkOutcome};

use crate::kit::{Site, paying, problem};

/// Returns a handler that fails with these statuses, then succeeds.
fn failing(
    statuses: &'static [u16],
) -> impl Fn(u32, Request) -> std::future::Ready<Response> + Clone {
    move |run, _| {
        let failure = statuses.get(run as usize - 1);
        std::future::ready(match failure {
            Some(status) => StatusCode::from_u16(*status).unwrap().into_response(),
            None => format!("run {run}").into_response(),
        })
    }
}

#[tokio::test]
async fn a_failure_is_tried_again() {
    let statuses = &[500, 503, 408, 409, 423, 425, 429];
    let site = Site::new(Policy::new("pagos"), failing(statuses)).await;
    for status in statuses {
        let response = site.send(paying("77")).await;
        assert_eq!(
            (response.status.as_u16(), response.is_replayed()),
            (*status, false)
        );
        assert_eq!(response.text(), "");
    }
    site.send(paying("77")).await.assert_fresh("run 8");
    site.send(paying("77")).await.assert_replayed("run 8");
    let counts = site.counts();
    assert_eq!((counts.fresh, counts.replayed), (8, 1), "{counts:?}");
}

#[tokio::test]
async fn a_failure_may_have_done_something() {
    let policy = Policy::new("pagos").unstored(Released::Unknown);
    let site = Site::new(policy, failing(&[500])).await;
    assert_eq!(site.send(paying("77")).await.status.as_u16(), 500);
    let response = site.send(paying("77")).await;
    assert_eq!(response.problem(), problem(409, "unknown"));
    assert_eq!((site.runs(), site.counts().unknown), (1, 1));
}

#[tokio::test]
async fn a_policy_says_which_statuses_are_answers() {
    let policy = Policy::new("pagos").statuses(Statuses::new([200..=299, 500..=500]));
    let site = Site::new(policy, failing(&[404, 500])).await;
    assert_eq!(site.send(paying("77")).await.status.as_u16(), 404);
    for is_replayed in [false, true] {
        let response = site.send(paying("77")).await;
        assert_eq!(
            (response.status.as_u16(), response.is_replayed()),
            (500, is_replayed)
        );
    }
    assert_eq!(site.runs(), 2);
}

/// A service that knows more than its status says.
#[tokio::test]
async fn a_service_says_that_nothing_was_done() {
    let site = Site::new(Policy::new("pagos"), async |run, _: Request| {
        (Extension(WorkOutcome::Undone), format!("run {run}"))
    })
    .await;
    site.send(paying("77")).await.assert_fresh("run 1");
    site.send(paying("77")).await.assert_fresh("run 2");
}

#[tokio::test]
async fn a_service_says_that_something_may_have_been_done() {
    let site = Site::new(Policy::new("pagos"), async |_, _: Request| {
        (
            StatusCode::BAD_GATEWAY,
            Extension(WorkOutcome::Unknown),
            "cut off",
        )
    })
    .await;
    let response = site.send(paying("77")).await;
    assert_eq!(
        (response.status.as_u16(), response.text()),
        (502, "cut off")
    );
    let again = site.send(paying("77")).await;
    assert_eq!(again.problem(), problem(409, "unknown"));
    assert_eq!(site.runs(), 1);
}
