//! Settings of the whole database, which hold for every caller. Only PostgreSQL has them: a SQLite file has no other callers than this
//! library, and its settings are [`Settings`](crate::Settings).

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::Roles;
use crate::error::{Error, Result};

/// One setting of the database, as [`Store::database_settings`](super::Store::database_settings) answers it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatabaseSetting {
    /// `app_role`, `max_payload`, `max_ttl`, `notify` or `operator_role`.
    pub name: String,
    /// Its value now.
    pub value: String,
    /// Its value when the owner has set none.
    pub default_value: String,
    /// What it decides.
    pub meaning: String,
}

impl DatabaseSetting {
    /// Whether it has another value than by default.
    pub fn is_changed(&self) -> bool {
        self.value != self.default_value
    }
}

/// A setting of the database and its new value.
///
/// ```
/// use turno::store::SettingChange;
///
/// let change: SettingChange = "max_ttl=60 days".parse()?;
/// assert_eq!(change, SettingChange::new("max_ttl", "60 days"));
/// assert_eq!("notify=".parse::<SettingChange>()?, SettingChange::reset("notify"));
/// # Ok::<(), turno::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingChange {
    /// Which one. The database rejects an unknown name.
    pub name: String,
    /// The new value; `None` for the default.
    pub value: Option<String>,
}

impl SettingChange {
    /// A setting with a value.
    pub fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        SettingChange {
            name: name.into(),
            value: Some(value.into()),
        }
    }

    /// A setting that gets its default again.
    pub fn reset(name: impl Into<String>) -> Self {
        SettingChange {
            name: name.into(),
            value: None,
        }
    }

    /// Whether it renames one of the database's roles.
    pub fn is_role(&self) -> bool {
        ["app_role", "operator_role"].contains(&self.name.as_str())
    }
}

impl FromStr for SettingChange {
    type Err = Error;

    /// `NAME=VALUE`; `NAME=` and `NAME=default` remove the value.
    fn from_str(text: &str) -> Result<Self> {
        let (name, value) = text
            .split_once('=')
            .map(|(name, value)| (name.trim(), value.trim()))
            .filter(|(name, _)| !name.is_empty())
            .ok_or_else(|| {
                Error::invalid(
                    "setting",
                    format!("setting is {text:?}, and must be NAME=VALUE, such as max_ttl=60d"),
                )
            })?;
        Ok(match value {
            "" | "default" => SettingChange::reset(name),
            value => SettingChange::new(name, value),
        })
    }
}

/// A setting that a migration has changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedSetting {
    /// Which one.
    pub name: String,
    /// Its value before.
    pub before: String,
    /// Its value now.
    pub value: String,
}

/// Parameters of [`Store::migrate_with`](super::Store::migrate_with).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MigrateOptions {
    /// Whether the database's roles are created and granted to.
    pub roles: Roles,
    /// Settings of the database to change, in the transaction of the migration.
    pub settings: Vec<SettingChange>,
    /// The person who changes settings, for the history. Default: the role of the session.
    pub user: Option<String>,
}

impl MigrateOptions {
    /// Returns an error if the options contradict each other.
    pub(crate) fn check(&self) -> Result<()> {
        match self.settings.iter().find(|change| change.is_role()) {
            Some(change) if self.roles == Roles::Skip => Err(Error::invalid(
                "setting",
                format!(
                    "setting {} names a role to grant to, and roles are left out: change it without --no-roles (Roles::Skip)",
                    change.name
                ),
            )),
            _ => Ok(()),
        }
    }
}

impl From<Roles> for MigrateOptions {
    fn from(roles: Roles) -> Self {
        MigrateOptions {
            roles,
            ..MigrateOptions::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_has_a_name_and_a_sign_of_equality() {
        for text in ["", "=", "= x", "max_ttl"] {
            let error = text.parse::<SettingChange>().expect_err(text);
            assert_eq!(error.field(), Some("setting"));
        }
        let change: SettingChange = " app_role = shop=app ".parse().expect("a change");
        assert_eq!(change, SettingChange::new("app_role", "shop=app"));
        assert!(change.is_role());
        let change: SettingChange = "max_ttl=default".parse().expect("a change");
        assert_eq!(change, SettingChange::reset("max_ttl"));
    }

    #[test]
    fn a_role_is_not_renamed_where_roles_are_left_out() {
        let mut options = MigrateOptions::from(Roles::Skip);
        options.settings.push(SettingChange::new("max_ttl", "60d"));
        options.check().expect("no role is named");
        options.settings.push(SettingChange::new("app_role", "a"));
        assert!(options.check().expect_err("a role is named").is_invalid());
        options.roles = Roles::Grant;
        options.check().expect("roles are granted to");
    }
}
