//! Checks a whole run by the logs of its tasks and the final state of the store.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use turno::lock::LockHolder;
use turno_testkit::load::{Entry, KEPT};

/// Log entries of all tasks so far.
#[derive(Debug, Clone, Default)]
pub struct Ledger(Arc<Mutex<Vec<Entry>>>);

impl Ledger {
    pub fn note(&self, entry: Entry) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(entry);
    }

    pub fn entries(&self) -> Vec<Entry> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Returns the number of acknowledged grants since entry `from`, of resources whose names begin with `prefix`.
    pub fn grants(&self, from: usize, prefix: &str) -> usize {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries[from..]
            .iter()
            .filter(|entry| matches!(entry, Entry::Granted { resource, .. } if resource.starts_with(prefix)))
            .count()
    }

    /// Returns all violations. `held` is what the store holds at `now_us` or later.
    pub fn check(&self, held: &HashMap<String, LockHolder>, now_us: i64) -> Vec<String> {
        let held: HashMap<&str, Held> = held
            .iter()
            .map(|(resource, holder)| {
                let holding = Held {
                    token: holder.token.0,
                    holds: holder.holds,
                };
                (resource.as_str(), holding)
            })
            .collect();
        complaints(&self.entries(), &held, now_us)
    }
}

/// State of one resource in the store.
#[derive(Debug, Clone, Copy)]
struct Held {
    token: i64,
    holds: u32,
}

/// A new token of an owner, not a reentrant acquire.
#[derive(Debug, Clone, Copy)]
struct Grant {
    token: i64,
    asked_us: i64,
    answered_us: i64,
    /// It was certainly held until then: released or expired no earlier.
    until_us: i64,
    /// It cannot have expired before this.
    expires_us: i64,
    /// Whether a release, of all or some holds, was requested.
    releasing: bool,
}

/// Log entries of one resource.
#[derive(Debug, Default)]
struct Story {
    grants: Vec<Grant>,
    asked: u32,
    granted: u32,
    releasing: u32,
    released: u32,
    /// Tokens whose last hold was released, acknowledged.
    ended: HashSet<i64>,
}

fn complaints(entries: &[Entry], held: &HashMap<&str, Held>, now_us: i64) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut stories: HashMap<&str, Story> = HashMap::new();
    for entry in entries {
        stories.tell(entry, &mut complaints);
    }
    for (resource, story) in &mut stories {
        let about = |complaint: String| format!("{resource}: {complaint}");
        complaints.extend(story.out_of_order().into_iter().map(about));
        complaints.extend(story.together().into_iter().map(about));
        let held = held.get(resource).copied();
        complaints.extend(story.contradictions(held, now_us).into_iter().map(about));
        if resource.starts_with(KEPT) {
            complaints.extend(story.miscounted(held).into_iter().map(about));
        }
    }
    complaints
}

trait Tell<'a> {
    fn tell(&mut self, entry: &'a Entry, complaints: &mut Vec<String>);
}

impl<'a> Tell<'a> for HashMap<&'a str, Story> {
    fn tell(&mut self, entry: &'a Entry, complaints: &mut Vec<String>) {
        match entry {
            Entry::Asking { resource } => self.entry(resource).or_default().asked += 1,
            Entry::Granted {
                resource,
                token,
                holds,
                asked_us,
                answered_us,
                ttl_us,
            } => {
                let story = self.entry(resource).or_default();
                story.granted += 1;
                // Tasks never share an owner, so the first hold is the grant of a token.
                if *holds == 1 {
                    story.grants.push(Grant {
                        token: *token,
                        asked_us: *asked_us,
                        answered_us: *answered_us,
                        until_us: asked_us + ttl_us,
                        expires_us: asked_us + ttl_us,
                        releasing: false,
                    });
                }
            }
            Entry::Releasing {
                resource,
                token,
                asked_us,
            } => {
                let story = self.entry(resource).or_default();
                story.releasing += 1;
                for grant in story
                    .grants
                    .iter_mut()
                    .filter(|grant| grant.token == *token)
                {
                    grant.until_us = grant.until_us.min(*asked_us);
                    grant.releasing = true;
                }
            }
            Entry::Released {
                resource,
                token,
                holds,
            } => {
                let story = self.entry(resource).or_default();
                story.released += 1;
                if *holds == 0 {
                    story.ended.insert(*token);
                }
            }
            Entry::Lost {
                resource,
                token,
                answered_us,
            } => {
                let story = self.entry(resource).or_default();
                let grant = story.grants.iter().find(|grant| grant.token == *token);
                if grant.is_some_and(|grant| *answered_us < grant.expires_us) {
                    complaints.push(format!("{resource}: {token} was lost before its time"));
                }
            }
            Entry::Unavailable => {}
            Entry::Broken { error } => complaints.push(format!("a call failed: {error}")),
        }
    }
}

impl Story {
    /// Returns tokens that are repeated, or not above those of grants that were acknowledged before their request.
    fn out_of_order(&mut self) -> Vec<String> {
        let mut complaints = Vec::new();
        let mut seen = HashSet::new();
        for grant in &self.grants {
            if !seen.insert(grant.token) {
                complaints.push(format!("token {} was granted twice", grant.token));
            }
        }
        let mut answered = self.grants.clone();
        answered.sort_by_key(|grant| grant.answered_us);
        self.grants.sort_by_key(|grant| grant.asked_us);
        let mut answered = answered.into_iter().peekable();
        let mut highest = None;
        for grant in &self.grants {
            while let Some(earlier) =
                answered.next_if(|earlier| earlier.answered_us <= grant.asked_us)
            {
                highest = highest.max(Some(earlier.token));
            }
            if highest >= Some(grant.token) {
                complaints.push(format!("token {} came after {highest:?}", grant.token));
            }
        }
        complaints
    }

    /// Returns grants that were requested and returned while another owner certainly held the resource.
    fn together(&self) -> Vec<String> {
        let mut complaints = Vec::new();
        for first in &self.grants {
            let from = self
                .grants
                .partition_point(|other| other.asked_us < first.answered_us);
            for second in self.grants[from..]
                .iter()
                .take_while(|other| other.asked_us < first.until_us)
                .filter(|other| other.answered_us < first.until_us)
            {
                let (first, second) = (first.token, second.token);
                complaints.push(format!("{second} was granted while {first} held it"));
            }
        }
        complaints
    }

    /// Returns acknowledged grants that the store has lost, and acknowledged releases that it has undone.
    fn contradictions(&self, held: Option<Held>, now_us: i64) -> Vec<String> {
        let mut complaints = Vec::new();
        for grant in &self.grants {
            let is_held = held.is_some_and(|held| held.token == grant.token);
            if !is_held && !grant.releasing && grant.expires_us > now_us {
                complaints.push(format!("the grant of {} is gone; {held:?}", grant.token));
            }
            if is_held && self.ended.contains(&grant.token) {
                complaints.push(format!("{} is held again after its release", grant.token));
            }
        }
        complaints
    }

    /// For a resource that only one owner acquires and that does not expire: checks that acknowledged changes exist, and
    /// that none was applied twice.
    fn miscounted(&self, held: Option<Held>) -> Vec<String> {
        let holds = held.map_or(0, |held| held.holds);
        let least = self.granted.saturating_sub(self.releasing);
        let most = self.asked.saturating_sub(self.released);
        if (least..=most).contains(&holds) {
            return Vec::new();
        }
        vec![format!("held {holds} times instead of {least} to {most}")]
    }
}

/// The controls: forged ledgers, each with one violation.
#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_US: i64 = 1_000_000;

    fn granted(resource: &str, token: i64, holds: u32, at_s: i64) -> Entry {
        Entry::Granted {
            resource: resource.to_owned(),
            token,
            holds,
            asked_us: at_s * SECOND_US,
            answered_us: at_s * SECOND_US + 1,
            ttl_us: 100 * SECOND_US,
        }
    }

    fn asking(resource: &str) -> Entry {
        Entry::Asking {
            resource: resource.to_owned(),
        }
    }

    fn releasing(resource: &str, token: i64, at_s: i64) -> Entry {
        Entry::Releasing {
            resource: resource.to_owned(),
            token,
            asked_us: at_s * SECOND_US,
        }
    }

    fn released(resource: &str, token: i64, holds: u32) -> Entry {
        Entry::Released {
            resource: resource.to_owned(),
            token,
            holds,
        }
    }

    /// A resource with several successive holders, and one that is kept: no violations.
    fn honest() -> Vec<Entry> {
        vec![
            asking("a"),
            granted("a", 7, 1, 1),
            granted("a", 7, 2, 2),
            releasing("a", 7, 3),
            released("a", 7, 1),
            releasing("a", 7, 4),
            released("a", 7, 0),
            granted("a", 9, 1, 5),
            asking("kept/1"),
            granted("kept/1", 3, 1, 1),
            asking("kept/1"),
            granted("kept/1", 3, 2, 2),
            releasing("kept/1", 3, 3),
            released("kept/1", 3, 1),
        ]
    }

    fn all_held() -> HashMap<&'static str, Held> {
        HashMap::from([
            ("a", Held { token: 9, holds: 1 }),
            ("kept/1", Held { token: 3, holds: 1 }),
        ])
    }

    fn judge(entries: &[Entry], held: &HashMap<&str, Held>) -> String {
        complaints(entries, held, 10 * SECOND_US).join("; ")
    }

    #[track_caller]
    fn complains(more: &[Entry], of: &str) {
        let complaint = judge(&[honest(), more.to_vec()].concat(), &all_held());
        assert!(
            complaint.contains(of),
            "{complaint:?} does not contain {of:?}"
        );
    }

    #[test]
    fn an_honest_ledger_is_accepted() {
        assert_eq!(judge(&honest(), &all_held()), "");
    }

    #[test]
    fn a_repeated_token_is_noticed() {
        complains(&[granted("a", 7, 1, 6)], "token 7 was granted twice");
    }

    #[test]
    fn a_token_that_goes_back_is_noticed() {
        complains(&[granted("a", 8, 1, 6)], "token 8 came after Some(9)");
    }

    #[test]
    fn two_holders_at_once_are_noticed() {
        complains(&[granted("a", 10, 1, 6)], "10 was granted while 9 held it");
    }

    #[test]
    fn a_forgotten_grant_is_noticed() {
        let mut held = all_held();
        held.remove("a");
        assert!(judge(&honest(), &held).contains("a: the grant of 9 is gone"));
    }

    #[test]
    fn an_expired_grant_may_be_gone() {
        let mut held = all_held();
        held.remove("a");
        let later = complaints(&honest(), &held, 1000 * SECOND_US);
        assert_eq!(later, Vec::<String>::new());
    }

    #[test]
    fn an_undone_release_is_noticed() {
        let mut held = all_held();
        held.insert("a", Held { token: 7, holds: 1 });
        assert!(judge(&honest(), &held).contains("7 is held again after its release"));
    }

    #[test]
    fn a_doubled_hold_is_noticed() {
        let mut held = all_held();
        held.insert("kept/1", Held { token: 3, holds: 2 });
        assert!(judge(&honest(), &held).contains("held 2 times instead of 1 to 1"));
    }

    #[test]
    fn a_doubled_release_is_noticed() {
        let mut held = all_held();
        held.remove("kept/1");
        assert!(judge(&honest(), &held).contains("held 0 times instead of 1 to 1"));
    }

    #[test]
    fn a_lease_lost_before_its_time_is_noticed() {
        let lost = Entry::Lost {
            resource: "a".to_owned(),
            token: 9,
            answered_us: 7 * SECOND_US,
        };
        complains(&[lost], "9 was lost before its time");
    }

    #[test]
    fn an_error_that_no_outage_explains_is_noticed() {
        let error = "no such table".to_owned();
        complains(&[Entry::Broken { error }], "no such table");
    }
}
