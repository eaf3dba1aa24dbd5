//! Named queries: in a `.sql` file, a line `-- name: lock_acquire` begins the query `lock_acquire`, as in river and sqlc.
//!
//! The files are read at compile time. `query!(lock_acquire)` is the text of that query as a constant, without the name
//! line; an unknown name is a compile error. Each store has its own list of files (`postgres/queries.rs`,
//! `sqlite/queries.rs`) and its own `query!`.

/// Name and text.
pub(crate) type Query = (&'static str, &'static str);

/// How a line begins that names the query below it.
const NAME_LINE: &[u8] = b"-- name: ";

/// Returns the number of queries of a file.
pub(crate) const fn count(file: &str) -> usize {
    let bytes = file.as_bytes();
    let (mut queries, mut at) = (0, 0);
    while at < bytes.len() {
        if names_query(bytes, at) {
            queries += 1;
        }
        at = next_line(bytes, at);
    }
    queries
}

/// Returns the queries of a file, in its order. The file must begin with a name line.
pub(crate) const fn parse<const COUNT: usize>(file: &'static str) -> [Query; COUNT] {
    let bytes = file.as_bytes();
    assert!(
        names_query(bytes, 0),
        "a query file begins with `-- name: …`"
    );
    let mut queries = [("", ""); COUNT];
    let (mut found, mut at) = (0, 0);
    while at < bytes.len() {
        let text = next_line(bytes, at);
        let name = slice(file, at + NAME_LINE.len(), text);
        at = text;
        while at < bytes.len() && !names_query(bytes, at) {
            at = next_line(bytes, at);
        }
        queries[found] = (name, slice(file, text, at));
        found += 1;
    }
    queries
}

/// Returns the text of a query; compilation fails if there is none of this name.
pub(crate) const fn find(files: &[&[Query]], name: &str) -> &'static str {
    let mut file = 0;
    while file < files.len() {
        let mut query = 0;
        while query < files[file].len() {
            let (found, text) = files[file][query];
            if is_same(found, name) {
                return text;
            }
            query += 1;
        }
        file += 1;
    }
    panic!("no query file has a query of this name")
}

const fn names_query(bytes: &[u8], at: usize) -> bool {
    let mut offset = 0;
    while offset < NAME_LINE.len() {
        if at + offset >= bytes.len() || bytes[at + offset] != NAME_LINE[offset] {
            return false;
        }
        offset += 1;
    }
    true
}

const fn next_line(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() && bytes[at] != b'\n' {
        at += 1;
    }
    at + 1
}

/// Returns a part of a file without the whitespace at its end.
const fn slice(file: &'static str, from: usize, to: usize) -> &'static str {
    let to = if to < file.len() { to } else { file.len() };
    file.split_at(to).0.split_at(from).1.trim_ascii_end()
}

const fn is_same(left: &str, right: &str) -> bool {
    let (left, right) = (left.as_bytes(), right.as_bytes());
    let mut at = 0;
    while at < left.len() && at < right.len() {
        if left[at] != right[at] {
            return false;
        }
        at += 1;
    }
    left.len() == right.len()
}

/// Declares the query files of a store, in the folder `queries` beside the calling file.
macro_rules! query_files {
    ($($file:literal),* $(,)?) => {
        pub(crate) const FILES: &[&[$crate::store::queries::Query]] = &[$({
            const FILE: &str = include_str!(concat!("queries/", $file, ".sql"));
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

    #[cfg(feature = "postgres")]
    #[test]
    fn postgres_queries_have_one_name_each_and_are_used() {
        check(crate::store::postgres::queries::FILES, "postgres");
    }

    #[cfg(feature = "sqlite")]
    #[test]
    fn sqlite_queries_have_one_name_each_and_are_used() {
        check(crate::store::sqlite::queries::FILES, "sqlite");
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
