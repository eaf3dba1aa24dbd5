//! The schema of a store: migration, drift, and settings of the database that apply to every caller.
//!
//! Only PostgreSQL has roles and settings of the database. An SQLite file has no other callers than the library, whose own
//! settings apply.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Whether migrating creates the database's roles and grants them their functions. Only PostgreSQL has roles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Roles {
    /// Create `turno_app` and `turno_operator` if the owner may create roles, and grant to those that exist. The settings
    /// `app_role` and `operator_role` of the database can name other roles.
    #[default]
    Grant,
    /// Create no role and grant nothing: only the owner can use the schema, until the owner grants rights.
    Skip,
}

/// Outcome of `Store::schema_drift`: the differences from the schema that this program ships.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchemaDrift {
    /// Functions that do not exist.
    pub missing_functions: Vec<String>,
    /// Functions whose text, `security definer` or settings differ.
    pub changed_functions: Vec<String>,
    /// Roles that do not exist. That is correct where only the owner uses the schema.
    pub missing_roles: Vec<String>,
    /// Missing rights of an existing role: `turno_app: lock_acquire`.
    pub missing_grants: Vec<String>,
    /// Functions that a role may call although the schema does not grant them to it: `turno_app: sweep`.
    pub excess_grants: Vec<String>,
}

impl SchemaDrift {
    /// Whether `Store::repair` has something to change.
    pub fn is_repairable(&self) -> bool {
        self.has_functions() || self.has_grants()
    }

    /// Whether a function is missing or changed.
    pub fn has_functions(&self) -> bool {
        !self.missing_functions.is_empty() || !self.changed_functions.is_empty()
    }

    /// Whether an existing role has too few or too many rights.
    pub fn has_grants(&self) -> bool {
        !self.missing_grants.is_empty() || !self.excess_grants.is_empty()
    }

    /// The statements by which an administrator creates the missing roles.
    pub fn administrator_sql(&self) -> Vec<String> {
        create_roles(&self.missing_roles)
    }
}

/// The statements that create roles.
#[doc(hidden)]
pub fn create_roles(roles: &[String]) -> Vec<String> {
    roles
        .iter()
        .map(|role| format!("create role {} nologin;", identifier(role)))
        .collect()
}

/// A name as an SQL identifier, quoted if necessary.
#[doc(hidden)]
pub fn identifier(name: &str) -> String {
    let is_plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    match is_plain {
        true => name.to_owned(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

/// Outcome of `Store::migrate`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Migrated {
    /// The schema version before; `None` if there was no schema.
    pub from: Option<u32>,
    /// The schema version now.
    pub to: u32,
    /// Roles that this migration should have created and had no right to create.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_roles: Vec<String>,
    /// Settings of the database that it changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed_settings: Vec<ChangedSetting>,
}

/// One setting of the database, from `Store::database_settings`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatabaseSetting {
    /// `app_role`, `max_payload`, `max_ttl`, `notify` or `operator_role`.
    pub name: String,
    /// The current value.
    pub value: String,
    /// The default.
    pub default_value: String,
    /// What the setting decides.
    pub meaning: String,
}

impl DatabaseSetting {
    /// Whether the value differs from the default.
    pub fn is_changed(&self) -> bool {
        self.value != self.default_value
    }
}

/// A setting of the database and its new value.
///
/// ```
/// use turno_api::schema::SettingChange;
///
/// let change: SettingChange = "max_ttl=60 days".parse()?;
/// assert_eq!(change, SettingChange::new("max_ttl", "60 days"));
/// assert_eq!("notify=".parse::<SettingChange>()?, SettingChange::reset("notify"));
/// # Ok::<(), turno_api::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingChange {
    /// The name. The database rejects an unknown name.
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

    /// A setting that is reset to its default.
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
    /// The name.
    pub name: String,
    /// The value before.
    pub before: String,
    /// The value now.
    pub value: String,
}

/// Parameters of `Store::migrate_with`.
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
    #[doc(hidden)]
    pub fn check(&self) -> Result<()> {
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
    fn a_change_has_a_name_and_an_equals_sign() {
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
    fn a_role_is_not_renamed_when_roles_are_skipped() {
        let mut options = MigrateOptions::from(Roles::Skip);
        options.settings.push(SettingChange::new("max_ttl", "60d"));
        options.check().expect("no role is named");
        options.settings.push(SettingChange::new("app_role", "a"));
        assert!(options.check().expect_err("a role is named").is_invalid());
        options.roles = Roles::Grant;
        options.check().expect("roles are granted to");
    }

    #[test]
    fn roles_are_quoted_as_identifiers() {
        let roles = ["turno_app".to_owned(), "The \"App\"".to_owned()];
        assert_eq!(
            create_roles(&roles),
            [
                "create role turno_app nologin;",
                "create role \"The \"\"App\"\"\" nologin;"
            ]
        );
    }
}
