//! The layer: finds the policy of a request, and builds the response.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Request, Response};
use http_body::Body;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use tower_layer::Layer;
use tower_service::Service;

use super::accept::accepted;
use super::answering::Answering;
use super::counts::{Counters, add};
use super::identify::{Identified, identify};
use super::near::plain;
use super::policy::{Fails, InFlight, Policy, Switch, Unknown};
use super::work::{self, Work};
use super::{Carried, Counts, Refusal, StoredResponse, shadow};
use crate::Turno;
use crate::check;
use crate::error::{Error, Result};
use crate::once::{AfterUnknown, Answer, Begin, Identities, Once};
use crate::problem::{Problem, ProblemCode, language};

/// Header of a replayed response.
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

pub(super) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Policies by path.
#[derive(Debug, Clone, Default)]
pub struct Routes {
    router: matchit::Router<Vec<Arc<Policy>>>,
    /// By normalized path, for paths that a service may treat as equal.
    near: matchit::Router<Vec<Arc<Policy>>>,
    paths: Vec<(String, Vec<Arc<Policy>>)>,
}

impl Routes {
    /// Creates an empty set: all requests pass.
    pub fn new() -> Self {
        Routes::default()
    }

    /// Adds the policy of a path: `/pagos`, `/pagos/{id}/cargo`, `/v1/{*rest}`. Several policies of one path must have
    /// different methods.
    ///
    /// # Errors
    /// Returns an error if the path is not a valid pattern, collides with another, or has a method of another policy.
    ///
    /// ```
    /// use turno::once::http::{Policy, Routes};
    ///
    /// let routes = Routes::new()
    ///     .add("/pagos", Policy::new("pagos"))?
    ///     .add("/pagos/{id}/cargo", Policy::new("cargos"))?;
    /// assert!(routes.add("/pagos", Policy::new("otra")).is_err()); // the path has a policy with the same methods
    /// # Ok::<(), turno::Error>(())
    /// ```
    pub fn add(mut self, path: &str, policy: Policy) -> Result<Self> {
        check::name("name", &policy.name)?;
        if policy.name.len() > MAX_NAME_BYTES {
            return Err(Error::invalid(
                "name",
                format!("name has more than {MAX_NAME_BYTES} bytes: shorten it"),
            ));
        }
        let of_path = match self.paths.iter().position(|(known, _)| known == path) {
            Some(place) => &mut self.paths[place].1,
            None => {
                self.paths.push((path.to_owned(), Vec::new()));
                &mut self.paths.last_mut().expect("one was just added").1
            }
        };
        let taken = policy
            .methods
            .iter()
            .find(|method| of_path.iter().any(|other| other.methods.contains(method)));
        if let Some(method) = taken {
            return Err(Error::invalid(
                "methods",
                format!("{method} {path} has two policies: take one away"),
            ));
        }
        of_path.push(Arc::new(policy));
        let mut router = matchit::Router::new();
        let mut near = matchit::Router::new();
        for (path, policies) in &self.paths {
            // If two routes have the same normalized path, both still match exactly, and similar paths get the first one.
            let _ = near.insert(plain(path), policies.clone());
            router.insert(path, policies.clone()).map_err(|error| {
                Error::invalid("path", format!("path {path:?} cannot be used: {error}"))
            })?;
        }
        self.router = router;
        self.near = near;
        Ok(self)
    }

    fn find(&self, head: &Request<impl Sized>) -> Option<(&Arc<Policy>, Fit)> {
        let path = head.uri().path();
        if let Ok(found) = self.router.at(path) {
            return Some((of_method(found.value, head)?, Fit::Exact));
        }
        let plain = plain(path);
        let found = self.near.at(&plain).ok()?;
        Some((of_method(found.value, head)?, Fit::Near))
    }
}

/// How a path matches a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fit {
    Exact,
    /// Not as written, but a service may treat it as equal.
    Near,
}

/// Maximum length of a policy's name: keys are 43 bytes longer, and at most 255.
const MAX_NAME_BYTES: usize = 100;

fn of_method<'a>(
    policies: &'a [Arc<Policy>],
    head: &Request<impl Sized>,
) -> Option<&'a Arc<Policy>> {
    policies
        .iter()
        .find(|policy| policy.switch != Switch::Off && policy.methods.contains(head.method()))
}

/// A tower layer that processes requests once.
#[derive(Clone)]
pub struct OnceLayer {
    shared: Arc<Shared>,
}

pub(super) struct Shared {
    pub(super) turno: Turno,
    pub(super) identities: Identities,
    /// Name of the runs' worker. `None`: the default.
    worker: Option<String>,
    pub(super) counters: Counters,
    /// Work in flight, including that of disconnected clients.
    pub(super) works: TaskTracker,
    policies: Policies,
}

enum Policies {
    All([Arc<Policy>; 1]),
    Routed(Box<Routes>),
}

impl fmt::Debug for OnceLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnceLayer")
            .field("counts", &self.counts())
            .finish_non_exhaustive()
    }
}

impl OnceLayer {
    /// Creates a layer with one policy for all requests with its methods. The policy's name has at most 100 bytes.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use axum::{Router, body::Body, routing::post};
    /// # use http::Request;
    /// # use tower::ServiceExt;
    /// use turno::once::http::{OnceLayer, Policy};
    ///
    /// let turno = turno::Turno::connect("sqlite::memory:").await?;
    /// let layer = OnceLayer::new(turno, Policy::new("pagos"));
    /// let app = Router::new().route("/pagos", post(async || "paid")).layer(layer.clone());
    ///
    /// let request = || Request::post("/pagos").header("idempotency-key", "77").body(Body::empty());
    /// app.clone().oneshot(request()?).await?;
    /// let again = app.oneshot(request()?).await?;
    /// assert_eq!(again.headers()["idempotency-replayed"], "true");
    /// assert_eq!(layer.counts().replayed, 1);
    /// # Ok(()) }
    /// ```
    pub fn new(turno: Turno, policy: Policy) -> Self {
        Self::with(turno, Policies::All([Arc::new(policy)]))
    }

    /// Creates a layer with a policy per route. Requests without a route pass.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use turno::once::http::{OnceLayer, Policy, Routes};
    ///
    /// let turno = turno::Turno::connect("sqlite::memory:").await?;
    /// let routes = Routes::new().add("/pagos", Policy::new("pagos"))?.add("/cargos", Policy::new("cargos"))?;
    /// let layer = OnceLayer::routed(turno, routes);
    /// assert_eq!(layer.counts(), Default::default());
    /// layer.idle().await; // at the shutdown, when the server accepts no more requests
    /// # Ok(()) }
    /// ```
    pub fn routed(turno: Turno, routes: Routes) -> Self {
        Self::with(turno, Policies::Routed(Box::new(routes)))
    }

    fn with(turno: Turno, policies: Policies) -> Self {
        OnceLayer {
            shared: Arc::new(Shared {
                worker: worker(&turno),
                turno,
                identities: Identities::new(),
                counters: Counters::default(),
                works: TaskTracker::new(),
                policies,
            }),
        }
    }

    /// Sets identities with a secret, see [`Identities::with_secret`]. Call it before the layer is used.
    #[must_use]
    pub fn identities(self, identities: Identities) -> Self {
        let shared = match Arc::try_unwrap(self.shared) {
            Ok(shared) => Shared {
                identities,
                ..shared
            },
            Err(used) => Shared {
                turno: used.turno.clone(),
                worker: used.worker.clone(),
                identities,
                counters: Counters::default(),
                works: TaskTracker::new(),
                policies: used.policies.clone(),
            },
        };
        OnceLayer {
            shared: Arc::new(shared),
        }
    }

    /// Returns the counters.
    pub fn counts(&self) -> Counts {
        self.shared.counters.now()
    }

    /// Waits until no work is in flight, including that of disconnected clients. For the shutdown of a server, after it has
    /// stopped accepting requests. Cancel-safe.
    pub async fn idle(&self) {
        self.shared.works.close();
        self.shared.works.wait().await;
    }
}

impl Clone for Policies {
    fn clone(&self) -> Self {
        match self {
            Policies::All(policy) => Policies::All(policy.clone()),
            Policies::Routed(routes) => Policies::Routed(routes.clone()),
        }
    }
}

impl<S> Layer<S> for OnceLayer {
    type Service = OnceService<S>;

    fn layer(&self, inner: S) -> OnceService<S> {
        OnceService {
            inner,
            shared: self.shared.clone(),
        }
    }
}

/// A service that processes requests once.
#[derive(Clone)]
pub struct OnceService<S> {
    inner: S,
    shared: Arc<Shared>,
}

impl<S> fmt::Debug for OnceService<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnceService").finish_non_exhaustive()
    }
}

impl<S, B, R> Service<Request<B>> for OnceService<S>
where
    S: Service<Request<Carried<B>>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
    R: Body<Data = Bytes> + Send + 'static,
    R::Error: Into<BoxError>,
{
    type Response = Response<Carried<R>>;
    type Error = S::Error;
    type Future = Answering<S::Future, R, S::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let policy = match &self.shared.policies {
            Policies::All(policy) => of_method(policy, &request).map(|policy| (policy, Fit::Exact)),
            Policies::Routed(routes) => routes.find(&request),
        };
        let Some((policy, fit)) = policy else {
            return Answering::passed(self.inner.call(request.map(Carried::untouched)));
        };
        let policy = policy.clone();
        // The instance that is ready handles this request; the clone is for the next one.
        let copy = self.inner.clone();
        let inner = std::mem::replace(&mut self.inner, copy);
        Answering::handled(handle(self.shared.clone(), policy, fit, inner, request))
    }
}

/// Responds to a request under a policy, in the words of the policy's templates.
async fn handle<S, B, R>(
    shared: Arc<Shared>,
    policy: Arc<Policy>,
    fit: Fit,
    inner: S,
    request: Request<B>,
) -> Result<Response<Carried<R>>, S::Error>
where
    S: Service<Request<Carried<B>>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
    R: Body<Data = Bytes> + Send + 'static,
    R::Error: Into<BoxError>,
{
    let accept = policy.has_templates().then(|| accepted(request.headers()));
    let mut body = Bytes::new();
    let response = respond(shared, policy.clone(), fit, inner, request, &mut body).await?;
    Ok(match accept {
        Some(accept) => policy.apply_template(response, &accept, &body),
        None => response,
    })
}

/// Responds to a request under a policy. If a template may need the request's body, it is stored in `received`.
async fn respond<S, B, R>(
    shared: Arc<Shared>,
    policy: Arc<Policy>,
    fit: Fit,
    mut inner: S,
    request: Request<B>,
    received: &mut Bytes,
) -> Result<Response<Carried<R>>, S::Error>
where
    S: Service<Request<Carried<B>>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
    R: Body<Data = Bytes> + Send + 'static,
    R::Error: Into<BoxError>,
{
    let (head, body) = request.into_parts();
    let mut responder = Responder {
        language: language(&head.headers),
        policy: &policy,
        key: None,
    };
    if fit == Fit::Near {
        add(&shared.counters.unidentified);
        if policy.unidentified == Fails::Open || policy.switch == Switch::Shadow {
            return pass(inner, head, Carried::untouched(body)).await;
        }
        return Ok(responder.unidentified(&not_exact(head.uri.path(), &policy)));
    }
    let body = match read(body, &policy).await {
        Ok(body) => body,
        Err(unread) => {
            add(&shared.counters.unidentified);
            return match unread {
                Unread::TooLarge(body) | Unread::TooSlow(body)
                    if policy.switch == Switch::Shadow =>
                {
                    pass(inner, head, body).await
                }
                Unread::TooLarge(_) => Ok(responder.problem(ProblemCode::RequestTooLarge)),
                Unread::TooSlow(_) => Ok(responder.problem(ProblemCode::RequestTimeout)),
                // The client has probably disconnected.
                Unread::BrokenOff => Ok(responder.problem(ProblemCode::Unidentified)),
            };
        }
    };
    if policy.has_templates() {
        *received = body.clone();
    }
    let identified = match identify(&shared.identities, &policy, &head, &body) {
        Ok(identified) => identified,
        Err(error) => {
            add(&shared.counters.unidentified);
            if policy.unidentified == Fails::Open || policy.switch == Switch::Shadow {
                return pass(inner, head, Carried::whole(body)).await;
            }
            return Ok(responder.unidentified(&error));
        }
    };
    if policy.switch == Switch::Shadow {
        let shadow = shadow::begin(shared, &policy, identified);
        let answered = pass(inner, head, Carried::whole(body)).await;
        shadow.ended();
        return answered;
    }
    responder.key = Some(&identified.key);
    let once = question(&shared, &policy, &identified);
    let counters = &shared.counters;
    match once.begin().await {
        Ok(Begin::Fresh(claim)) => {
            let work = Work {
                shared: shared.clone(),
                policy: policy.clone(),
                claim: Arc::new(claim),
                language: responder.language,
            };
            let is_rerun = work.claim.attempt() > 1;
            if let (true, Unknown::Ask(prober)) = (is_rerun, &policy.unknown)
                && let Some(answer) = work::ask(&work, &**prober, &head, &body).await
            {
                return Ok(match answer {
                    Ok(answer) => responder.replay(answer, counters),
                    Err(code) => responder.problem(code),
                });
            }
            add(&counters.fresh);
            let request = Request::from_parts(head, Carried::whole(body));
            match work::spawn(work, move |request| inner.call(request), request).await {
                Ok(answered) => answered,
                Err(_) => Ok(responder.problem(ProblemCode::Failed)),
            }
        }
        Ok(Begin::Replay(answer)) => Ok(responder.stored(&answer, counters)),
        Ok(Begin::InFlight(_)) => {
            add(&counters.in_flight);
            Ok(responder.problem(ProblemCode::RequestInFlight))
        }
        Ok(Begin::Mismatch) => {
            add(&counters.mismatch);
            identified.log(&policy, "a key was sent with another content");
            Ok(responder.problem(ProblemCode::RequestMismatch))
        }
        Ok(Begin::Unknown(_)) => {
            add(&counters.unknown);
            identified.log(&policy, "it is not known whether a request was carried out");
            Ok(responder.problem(ProblemCode::RequestUnknown))
        }
        Ok(Begin::OverQuota) => {
            add(&counters.over_quota);
            Ok(responder.problem(ProblemCode::CallerOverQuota))
        }
        Err(error) if error.is_invalid() => {
            add(&counters.unidentified);
            Ok(responder.unidentified(&error))
        }
        Err(error) => {
            add(&counters.store_down);
            tracing::error!(%error, route = policy.name, "the store does not answer");
            if policy.store_down == Fails::Open {
                return pass(inner, head, Carried::whole(body)).await;
            }
            Ok(responder.problem(ProblemCode::StoreUnavailable))
        }
    }
}

fn not_exact(path: &str, policy: &Policy) -> Error {
    Error::invalid(
        "path",
        format!(
            "the path {path} is not as the route {:?} has it, and the service may take it for the same: send the request to the path \
             as it is written, without a slash at the end, doubled slashes, other capitals or escapes",
            policy.name
        ),
    )
}

/// Returns the name by which an operator recognizes the process of a run: with the [user](crate::Builder::user) and the
/// [service](crate::Builder::service) of its settings, if they are set.
fn worker(turno: &Turno) -> Option<String> {
    let settings = turno.settings();
    let caller = match (settings.user.as_deref(), settings.service.as_deref()) {
        (Some(user), Some(service)) => format!("{user}@{service}"),
        (user, service) => user.or(service)?.to_owned(),
    };
    let worker = format!("{caller} on {}", turno.worker_name());
    // Both names together may be too long for one.
    check::name("worker", &worker).is_ok().then_some(worker)
}

/// Returns the options of the call to the store.
pub(super) fn question(shared: &Shared, policy: &Policy, identified: &Identified) -> Once {
    let unknown = match policy.unknown {
        Unknown::Refuse => AfterUnknown::Refuse,
        // A probe is called after the work was taken over, so that only one caller at a time calls it.
        Unknown::Rerun | Unknown::Ask(_) => AfterUnknown::Rerun,
    };
    let mut once = shared
        .turno
        .once(&identified.key)
        .fingerprint(&identified.fingerprint)
        .lease(policy.lease)
        .ttl(policy.ttl)
        .unknown(unknown);
    if let Some(worker) = &shared.worker {
        once = once.worker(worker);
    }
    if let InFlight::Wait(wait) = policy.in_flight {
        once = once.wait(wait);
    }
    if let Some(quota) = &identified.quota {
        once = once.quota(&quota.scope, quota.most);
    }
    once
}

/// Passes a request on unchanged.
async fn pass<S, B, R>(
    mut inner: S,
    head: Parts,
    body: Carried<B>,
) -> Result<Response<Carried<R>>, S::Error>
where
    S: Service<Request<Carried<B>>, Response = Response<R>>,
{
    let request = Request::from_parts(head, body);
    Ok(inner.call(request).await?.map(Carried::untouched))
}

/// Why a body was not read.
enum Unread<B> {
    TooLarge(Carried<B>),
    TooSlow(Carried<B>),
    BrokenOff,
}

/// Reads the whole body, or returns why that failed.
async fn read<B>(body: B, policy: &Policy) -> Result<Bytes, Unread<B>>
where
    B: Body<Data = Bytes>,
{
    let most = policy.max_body;
    let until = Instant::now() + policy.body_timeout;
    if body.size_hint().lower() > most as u64 {
        return Err(Unread::TooLarge(Carried::untouched(body)));
    }
    match Carried::read(body, most, until).await {
        Some(body) => body
            .into_bytes(most)
            .map_err(|body| match body.is_over(most) {
                true => Unread::TooLarge(body),
                false => Unread::TooSlow(body),
            }),
        None => Err(Unread::BrokenOff),
    }
}

/// Builds problem responses for a client.
struct Responder<'a> {
    language: crate::lock::Language,
    policy: &'a Policy,
    /// Key of the request in the store, if known.
    key: Option<&'a str>,
}

impl Responder<'_> {
    fn problem<R>(&self, code: ProblemCode) -> Response<Carried<R>> {
        problem(code, self.language, self.policy, self.key)
    }

    fn unidentified<R>(&self, error: &Error) -> Response<Carried<R>> {
        let field = error.field().unwrap_or_default();
        let problem = Problem::new(ProblemCode::Unidentified)
            .because(error.to_string())
            .in_field(field);
        Refusal::unidentified(field).mark(problem.to_response(self.language))
    }

    fn stored<R>(&self, answer: &Answer, counters: &Counters) -> Response<Carried<R>> {
        match answer.get::<StoredResponse>() {
            Ok(Some(stored)) => self.replay(stored, counters),
            Ok(None) => {
                add(&counters.not_stored);
                self.problem(ProblemCode::AnswerNotStored)
            }
            Err(error) => {
                tracing::error!(%error, route = self.policy.name, "a stored answer cannot be read");
                self.problem(ProblemCode::AnswerNotStored)
            }
        }
    }

    fn replay<R>(&self, stored: StoredResponse, counters: &Counters) -> Response<Carried<R>> {
        match stored.into_response() {
            Ok(mut response) => {
                add(&counters.replayed);
                response
                    .headers_mut()
                    .insert(REPLAYED, HeaderValue::from_static("true"));
                response
            }
            Err(error) => {
                tracing::error!(%error, route = self.policy.name, "a stored answer cannot be sent");
                self.problem(ProblemCode::AnswerNotStored)
            }
        }
    }
}

/// Returns a problem response, marked as a refusal, with `Retry-After` where it applies.
pub(super) fn problem<R>(
    code: ProblemCode,
    language: crate::lock::Language,
    policy: &Policy,
    key: Option<&str>,
) -> Response<Carried<R>> {
    let mut problem = Problem::new(code);
    if let Some(key) = key {
        problem = problem.about_key(key);
    }
    if matches!(
        code,
        ProblemCode::RequestInFlight
            | ProblemCode::AnswerStale
            | ProblemCode::CallerOverQuota
            | ProblemCode::StoreUnavailable
    ) {
        problem = problem.retry_after(policy.retry_after);
    }
    let response = problem.to_response(language);
    match Refusal::of(code) {
        Some(refusal) => refusal.mark(response),
        None => response,
    }
}
