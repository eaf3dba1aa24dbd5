//! What the web service has been asked, and what it answers.
//!
//! It answers late or not at all, when a scene needs that: a race that would be a matter of luck is certain if the
//! service answers only when two callers are there.

use std::collections::HashMap;

use uuid::Uuid;

/// How the service answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// When a second call for the same presentation has come, or when released.
    WhenTwoHaveCalled,
    /// The first call for each presentation is refused.
    RefuseFirst,
    /// The first call of all is never answered; its caller is to be killed.
    NeverTheFirst,
}

/// What a call was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// 200.
    Accepted,
    /// 503.
    Refused,
}

/// One call.
#[derive(Debug, Clone, Copy)]
pub struct Call {
    /// For which presentation.
    pub presentation: Uuid,
    /// From which instance.
    pub instance: u32,
    /// Which attempt that is, as the instance counts.
    pub attempt: u32,
    /// `None` until it is answered.
    pub answer: Option<Answer>,
}

/// All calls, in the order in which they came.
#[derive(Debug)]
pub struct Ledger {
    manner: Manner,
    released: bool,
    /// The calls.
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

    /// How often each presentation was accepted.
    pub fn accepted(&self) -> HashMap<Uuid, usize> {
        let mut times = HashMap::new();
        for call in &self.calls {
            if call.answer == Some(Answer::Accepted) {
                *times.entry(call.presentation).or_default() += 1;
            }
        }
        times
    }

    /// The instances that wait for an answer, and would for ever.
    pub fn held(&self) -> Vec<u32> {
        let held = (0..self.calls.len()).filter(|call| self.verdict(*call).is_none());
        held.map(|call| self.calls[call].instance).collect()
    }

    /// What a call is to be answered; `None` as long as it has to wait.
    pub(crate) fn verdict(&self, call: usize) -> Option<Answer> {
        let presentation = self.calls[call].presentation;
        let mut same = self
            .calls
            .iter()
            .filter(|other| other.presentation == presentation);
        match self.manner {
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
