//! A policy in shadow: it looks, it counts, and it changes nothing.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::counts::add;
use super::identify::Identified;
use super::layer::{Shared, question};
use super::policy::Policy;
use crate::once::Begin;
use crate::store::Released;

/// Told when the request was answered; dropped before that, the request was not.
pub(super) struct Shadow(oneshot::Sender<()>);

impl Shadow {
    pub(super) fn ended(self) {
        // Whoever counts may have ended already: it had nothing to wait for.
        let _ = self.0.send(());
    }
}

/// What shadows leave behind is for shadows only: a policy that is switched on begins anew, with whole quotas.
const SHADOW: &str = "shadow/";

/// Asks the store behind the request's back.
pub(super) fn begin(shared: Arc<Shared>, policy: &Policy, mut identified: Identified) -> Shadow {
    identified.key.insert_str(0, SHADOW);
    if let Some(quota) = &mut identified.quota {
        quota.scope.insert_str(0, SHADOW);
    }
    let (shadow, ended) = oneshot::channel();
    let once = question(&shared.turno, policy, &identified).wait(std::time::Duration::ZERO);
    let turno = shared.turno.clone();
    turno.spawn_background(async move {
        let counters = &shared.counters;
        let met = match once.begin().await {
            Ok(Begin::Fresh(claim)) => {
                add(&counters.fresh);
                let keeper = claim.auto_extend();
                // Not its answer: nobody is to be given it.
                let settled = match ended.await {
                    Ok(()) => claim.complete_without().await,
                    Err(_) => claim.give_back(Released::Undone).await,
                };
                drop(keeper);
                if let Err(error) = settled {
                    tracing::debug!(%error, "a shadow was not settled");
                }
                return;
            }
            Ok(Begin::Replay(_)) => &counters.replayed,
            Ok(Begin::InFlight(_)) => &counters.in_flight,
            Ok(Begin::Mismatch) => &counters.mismatch,
            Ok(Begin::Unknown(_)) => &counters.unknown,
            Ok(Begin::OverQuota) => &counters.over_quota,
            Err(error) => {
                tracing::debug!(%error, "a shadow could not ask");
                add(&counters.store_down);
                return;
            }
        };
        add(met);
        add(&counters.shadowed);
    });
    Shadow(shadow)
}
