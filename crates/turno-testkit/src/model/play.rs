//! Replays a history on the model and on a store.

use std::time::Duration;

use turno::lock::{BreakOutcome, Lock, ReleaseOutcome, RenewOutcome};
use turno::{Token, Turno};

use super::{Flaw, Mode, Model, Pick, RESOURCES, Step};
use crate::conformance::TestStore;

/// TTL of all leases, longer than any test: only a step lets time pass.
const TTL: Duration = Duration::from_secs(3600);

/// Replays a history on a new model and on a store, with names that begin with `name`.
///
/// # Errors
/// Returns an error if they disagree. It has the step and both results.
pub async fn play(
    test_store: &TestStore,
    turno: &Turno,
    name: &str,
    steps: &[Step],
    flaw: Flaw,
) -> Result<(), String> {
    // Leases that expired in an earlier history must not be swept in this one.
    turno.sweep(&Default::default()).await.unwrap();
    let mut stage = Stage {
        test_store,
        turno,
        name,
        model: Model::new(flaw),
        tokens: Vec::new(),
    };
    for (number, step) in steps.iter().enumerate() {
        let (model, store) = stage.step(*step).await;
        if model != store {
            return Err(format!(
                "step {number}, {step:?}: the model answers {model}, and the store {store}"
            ));
        }
    }
    for resource in 0..RESOURCES {
        let (model, store) = stage.holders(resource).await;
        if model != store {
            return Err(format!(
                "in the end resource {resource} is held by {model} in the model, and by {store} in the store"
            ));
        }
    }
    Ok(())
}

struct Stage<'a> {
    test_store: &'a TestStore,
    turno: &'a Turno,
    name: &'a str,
    model: Model,
    /// Resource and token in the store for each lease of the model.
    tokens: Vec<(usize, Token)>,
}

impl Stage<'_> {
    fn resource(&self, resource: usize) -> String {
        format!("{}/{resource}", self.name)
    }

    /// Returns the selected lease, and the resource and token to pass for it.
    fn picked(&self, pick: Pick) -> (Option<usize>, usize, Token) {
        let all = self.tokens.len();
        let lease = match pick {
            Pick::Lately(back) if back < all => Some(all - 1 - back),
            Pick::Any(any) if all > 0 => Some(any % all),
            _ => None,
        };
        match (lease, pick) {
            (Some(lease), _) => (Some(lease), self.tokens[lease].0, self.tokens[lease].1),
            // One above the last token: it will never be granted, because tokens grow with time.
            (None, Pick::Unknown(resource)) => {
                let last = self
                    .tokens
                    .iter()
                    .filter(|(of, _)| *of == resource)
                    .map(|(_, token)| token.0)
                    .max();
                (None, resource, Token(last.map_or(7, |last| last + 1)))
            }
            (None, _) => (None, 0, Token(7)),
        }
    }

    /// Runs a step and returns both results, as text.
    async fn step(&mut self, step: Step) -> (String, String) {
        match step {
            Step::Acquire {
                resource,
                owner,
                mode,
            } => self.acquire(resource, owner, mode).await,
            Step::Renew(pick) => {
                let (lease, resource, token) = self.picked(pick);
                let outcome = self
                    .turno
                    .lock(self.resource(resource))
                    .ttl(TTL)
                    .renew(token)
                    .await
                    .unwrap();
                let renewed = matches!(outcome, RenewOutcome::Renewed { .. });
                (self.model.renew(lease).to_string(), renewed.to_string())
            }
            Step::Release(pick) => {
                let (lease, resource, token) = self.picked(pick);
                let holds = match self
                    .turno
                    .lock(self.resource(resource))
                    .release(token)
                    .await
                    .unwrap()
                {
                    ReleaseOutcome::Released { holds } => Some(holds),
                    ReleaseOutcome::Lost => None,
                };
                (
                    format!("{:?}", self.model.release(lease, resource)),
                    format!("{holds:?}"),
                )
            }
            Step::Break(pick) => {
                let (lease, resource, token) = self.picked(pick);
                let outcome = self
                    .turno
                    .lock(self.resource(resource))
                    .force_break(token, "a step")
                    .await
                    .unwrap();
                (
                    self.model.force(lease).to_string(),
                    (outcome == BreakOutcome::Broken).to_string(),
                )
            }
            Step::Expire(resource) => {
                self.model.expire(resource);
                self.test_store.expire(&self.resource(resource)).await;
                self.holders(resource).await
            }
            Step::ExpireOne(pick) => {
                let (lease, resource, token) = self.picked(pick);
                if let Some(lease) = lease.filter(|lease| self.model.expire_one(*lease)) {
                    if self.model.is_exclusive(lease) {
                        self.test_store.expire(&self.resource(resource)).await;
                    } else {
                        self.test_store
                            .expire_hold(&self.resource(resource), token)
                            .await;
                    }
                }
                self.holders(resource).await
            }
            Step::Sweep => {
                let swept = self.turno.sweep(&Default::default()).await.unwrap();
                (self.model.sweep().to_string(), swept.expired.to_string())
            }
        }
    }

    async fn acquire(&mut self, resource: usize, owner: usize, mode: Mode) -> (String, String) {
        let lock: Lock = self
            .turno
            .lock(self.resource(resource))
            .owner(owner.to_string())
            .ttl(TTL);
        let lock = match mode {
            Mode::Exclusive => lock,
            Mode::Shared => lock.shared(),
            Mode::Two => lock.permits(2),
        };
        let lease = lock.acquire().await.unwrap().acquired();
        let granted = lease.map(|lease| {
            let (grant, token) = (lease.grant().clone(), lease.token());
            lease.detach();
            // An unknown token is a new lease. A new token must be above all others of its resource.
            let known = self
                .tokens
                .iter()
                .position(|known| *known == (resource, token));
            let highest = self
                .tokens
                .iter()
                .filter(|(of, _)| *of == resource)
                .all(|(_, known)| *known < token);
            (
                known.unwrap_or(self.tokens.len()),
                grant.holds,
                grant.reentered,
                known.is_some() || highest,
                token,
            )
        });
        let model = self.model.acquire(resource, owner, mode);
        if let Some((lease, _, _, _, token)) = granted
            && lease == self.tokens.len()
            && self.model.granted() > lease
        {
            self.tokens.push((resource, token));
        }
        let model = model.map(|(lease, holds)| (lease, holds, holds > 1, true));
        (
            format!("{model:?}"),
            format!(
                "{:?}",
                granted.map(|(lease, holds, again, grows, _)| (lease, holds, again, grows))
            ),
        )
    }

    async fn holders(&self, resource: usize) -> (String, String) {
        let status = self
            .turno
            .lock(self.resource(resource))
            .status()
            .await
            .unwrap();
        let held: Vec<(usize, u32)> = status
            .holders
            .iter()
            .map(|holder| (holder.owner.parse().unwrap(), holder.holds))
            .collect();
        (
            format!("{:?}", self.model.holders(resource)),
            format!("{held:?}"),
        )
    }
}
