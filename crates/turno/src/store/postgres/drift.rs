//! Differences between the schema in the database and the one that this program ships.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};
use tokio_postgres::GenericClient;

use super::classify;
use super::migrate::FUNCTIONS;
use super::shipped::{self, Function};
use crate::error::Result;
use crate::store::SchemaDrift;

/// The compared properties of a function.
struct Found {
    body: Vec<u8>,
    definer: bool,
    settings: Vec<String>,
}

impl Found {
    /// Additional settings are allowed; `sql/rights.sql` adds some.
    fn is(&self, shipped: &Function<'_>) -> bool {
        self.body == Sha256::digest(shipped.body).as_slice()
            && self.definer == shipped.definer
            && shipped
                .settings
                .iter()
                .all(|setting| self.settings.contains(setting))
    }
}

/// Compares functions and rights. Every role may do that.
pub(super) async fn drift(client: &impl GenericClient) -> Result<SchemaDrift> {
    let mut drift = functions(client).await?;
    // Functions list the rights. If they are missing, they must be repaired first.
    let is_missing = |listing: &str| drift.missing_functions.iter().any(|name| name == listing);
    if !["rights", "settings", "setting_list", "setting_value"]
        .into_iter()
        .any(is_missing)
    {
        grants(client, &mut drift).await?;
    }
    Ok(drift)
}

/// Compares functions only.
pub(super) async fn functions(client: &impl GenericClient) -> Result<SchemaDrift> {
    let rows = client
        .query_typed(query!(drift_functions), &[])
        .await
        .map_err(classify)?;
    let mut found: BTreeMap<String, Vec<Found>> = BTreeMap::new();
    for row in &rows {
        found.entry(row.get("name")).or_default().push(Found {
            body: row.get("body"),
            definer: row.get("definer"),
            settings: row.get("settings"),
        });
    }
    let mut drift = SchemaDrift::default();
    for function in FUNCTIONS
        .iter()
        .flat_map(|(_, sql)| shipped::functions(sql))
    {
        match found.get(function.name) {
            None => drift.missing_functions.push(function.name.to_owned()),
            // Several functions may have the same name, with different arguments.
            Some(there) if there.iter().any(|there| there.is(&function)) => {}
            Some(_) => drift.changed_functions.push(function.name.to_owned()),
        }
    }
    Ok(drift)
}

async fn grants(client: &impl GenericClient, drift: &mut SchemaDrift) -> Result<()> {
    let rows = client
        .query_typed(query!(drift_grants), &[])
        .await
        .map_err(classify)?;
    for row in &rows {
        let role: String = row.get("role");
        if !row.get::<_, bool>("exists") {
            drift.missing_roles.push(role);
            continue;
        }
        let named = |mut names: Vec<String>| {
            // A name with several signatures is listed once.
            names.dedup();
            names
                .iter()
                .map(|name| format!("{role}: {name}"))
                .collect::<Vec<_>>()
        };
        if !row.get::<_, bool>("usage") {
            drift.missing_grants.push(format!("{role}: schema turno"));
        }
        drift.missing_grants.extend(named(row.get("missing")));
        drift.excess_grants.extend(named(row.get("excess")));
    }
    Ok(())
}

/// Returns the roles that the settings name and that do not exist in this cluster.
pub(super) async fn missing_roles(client: &impl GenericClient) -> Result<Vec<String>> {
    let rows = client
        .query_typed(query!(roles_missing), &[])
        .await
        .map_err(classify)?;
    Ok(rows.iter().map(|row| row.get("role")).collect())
}
