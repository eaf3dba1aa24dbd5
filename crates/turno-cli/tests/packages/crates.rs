//! Metadata that crates.io requires. `cargo publish --workspace --dry-run` also builds the crates, and takes minutes.

use std::fs;

use toml::{Table, Value};

use crate::{path, read};

const PUBLISHED: [&str; 5] = [
    "turno-api",
    "turno",
    "turno-client",
    "turno-server",
    "turno-cli",
];

fn manifest(name: &str) -> Table {
    read(name).parse().unwrap()
}

/// Returns a field of the package, its own or the workspace's.
fn field(package: &Table, workspace: &Table, name: &str) -> Value {
    let own = package.get(name);
    let own = own.unwrap_or_else(|| panic!("{} has no {name}", package["name"]));
    match own.get("workspace") {
        Some(_) => workspace["package"][name].clone(),
        None => own.clone(),
    }
}

#[test]
fn crates_say_what_a_registry_asks() {
    let root = manifest("Cargo.toml");
    let workspace = root["workspace"].as_table().unwrap();
    for name in PUBLISHED {
        let crate_manifest = manifest(&format!("crates/{name}/Cargo.toml"));
        let package = crate_manifest["package"].as_table().unwrap();
        let text = |key| field(package, workspace, key).as_str().unwrap().to_owned();
        assert_eq!(text("name"), name);
        for key in ["description", "repository", "documentation", "version"] {
            assert!(!text(key).is_empty(), "{name}: {key}");
        }
        assert_eq!(text("license"), "MIT OR Apache-2.0");
        path(&format!("crates/{name}/{}", text("readme")));
        for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
            let own = read(&format!("crates/{name}/{licence}"));
            assert_eq!(own, read(licence), "{name}");
        }
        let keywords = field(package, workspace, "keywords");
        let keywords = keywords.as_array().unwrap();
        let is_short = |word: &Value| word.as_str().unwrap().len() <= 20;
        assert!(keywords.len() <= 5 && keywords.iter().all(is_short));
        let categories = field(package, workspace, "categories");
        assert!((1..=5).contains(&categories.as_array().unwrap().len()));
    }
}

/// A published crate depends only on crates that are published before it; unpublished crates are marked.
#[test]
fn no_crate_waits_for_one_that_comes_after_it() {
    let root = manifest("Cargo.toml");
    let shared = root["workspace"]["dependencies"].as_table().unwrap();
    // A dev-dependency without a version is omitted when a crate is published.
    let is_published_with = |name: &str, said: &Value| {
        let own = said.get("version");
        let from_all = said
            .get("workspace")
            .and_then(|_| shared[name].get("version"));
        said.is_str() || own.or(from_all).is_some()
    };
    for (position, name) in PUBLISHED.iter().enumerate() {
        let all = manifest(&format!("crates/{name}/Cargo.toml"));
        for kind in ["dependencies", "dev-dependencies"] {
            let said = all.get(kind).and_then(Value::as_table);
            for (other, said) in said.into_iter().flatten() {
                if !other.starts_with("turno") {
                    continue;
                }
                let is_before = PUBLISHED[..position].contains(&other.as_str());
                let is_kept = kind == "dependencies" || is_published_with(other, said);
                assert!(is_before || !is_kept, "{name} waits for {other}");
            }
        }
    }
    for folder in fs::read_dir(path("crates")).unwrap() {
        let folder = folder.unwrap().file_name().into_string().unwrap();
        let all = manifest(&format!("crates/{folder}/Cargo.toml"));
        let is_private = all["package"].get("publish") == Some(&Value::Boolean(false));
        assert_ne!(is_private, PUBLISHED.contains(&folder.as_str()), "{folder}");
    }
}
