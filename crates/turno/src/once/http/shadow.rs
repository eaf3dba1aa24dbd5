//! Shadow mode of a policy: it counts, and changes nothing.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::counts::add;
use super::identify::Identified;
use super::layer::{Shared, question};
use super::policy::Policy;
use crate::once::Begin;
use crate::store::Released;

/// Notified when the request was answered. If it is dropped before that, the request was not answered.
pub(super) struct Shadow(oneshot::Sender<()>);

impl Shadow {
    pub(super) fn ended(self) {
        // The receiver may have ended already, if it had nothing to wait for.
        let _ = self.0.send(());
    }
}

/// Prefix of keys in shadow mode: a policy that is switched on later starts without keys, and with unused quotas.
const SHADOW: &str = "shadow/";

/// Calls the store in the background, without effect on the request.
pub(super) fn begin(shared: Arc<Shared>, policy: &Policy, mut identified: Identified) -> Shadow {
    identified.key.insert_str(0, SHADOW);
    if let Some(quota) = &mut identified.quota {
        quota.scope.insert_str(0, SHADOW);
    }
    let (shadow, ended) = oneshot::channel();
    let once = question(&shared, policy, &identified).wait(std::time::Duration::ZERO);
    let turno = shared.turno.clone();
    turno.spawn_background(async move {
        let counters = &shared.counters;
        let met = match once.begin().await {
            Ok(Begin::Fresh(claim)) => {
                add(&counters.fresh);
                let renewal = claim.auto_extend();
                // Without the answer, because no caller gets it.
                let settled = match ended.await {
                    Ok(()) => claim.complete_without().await,
                    Err(_) => claim.give_back(Released::Undone).await,
                };
                drop(renewal);
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
