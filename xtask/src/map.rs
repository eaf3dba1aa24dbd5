//! Maps of the project: that of the examples (`examples/README.md`: document item, code, test, how) and the code map
//! (`ARCHITECTURE.md`: where, what).

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Documents on the map, each with the number of its headings. The documents are not in the repository, so the map repeats their
/// headings; the numbers here keep one from being dropped.
const DOCUMENTS: [(&str, &str, usize); 5] = [
    ("presentations", "000", 18),
    ("flowpay", "001", 33),
    ("notes", "002", 38),
    ("afore", "003", 23),
    ("ticketflow", "004", 40),
];
/// Rows that say "not" at most, in all documents.
const MAX_NOT: usize = 10;

/// One item of a document.
struct Item {
    document: &'static str,
    /// Number of its heading, and its own number under that heading, both from one.
    heading: usize,
    number: usize,
    tests: String,
    how: String,
    line: String,
}

/// The headings of each document, and the items of all of them.
struct Map {
    headings: Vec<(&'static str, Vec<String>)>,
    items: Vec<Item>,
}

fn read_map() -> Map {
    let text = fs::read_to_string(examples().join("README.md")).unwrap();
    let mut map = Map {
        headings: Vec::new(),
        items: Vec::new(),
    };
    for (name, document, _) in DOCUMENTS {
        let (_, section) = text
            .split_once(&format!("\n## {name}\n"))
            .unwrap_or_else(|| panic!("the map has no section {name}"));
        let section = section.split("\n## ").next().unwrap();
        let headings = section.lines().filter_map(|line| {
            let (number, heading) = line.split_once(". ")?;
            number.parse::<usize>().ok()?;
            Some(heading.to_owned())
        });
        map.headings.push((document, headings.collect()));
        let rows = section.lines().filter(|line| line.starts_with('|'));
        // The first two are the header and the line below it.
        map.items
            .extend(rows.skip(2).map(|line| item(document, line)));
    }
    map
}

fn item(document: &'static str, line: &str) -> Item {
    let columns: Vec<&str> = line.trim_matches('|').split(" | ").collect();
    let [what, _code, tests, how] = columns[..] else {
        panic!("not four columns: {line}");
    };
    let number = what.split_whitespace().next().unwrap();
    let numbers: Vec<&str> = number.split('.').collect();
    let [its, heading, number] = numbers[..] else {
        panic!("not document.heading.item: {line}");
    };
    assert_eq!(its, document, "{line}");
    Item {
        document,
        heading: heading.parse().unwrap(),
        number: number.parse().unwrap(),
        tests: tests.to_owned(),
        how: how.trim().to_owned(),
        line: line.to_owned(),
    }
}

/// Each heading of a document has a row, and the items under it are numbered from one.
#[test]
fn every_heading_has_a_row() {
    let map = read_map();
    for ((name, document, count), (_, headings)) in DOCUMENTS.iter().zip(&map.headings) {
        assert_eq!(headings.len(), *count, "headings of {name}");
        for (number, heading) in (1..).zip(headings) {
            let of_it = map
                .items
                .iter()
                .filter(|item| item.document == *document && item.heading == number);
            let numbers: Vec<usize> = of_it.map(|item| item.number).collect();
            assert!(
                !numbers.is_empty(),
                "{name}: no row for {number}. {heading}"
            );
            let expected: Vec<usize> = (1..=numbers.len()).collect();
            assert_eq!(numbers, expected, "{name}: items of {number}. {heading}");
        }
        for item in map.items.iter().filter(|item| item.document == *document) {
            assert!(item.heading <= *count, "no such heading: {}", item.line);
        }
    }
}

/// Each row names a test that exists, unless the item is not done.
#[test]
fn every_test_on_the_map_exists() {
    let mut known = HashSet::new();
    collect(&examples(), &mut known);
    collect(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
        &mut known,
    );
    for item in read_map().items {
        let words = item.tests.split('`').skip(1).step_by(2);
        let named: Vec<&str> = words.filter(|word| is_test(word)).collect();
        assert!(
            !named.is_empty() || item.how.starts_with("not, because"),
            "no test: {}",
            item.line
        );
        for test in named {
            let last = test.rsplit("::").next().unwrap();
            assert!(
                known.contains(last),
                "there is no test {test}: {}",
                item.line
            );
        }
    }
}

/// Each row says how its item is done, and few are not done.
#[test]
fn every_row_says_how_it_is_done() {
    let items = read_map().items;
    for item in &items {
        let known = ["as written", "better, because ", "not, because "];
        assert!(
            known.iter().any(|begin| item.how.starts_with(begin)),
            "how is it done? {}",
            item.line
        );
    }
    let not = items.iter().filter(|item| item.how.starts_with("not"));
    let not = not.count();
    assert!(not <= MAX_NOT, "{not} items are not done");
}

fn examples() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    root.join("examples")
}

/// Each file and folder that the code map names exists: some path of the project ends with it.
#[test]
fn every_path_in_the_architecture_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut paths = Vec::new();
    for folder in ["crates", "examples", "packaging", "xtask", "docs", "fuzz"] {
        collect_paths(&root.join(folder), &mut paths);
    }
    let text = fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let quoted = |line: &'static str| line.split('`').skip(1).step_by(2);
    let text: &'static str = text.leak();
    let named: Vec<&str> = text
        .lines()
        .flat_map(quoted)
        .filter(|w| is_path(w))
        .collect();
    assert!(
        named.len() > 100,
        "the code map is not read: {}",
        named.len()
    );
    for name in named {
        let end = format!("/{}", name.trim_start_matches("../").trim_end_matches('/'));
        let exists = match end.split_once('*') {
            Some((begin, _)) => paths.iter().any(|path| path.contains(begin)),
            None => paths.iter().any(|path| path.ends_with(&end)),
        };
        assert!(exists, "ARCHITECTURE.md names {name}, which does not exist");
    }
}

/// Returns whether a word can only be a file or a folder of the project.
fn is_path(word: &str) -> bool {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_-./*".contains(c);
    let is_file = [".rs", ".sql", ".js"].iter().any(|end| word.ends_with(end));
    !word.starts_with('.')
        && word.len() > 1
        && word.chars().all(is_name)
        && (is_file || word.ends_with('/'))
}

fn collect_paths(folder: &Path, paths: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        paths.push(path.to_str().unwrap().to_owned());
        if path.is_dir() && path.file_name().is_some_and(|name| name != "node_modules") {
            collect_paths(&path, paths);
        }
    }
}

/// Returns whether a word can only be the name of a test or a module.
fn is_test(word: &str) -> bool {
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_:".contains(c);
    word.contains('_') && word.chars().all(is_name)
}

/// Collects all names below a folder, apart from those in comments: macros generate the tests of both stores, so a test need not
/// be a function.
fn collect(folder: &Path, known: &mut HashSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, known);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let code = text
                .lines()
                .filter(|line| !line.trim_start().starts_with("//"));
            for word in code.flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_'))
            {
                known.insert(word.to_owned());
            }
        }
    }
}
