//! The parser of named queries. It depends on nothing else of the crate: the benchmarks compile this file too.

/// Name and text of a query.
pub(crate) type Query = (&'static str, &'static str);

/// Begin of a line that names the query below it.
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

pub(crate) const fn next_line(bytes: &[u8], mut at: usize) -> usize {
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
