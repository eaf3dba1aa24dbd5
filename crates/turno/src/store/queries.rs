//! Named queries: in a `.sql` file, a line `-- name: lock_acquire` begins the query `lock_acquire`, as in river and sqlc.
//!
//! The files are read at compile time. `query!(lock_acquire)` is the text of that query as a constant, without the name
//! line; an unknown name is a compile error. Each store has its own list of files (`postgres/queries.rs`,
//! `sqlite/queries.rs`) and its own `query!`.
//!
//! A rule is a named condition that several queries use: `{lock_is_held}` in a query stands for the condition
//! `lock_is_held`, so that it is written once.

mod named;

pub(crate) use named::{Query, count, find, next_line, parse};

/// Returns the length of a file after [`expand`].
pub(crate) const fn expanded_length(file: &str, rules: &[Query]) -> usize {
    let bytes = file.as_bytes();
    let (mut at, mut length) = (0, 0);
    while at < bytes.len() {
        match rule_at(bytes, at, rules) {
            Some((name, text)) => {
                length += "/*  */ ()".len() + name.len() + condition(text).len();
                at += "{}".len() + name.len();
            }
            None => {
                length += 1;
                at += 1;
            }
        }
    }
    length
}

/// Replaces each `{name}` of a rule by its condition, as `/* name */ (condition)`. Other braces stay.
pub(crate) const fn expand<const LENGTH: usize>(file: &str, rules: &[Query]) -> [u8; LENGTH] {
    let bytes = file.as_bytes();
    let mut expanded = [0; LENGTH];
    let (mut at, mut end) = (0, 0);
    while at < bytes.len() {
        match rule_at(bytes, at, rules) {
            Some((name, text)) => {
                end = append(&mut expanded, end, "/* ");
                end = append(&mut expanded, end, name);
                end = append(&mut expanded, end, " */ (");
                end = append(&mut expanded, end, condition(text));
                end = append(&mut expanded, end, ")");
                at += "{}".len() + name.len();
            }
            None => {
                expanded[end] = bytes[at];
                end += 1;
                at += 1;
            }
        }
    }
    expanded
}

const fn append(to: &mut [u8], mut end: usize, text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        to[end] = bytes[at];
        end += 1;
        at += 1;
    }
    end
}

/// Returns the rule that `{name}` at this place stands for.
const fn rule_at(bytes: &[u8], at: usize, rules: &[Query]) -> Option<Query> {
    if bytes[at] != b'{' {
        return None;
    }
    let mut rule = 0;
    while rule < rules.len() {
        let name = rules[rule].0.as_bytes();
        let mut offset = 0;
        while offset < name.len()
            && at + 1 + offset < bytes.len()
            && bytes[at + 1 + offset] == name[offset]
        {
            offset += 1;
        }
        if offset == name.len() && at + 1 + offset < bytes.len() && bytes[at + 1 + offset] == b'}' {
            return Some(rules[rule]);
        }
        rule += 1;
    }
    None
}

/// Returns a rule without the comment lines above its condition.
pub(crate) const fn condition(text: &str) -> &str {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at + 1 < bytes.len() && bytes[at] == b'-' && bytes[at + 1] == b'-' {
        at = next_line(bytes, at);
    }
    text.split_at(at).1
}

/// The text of a file with its rules expanded, as a constant.
macro_rules! expanded {
    ($file:expr, $rules:expr) => {{
        const LENGTH: usize = $crate::store::queries::expanded_length($file, $rules);
        const BYTES: [u8; LENGTH] = $crate::store::queries::expand($file, $rules);
        match std::str::from_utf8(&BYTES) {
            Ok(text) => text,
            Err(_) => panic!("a rule was inserted inside a character"),
        }
    }};
}
pub(crate) use expanded;

/// Declares the query files of a store, in the folder `queries` beside the calling file, and the rules that they use.
macro_rules! query_files {
    ($rules:expr; $($file:literal),* $(,)?) => {
        pub(crate) const FILES: &[&[$crate::store::queries::Query]] = &[$({
            const FILE: &str = $crate::store::queries::expanded!(
                include_str!(concat!("queries/", $file, ".sql")),
                $rules
            );
            const QUERIES: [$crate::store::queries::Query; $crate::store::queries::count(FILE)] =
                $crate::store::queries::parse(FILE);
            &QUERIES
        }),*];
    };
}
pub(crate) use query_files;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;

    const FILE: &str =
        "-- name: first\n-- Purpose: one.\nselect 1\n\n-- name: second\nselect 2\nfrom two\n";

    #[test]
    fn a_file_is_cut_at_its_name_lines() {
        const QUERIES: [Query; count(FILE)] = parse(FILE);
        assert_eq!(
            QUERIES,
            [
                ("first", "-- Purpose: one.\nselect 1"),
                ("second", "select 2\nfrom two")
            ]
        );
        assert_eq!(find(&[&[], &QUERIES], "second"), "select 2\nfrom two");
    }

    #[test]
    #[should_panic(expected = "no query file has a query of this name")]
    fn an_unknown_name_fails() {
        let queries: [Query; 2] = parse(FILE);
        find(&[&queries], "secon");
    }

    #[test]
    fn a_rule_is_inserted_without_its_comment() {
        const RULES: &[Query] = &[("is_old", "-- Parameters: :now.\n-- More.\nage > :now")];
        const TEXT: &str = expanded!("select {is_old} from {table} where {is_older}", RULES);
        assert_eq!(
            TEXT,
            "select /* is_old */ (age > :now) from {table} where {is_older}"
        );
    }

    #[cfg(feature = "postgres")]
    #[test]
    fn postgres_queries_have_one_name_each_and_are_used() {
        check(crate::store::postgres::queries::FILES, "postgres");
    }

    #[cfg(feature = "sqlite")]
    #[test]
    fn sqlite_queries_have_one_name_each_and_are_used() {
        let files = crate::store::sqlite::queries::FILES;
        check(files, "sqlite");
        for (rule, _) in crate::store::sqlite::queries::RULES {
            let mark = format!("/* {rule} */");
            let mut queries = files.iter().copied().flatten();
            assert!(
                queries.any(|(_, text)| text.contains(&mark)),
                "no query uses rule {rule}"
            );
        }
        // The names of an adopted table are filled in at run time.
        let is_name = |text: &str| {
            ["table}", "id}", "user}"]
                .iter()
                .any(|name| text.starts_with(name))
        };
        let queries = files.iter().copied().flatten();
        // Those of an outbox table have the names of all its columns; `outbox_table.rs` fills them in.
        for (name, text) in queries.filter(|(name, _)| !name.starts_with("outbox_table_")) {
            let unknown = text.split('{').skip(1).find(|text| !is_name(text));
            assert_eq!(unknown, None, "query {name} uses an unknown rule");
        }
    }

    fn check(files: &[&[Query]], store: &str) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/store");
        let mut code = fs::read_to_string(folder.join(format!("{store}.rs"))).unwrap();
        add_sources(&folder.join(store), &mut code);
        let mut names = BTreeSet::new();
        for (name, text) in files.iter().copied().flatten() {
            assert!(names.insert(name), "two queries are named {name}");
            assert!(
                code.contains(&format!("query!({name})")),
                "query {name} is not used"
            );
            assert!(text.starts_with("-- "), "query {name} has no comment");
        }
    }

    fn add_sources(folder: &Path, code: &mut String) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                add_sources(&path, code);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                code.push_str(&fs::read_to_string(path).unwrap());
            }
        }
    }
}
