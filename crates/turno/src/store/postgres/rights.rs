//! The role that may call each function, read from `sql/rights.sql`. The settings `app_role` and `operator_role` can give the two
//! roles other names in a database; the list has the default names.

use tokio_postgres::GenericClient;
use tokio_postgres::types::Type;

use super::error;
use crate::error::{Error, Kind};

/// PostgreSQL's code for a right that is missing.
pub(super) const INSUFFICIENT_PRIVILEGE: &str = "42501";

/// Default name of the role of applications.
pub(super) const APP: &str = "turno_app";
/// Default name of the role of operators.
pub(super) const OPERATOR: &str = "turno_operator";

const LIST: &str = include_str!("sql/rights.sql");

/// Returns the role that may call a public function; `None` if the function is internal or unknown.
pub(super) fn role_for(function: &str) -> Option<&'static str> {
    let operator = format!("('{function}', '{OPERATOR}')");
    let app = format!("('{function}', '{APP}')");
    if LIST.contains(&operator) {
        Some(OPERATOR)
    } else if LIST.contains(&app) {
        Some(APP)
    } else {
        None
    }
}

/// Returns what to run after `permission denied for function NAME`, with the default names of the roles.
pub(super) fn advice(said: &str) -> String {
    let role = function(said).and_then(role_for);
    advice_with(said, role.unwrap_or(APP))
}

fn advice_with(said: &str, role: &str) -> String {
    let owner = match function(said).and_then(role_for) {
        Some(_) => "",
        None => ", or the owner of the schema does it",
    };
    format!("the role may not do this; an administrator runs `grant {role} to <role>`{owner}")
}

/// Returns the function that a message names.
fn function(said: &str) -> Option<&str> {
    said.rsplit_once("for function ").map(|(_, name)| name)
}

/// Returns the error with the name that the missing role has in this database. Any other error is unchanged.
pub(super) async fn named(client: &impl GenericClient, error: Error) -> Error {
    let Some(said) = error::answer(&error)
        .filter(|answer| answer.code().code() == INSUFFICIENT_PRIVILEGE && answer.hint().is_none())
        .map(|answer| answer.message().to_owned())
    else {
        return error;
    };
    let rows = client
        .query_typed(query!(role_needed), &[(&function(&said), Type::TEXT)])
        .await;
    let role = rows
        .ok()
        .and_then(|rows| rows.first().map(|row| row.get::<_, String>("role")));
    match role {
        Some(role) => {
            let message = format!("{said}: {}", advice_with(&said, &role));
            Error::caused(Kind::Refused, message, error)
        }
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_role_that_is_needed() {
        for (said, role) in [
            ("permission denied for function sweep", Some(OPERATOR)),
            ("permission denied for function lock_break", Some(OPERATOR)),
            ("permission denied for function lock_acquire", Some(APP)),
            ("permission denied for function next_token", None),
            ("permission denied for schema turno", None),
        ] {
            let advised = advice(said);
            let named = role.unwrap_or(APP);
            assert!(
                advised.contains(&format!("`grant {named} to <role>`")),
                "{advised}"
            );
            assert_eq!(advised.contains("owner"), role.is_none(), "{advised}");
        }
    }
}
