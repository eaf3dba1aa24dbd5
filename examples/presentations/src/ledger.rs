//! Calls that the web service has received, and its responses.
//!
//! The service delays or withholds responses where a scene needs it. This makes races deterministic: for example, the service
//! responds only when two callers are waiting.

use std::collections::HashMap;

use uuid::Uuid;

/// When and how the service responds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// Accepts each call at once.
    AcceptAll,
    /// Responds when a second call for the same presentation has arrived, or when released.
    WhenTwoHaveCalled,
    /// Rejects the first call for each presentation.
    RefuseFirst,
    /// Never responds to the very first call. Its caller will be killed.
    NeverTheFirst,
}

/// Response to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Status 200.
    Accepted,
    /// Status 503.
    Refused,
}

/// One call.
#[derive(Debug, Clone, Copy)]
pub struct Call {
    /// Presentation that was sent.
    pub presentation: Uuid,
    /// Calling instance.
    pub instance: u32,
    /// Attempt number, as counted by the instance.
    pub attempt: u32,
    /// `None` until the response is sent.
    pub answer: Option<Answer>,
}

/// All calls, in order of arrival.
#[derive(Debug)]
pub struct Ledger {
    manner: Manner,
    released: bool,
    /// The calls, in order of arrival.
    pub calls: Vec<Call>,
}

impl Ledger {
    pub(crate) fn new(manner: Manner) -> Self {
        Ledger {
            manner,
            released: false,
            calls: Vec::new(),
        }
    }

    pub(crate) fn release(&mut self) {
        self.released = true;
    }

    /// Returns how often each presentation was accepted.
    pub fn accepted(&self) -> HashMap<Uuid, usize> {
        let mut times = HashMap::new();
        for call in &self.calls {
            if call.answer == Some(Answer::Accepted) {
                *times.entry(call.presentation).or_default() += 1;
            }
        }
        times
    }

    /// Returns the instances whose calls are held back: they wait for a response that does not come.
    pub fn held(&self) -> Vec<u32> {
        let held = (0..self.calls.len()).filter(|call| self.verdict(*call).is_none());
        held.map(|call| self.calls[call].instance).collect()
    }

    /// Returns the response to a call, or `None` while it has to wait.
    pub(crate) fn verdict(&self, call: usize) -> Option<Answer> {
        let presentation = self.calls[call].presentation;
        let mut same = self
            .calls
            .iter()
            .filter(|other| other.presentation == presentation);
        match self.manner {
            Manner::AcceptAll => Some(Answer::Accepted),
            Manner::WhenTwoHaveCalled if self.released => Some(Answer::Accepted),
            Manner::WhenTwoHaveCalled => same.nth(1).map(|_| Answer::Accepted),
            Manner::NeverTheFirst => (call > 0).then_some(Answer::Accepted),
            Manner::RefuseFirst => {
                let before = &self.calls[..call];
                let first = before
                    .iter()
                    .all(|other| other.presentation != presentation);
                Some(if first {
                    Answer::Refused
                } else {
                    Answer::Accepted
                })
            }
        }
    }
}
