//! The environment variables that a connection depends on.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// A copy of the environment variables that matter for a connection: `HOME` and those that begin with `PG`.
///
/// Tests and programs with settings of their own build one from pairs; the process's own variables are not read then.
///
/// ```
/// use turno::store::postgres::{Environment, Target};
///
/// let environment = Environment::from_iter([("PGHOST", "db.example.com"), ("PGUSER", "app")]);
/// let target = Target::parse_with("postgres://", &environment)?;
/// assert_eq!(target.config().get_user(), Some("app"));
/// # Ok::<(), turno::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// The variables of this process.
    pub fn of_process() -> Self {
        std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect()
    }

    /// A variable that is set and not empty.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let value = self.0.get(name)?;
        (!value.is_empty()).then_some(value)
    }

    /// A file in the user's home folder, if there is one.
    pub(in crate::store::postgres) fn home_file(&self, name: &str) -> Option<PathBuf> {
        Some(PathBuf::from(self.get("HOME")?).join(name))
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(variables: I) -> Self {
        let variables = variables.into_iter();
        let variables = variables.map(|(name, value)| (name.into(), value.into()));
        let matters = |name: &str| name == "HOME" || name.starts_with("PG");
        Environment(variables.filter(|(name, _)| matters(name)).collect())
    }
}

impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Names only: PGPASSWORD is a value.
        f.debug_set().entries(self.0.keys()).finish()
    }
}
