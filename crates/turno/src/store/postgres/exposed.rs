//! Functions that role `anon` may call: on Supabase and PostgREST, any caller without a login.

use super::PostgresStore;
use crate::error::Result;
use crate::store::Finding;

/// A message names at most this many functions.
const MAX_NAMED_FUNCTIONS: usize = 5;

/// A finding about role `anon`, where there is one.
pub(super) async fn finding(store: &PostgresStore) -> Result<Option<Finding>> {
    let rows = store.calls.rows(query!(diagnose_exposed), &[]).await?;
    let Some(row) = rows.first() else {
        return Ok(None);
    };
    let mut exposed: Vec<String> = row.get("functions");
    // Only the owner may read which tables are adopted.
    if row.get("is_owner") {
        let rows = store
            .calls
            .rows(query!(diagnose_exposed_adopted), &[])
            .await?;
        exposed.extend(rows.iter().map(|row| row.get::<_, String>("function")));
    }
    Ok(Some(about(&exposed)))
}

fn about(exposed: &[String]) -> Finding {
    let Some(first) = exposed.first() else {
        return Finding::ok("anon", "role anon may call none of Turno's functions");
    };
    let mut named = exposed[..exposed.len().min(MAX_NAMED_FUNCTIONS)].join(", ");
    if exposed.len() > MAX_NAMED_FUNCTIONS {
        named.push_str(", …");
    }
    Finding::warning(
        "anon",
        format!(
            "role anon, which requests without a login have on Supabase and PostgREST, may call {} of Turno's functions ({named}): run `revoke execute on function {first} from public, anon` for each, unless it is meant so",
            exposed.len()
        ),
    )
}
