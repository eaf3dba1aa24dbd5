//! How a schema differs from the one that this program ships, and what to do with the database's roles.

use serde::{Deserialize, Serialize};

/// Whether migrating creates the database's roles and grants them their functions. Only PostgreSQL has roles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Roles {
    /// Create `turno_app` and `turno_operator` if the owner may create roles, and grant to those that exist. The settings
    /// `app_role` and `operator_role` of the database can name other roles.
    #[default]
    Grant,
    /// Create no role and grant nothing: only the owner can use the schema, until rights are granted by hand.
    Skip,
}

/// Answer of [`Store::schema_drift`](super::Store::schema_drift): what differs from the schema that this program ships.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchemaDrift {
    /// Functions that do not exist.
    pub missing_functions: Vec<String>,
    /// Functions whose text, `security definer` or settings differ.
    pub changed_functions: Vec<String>,
    /// Roles that do not exist. That is no fault where only the owner uses the schema.
    pub missing_roles: Vec<String>,
    /// Rights that an existing role should have and has not: `turno_app: lock_acquire`.
    pub missing_grants: Vec<String>,
    /// Functions that a role may call although they are not meant for it: `turno_app: sweep`.
    pub excess_grants: Vec<String>,
}

impl SchemaDrift {
    /// Whether [`Store::repair`](super::Store::repair) has something to change.
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

    /// What an administrator runs so that the missing roles exist.
    pub fn administrator_sql(&self) -> Vec<String> {
        create_roles(&self.missing_roles)
    }
}

/// The statements that create roles.
pub(crate) fn create_roles(roles: &[String]) -> Vec<String> {
    roles
        .iter()
        .map(|role| format!("create role {} nologin;", identifier(role)))
        .collect()
}

/// A name as SQL writes it.
pub(crate) fn identifier(name: &str) -> String {
    let is_plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    match is_plain {
        true => name.to_owned(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_is_named_as_sql_writes_it() {
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
