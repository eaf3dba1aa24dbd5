//! The map of the examples (`examples/README.md`): document section, code, test.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::HashSet;
use std::fs;
use std::path::Path;

/// Whatever is called a test there exists: a map that is behind its land leads nowhere.
#[test]
fn every_test_on_the_map_exists() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .join("examples");
    let mut known = HashSet::new();
    collect(&examples, &mut known);
    let map = fs::read_to_string(examples.join("README.md")).unwrap();
    let mut looked_at = 0;
    for line in map.lines().filter(|line| line.starts_with('|')) {
        let columns: Vec<&str> = line.trim_matches('|').split(" | ").collect();
        let [_, _, tests] = columns[..] else { continue };
        for named in tests
            .split('`')
            .skip(1)
            .step_by(2)
            .filter(|word| is_test(word))
        {
            let last = named.rsplit("::").next().unwrap();
            let is_there =
                known.iter().any(
                    |name| match (last.strip_suffix('…'), last.strip_prefix('…')) {
                        (Some(beginning), _) => name.starts_with(beginning),
                        (_, Some(end)) => name.ends_with(end),
                        (None, None) => name == last,
                    },
                );
            assert!(is_there, "there is no test {named}: {line}");
            looked_at += 1;
        }
    }
    assert!(looked_at > 100, "the map is not read: {looked_at} tests");
}

/// Words that can only be a test's name, or a module's.
fn is_test(word: &str) -> bool {
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_:…".contains(c);
    word.contains('_') && word.chars().all(is_name)
}

/// All names below a folder, apart from those in comments: tests of both stores are made by macros.
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
