//! Which role may call which function, read from the one list there is: `sql/rights.sql`.

/// What an application's role is a member of.
pub(super) const APP: &str = "turno_app";
/// What an operator's role is a member of.
pub(super) const OPERATOR: &str = "turno_operator";

const LIST: &str = include_str!("sql/rights.sql");

/// The role that may call a public function; `None` if the function is internal or unknown.
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

/// What to run about `permission denied for function NAME`.
pub(super) fn advice(said: &str) -> String {
    let function = said.rsplit_once("for function ").map(|(_, name)| name);
    match function.and_then(role_for) {
        Some(role) => {
            format!("the role may not do this; an administrator runs `grant {role} to <role>`")
        }
        None => format!(
            "the role may not do this; an administrator runs `grant {APP} to <role>`, or the owner of the schema does it"
        ),
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
            ("permission denied for function lock_tick", None),
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
