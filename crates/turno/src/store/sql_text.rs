//! Names and texts in generated statements.

/// Returns a name as SQL writes it.
pub(crate) fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Returns a text as SQL writes it.
pub(crate) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Replaces each `{name}` and `{name alias}` of a template, in one pass: a name of the user's may look like a placeholder itself.
pub(crate) fn fill(template: &str, value: &dyn Fn(&str, &str) -> String) -> String {
    let mut sql = String::with_capacity(template.len() * 2);
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        sql.push_str(before);
        let (placeholder, after) = after.split_once('}').unwrap_or((after, ""));
        let (name, alias) = placeholder.split_once(' ').unwrap_or((placeholder, ""));
        sql.push_str(&value(name, alias));
        rest = after;
    }
    sql + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_leave_its_quotes_and_is_no_placeholder() {
        let value = |name: &str, alias: &str| match name {
            "table" => quote("a{id}\"b"),
            other => format!("{alias}.{}", quote(other)),
        };
        assert_eq!(
            fill("from {table} t where {id t} = 1", &value),
            "from \"a{id}\"\"b\" t where t.\"id\" = 1"
        );
        assert_eq!(literal("it's"), "'it''s'");
    }
}
