//! Models of Turno's protocols, which a checker explores in all their states.
//!
//! A model has what matters for a promise and nothing else: who holds what, what is committed, and what the world may do in
//! between (a crash, a pause, a lease that expires). Each action names the SQL function that it stands for, and a test checks that
//! the function is there. The properties are the promises of the README.
//!
//! Each model has *flaws*: the same protocol with a known bug. The checker must find a counterexample for each, or the model
//! proves nothing.
#![forbid(unsafe_code)]

pub mod inbox;
pub mod lock;
pub mod once;
pub mod outbox;

/// A small number: a token, an id, a count.
pub type Number = u8;

/// What an action of a model stands for.
#[derive(Debug, Clone, Copy)]
pub struct StandsFor {
    /// Name of the action.
    pub action: &'static str,
    /// The SQL file and the function in it, or nothing for what the world does.
    pub function: Option<(&'static str, &'static str)>,
    /// What the world does.
    pub world: &'static str,
}

impl StandsFor {
    const fn sql(action: &'static str, file: &'static str, function: &'static str) -> Self {
        StandsFor {
            action,
            function: Some((file, function)),
            world: "",
        }
    }

    const fn world(action: &'static str, world: &'static str) -> Self {
        StandsFor {
            action,
            function: None,
            world,
        }
    }
}
