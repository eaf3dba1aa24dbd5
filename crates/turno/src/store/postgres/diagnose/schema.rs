//! Functions, rights and settings, compared with those that this program ships.

use super::super::PostgresStore;
use crate::error::Result;
use crate::store::{DatabaseSetting, Finding, SchemaDrift, Store};

/// How many names a finding lists.
const NAMES_SHOWN: usize = 5;
const REPAIR: &str = "run `turno migrate --repair` as the owner of the schema";

pub(super) async fn findings(store: &PostgresStore) -> Result<[Finding; 2]> {
    let drift = store.schema_drift().await?;
    Ok([functions(&drift), grants(&drift)])
}

/// The settings that the owner has changed. None of them is a fault.
pub(super) async fn settings(store: &PostgresStore) -> Result<[Finding; 1]> {
    let changed: Vec<String> = store
        .database_settings()
        .await?
        .iter()
        .filter(|setting| setting.is_changed())
        .map(shown_setting)
        .collect();
    let said = match changed.is_empty() {
        true => "all have their defaults".to_owned(),
        false => changed.join(", "),
    };
    Ok([Finding::ok("settings", said)])
}

fn shown_setting(setting: &DatabaseSetting) -> String {
    format!(
        "{} is {} (default {})",
        setting.name, setting.value, setting.default_value
    )
}

fn functions(drift: &SchemaDrift) -> Finding {
    if !drift.has_functions() {
        return Finding::ok("functions", "as this program ships them");
    }
    let mut said = Vec::new();
    if !drift.missing_functions.is_empty() {
        said.push(format!("missing: {}", shown(&drift.missing_functions)));
    }
    if !drift.changed_functions.is_empty() {
        said.push(format!("changed: {}", shown(&drift.changed_functions)));
    }
    Finding::problem("functions", format!("{}; {REPAIR}", said.join("; ")))
}

/// A role that does not exist is no fault: the owner needs none.
fn grants(drift: &SchemaDrift) -> Finding {
    let mut said = Vec::new();
    if !drift.missing_grants.is_empty() {
        said.push(format!("missing: {}", shown(&drift.missing_grants)));
    }
    if !drift.excess_grants.is_empty() {
        said.push(format!("not meant to be: {}", shown(&drift.excess_grants)));
    }
    if !said.is_empty() {
        return Finding::warning("grants", format!("{}; {REPAIR}", said.join("; ")));
    }
    if drift.missing_roles.is_empty() {
        return Finding::ok(
            "grants",
            "the roles of applications and operators may call their functions",
        );
    }
    Finding::ok(
        "grants",
        format!(
            "only the owner can use the schema (missing roles: {}); if others should, an administrator runs `{}`, then {REPAIR}",
            drift.missing_roles.join(", "),
            drift.administrator_sql().join(" ")
        ),
    )
}

fn shown(names: &[String]) -> String {
    let mut text = names[..names.len().min(NAMES_SHOWN)].join(", ");
    if names.len() > NAMES_SHOWN {
        text.push_str(&format!(" and {} more", names.len() - NAMES_SHOWN));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_is_cut() {
        let names: Vec<String> = (1..=7).map(|n| format!("f{n}")).collect();
        assert_eq!(shown(&names[..2]), "f1, f2");
        assert_eq!(shown(&names), "f1, f2, f3, f4, f5 and 2 more");
    }
}
