//! Every block of README and guides is run, or marked as an excerpt.
//!
//! A page is executed from its beginning to its end, as a reader would do it: `sh`, `sql`, `toml` and programs are run, on a
//! private server and a private database, and a `text` block after one of them is its expected output. A block that is not
//! run is marked: `rust excerpt` after the fence, which readers do not see. Values in the pages that differ in each run (ids,
//! tokens, times) are replaced by the actual ones from there on.

#![allow(clippy::unwrap_used, reason = "a test ends where its expectation does")]

#[macro_use]
#[path = "../common/mod.rs"]
mod common;

#[path = "../serve_command/http.rs"]
mod http;

mod block;
mod faults;
mod hostssl;
mod known;
mod page;
mod program;
mod scheduled;
mod shell;
mod sql;
mod two_phase;

use std::fs;
use std::path::{Path, PathBuf};

use block::BlockKind;

/// Defines a test per page that has something to run.
macro_rules! pages {
    ($($name:ident: $path:literal),+ $(,)?) => {
        const PAGES: &[&str] = &[$($path),+];
        $(#[test] fn $name() {
            page::follow(include_str!(concat!("../../../../", $path)));
        })+
    };
}

pages! {
    readme: "README.md",
    adopt: "docs/adopt.md",
    command_line: "docs/command-line.md",
    from_csharp: "docs/from-csharp.md",
    from_java: "docs/from-java.md",
    from_python: "docs/from-python.md",
    from_sql: "docs/from-sql.md",
    from_typescript: "docs/from-typescript.md",
    gate: "docs/gate.md",
    inbox: "docs/inbox.md",
    locks: "docs/locks.md",
    once: "docs/once.md",
    once_identity: "docs/once-identity.md",
    operating: "docs/operating.md",
    outbox: "docs/outbox.md",
    scaling: "docs/scaling.md",
    serve: "docs/serve.md",
    start: "docs/start.md",
    stream: "docs/stream.md",
    supabase: "docs/supabase.md",
}

/// Returns README and all guides. Decision records have nothing to run.
fn all() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let entries = fs::read_dir(root.join("docs")).unwrap();
    let names = entries.map(|entry| PathBuf::from("docs").join(entry.unwrap().file_name()));
    let mut pages: Vec<String> = names
        .map(|path| path.to_str().unwrap().to_owned())
        .filter(|path| path.ends_with(".md"))
        .collect();
    pages.push("README.md".to_owned());
    pages.sort();
    pages
}

#[test]
fn every_block_is_run_or_marked_and_every_page_with_one_to_run_is_followed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut wrong = Vec::new();
    for path in all() {
        let text = fs::read_to_string(root.join(&path)).unwrap();
        match block::blocks(&text) {
            Err(error) => wrong.push(format!("{path}, {error}")),
            Ok(blocks) => {
                let runs = blocks
                    .iter()
                    .any(|block| matches!(block.kind, BlockKind::Run(_)));
                if runs != PAGES.contains(&path.as_str()) {
                    wrong.push(format!(
                        "{path}: is it in `pages!`, and is anything run there?"
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Readers have the examples, but not the documents that these are based on: pages name the system or its contract.
#[test]
fn no_page_refers_to_documents_that_readers_do_not_have() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = all();
    for example in fs::read_dir(root.join("examples")).unwrap() {
        let readme = example.unwrap().path().join("README.md");
        if readme.exists() {
            pages.push(readme.to_str().unwrap().to_owned());
        }
    }
    assert!(pages.len() > 20, "{pages:?}");
    for page in pages {
        let text = fs::read_to_string(root.join(&page)).unwrap();
        assert!(!text.to_lowercase().contains("seed 0"), "{page}");
    }
}

/// Links within the repository have existing targets.
#[test]
fn every_link_leads_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut lost = Vec::new();
    for path in all() {
        let page = root.join(&path);
        let text = fs::read_to_string(&page).unwrap();
        for link in text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next())
        {
            let file = link.split('#').next().unwrap();
            let is_elsewhere = link.contains("://") || file.is_empty() || link.contains(' ');
            if !is_elsewhere && !page.parent().unwrap().join(file).exists() {
                lost.push(format!("{path}: {link}"));
            }
        }
    }
    assert!(lost.is_empty(), "{lost:#?}");
}

/// Metrics for which the guide recommends an alert exist.
#[test]
fn what_is_alerted_on_is_counted() {
    let counted = include_str!("../../../../docs/metrics.md");
    let text = include_str!("../../../../docs/operating.md");
    let is_other = |letter: char| !(letter.is_ascii_lowercase() || letter == '_');
    let names = text
        .split('`')
        .map(|code| code.split(is_other).next().unwrap_or(""));
    let names: Vec<&str> = names.filter(|name| name.starts_with("turno_")).collect();
    assert!(names.len() > 8, "{names:?}");
    for name in names {
        let is_role = ["turno_app", "turno_operator"].contains(&name);
        let is_channel =
            ["turno_lock", "turno_inbox", "turno_once", "turno_setting"].contains(&name);
        let known = is_role || is_channel || counted.contains(&format!("| `{name}` |"));
        assert!(known, "{name} is not in docs/metrics.md");
    }
}
