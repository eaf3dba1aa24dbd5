//! The functions of the schema as this program ships them, read from their SQL files.

/// One function as its file defines it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Function<'a> {
    pub(super) name: &'a str,
    /// As `pg_proc.prosrc` has it.
    pub(super) body: &'a str,
    /// Whether it runs with the rights of its owner.
    pub(super) definer: bool,
    /// As `pg_proc.proconfig` has them: `search_path=pg_catalog, pg_temp`. `sql/rights.sql` adds more to some functions.
    pub(super) settings: Vec<String>,
}

const CREATE: &str = "create or replace function turno.";

/// Returns the functions of a file, in its order.
pub(super) fn functions(sql: &str) -> Vec<Function<'_>> {
    let mut found = Vec::new();
    let mut rest = sql;
    while let Some(function) = next(&mut rest) {
        found.push(function);
    }
    found
}

/// Returns the next function that begins at the start of a line; `rest` is what follows it.
fn next<'a>(rest: &mut &'a str) -> Option<Function<'a>> {
    let begin = starts_of_lines(rest).find(|&at| rest[at..].starts_with(CREATE))?;
    let text = &rest[begin + CREATE.len()..];
    let name = &text[..text.find('(')?];
    // The body is between two equal quotes, $$ or $name$, of which the first ends the line with `as`.
    let header_end = text.find("\nas $")?;
    let quoted = &text[header_end + "\nas ".len()..];
    let quote = &quoted[..quoted[1..].find('$')? + 2];
    let body = &quoted[quote.len()..];
    let body_end = body.find(quote)?;
    *rest = &body[body_end + quote.len()..];
    let header = &text[..header_end];
    Some(Function {
        name,
        body: &body[..body_end],
        definer: header.lines().any(|line| line == "security definer"),
        settings: header
            .lines()
            .filter_map(|line| line.strip_prefix("set "))
            .map(|setting| setting.replacen(" = ", "=", 1).replace('\'', ""))
            .collect(),
    })
}

fn starts_of_lines(text: &str) -> impl Iterator<Item = usize> {
    std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_function_by_function() {
        let file = "-- create or replace function turno.not_this\n\
            create or replace function turno.one(a text) returns text\nlanguage sql\nas $$\n  select 'create or replace function'\n$$;\n\n\
            comment on function turno.one is 'x';\n\n\
            create or replace function turno.two(\n  a integer\n) returns void\nlanguage plpgsql\nsecurity definer\n\
            set search_path = pg_catalog, pg_temp\nset lock_timeout = '5s'\nas $two$ select $$ $two$;\n";
        let settings = ["search_path=pg_catalog, pg_temp", "lock_timeout=5s"];
        assert_eq!(
            functions(file),
            [
                Function {
                    name: "one",
                    body: "\n  select 'create or replace function'\n",
                    definer: false,
                    settings: Vec::new(),
                },
                Function {
                    name: "two",
                    body: " select $$ ",
                    definer: true,
                    settings: settings.map(str::to_owned).to_vec(),
                },
            ]
        );
    }

    /// Every function of the shipped files is found, also if it is formatted in another way.
    #[test]
    fn every_shipped_function_is_read() {
        for (file, sql) in super::super::migrate::FUNCTIONS {
            let written = sql
                .lines()
                .filter(|line| {
                    line.starts_with("create ") && line.contains("function turno.")
                        || line.starts_with("create procedure")
                })
                .count();
            assert_eq!(functions(sql).len(), written, "{file}");
        }
    }
}
