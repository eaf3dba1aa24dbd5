//! Whether notifications are switched off in the database.

use super::super::PostgresStore;
use super::super::rows::get;
use crate::error::Result;
use crate::store::Finding;

/// Nothing to say of the default.
pub(super) async fn finding(store: &PostgresStore) -> Result<Option<Finding>> {
    let row = store
        .calls
        .row("select turno.notifies() as notifies", &[])
        .await?;
    Ok((!get::<bool>(&row, "notifies")?).then(|| {
        Finding::ok(
            "notify",
            "off by the setting of this database: transactions can be prepared, and programs that wait look at intervals of up to 5 s",
        )
    }))
}
