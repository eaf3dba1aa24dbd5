//! The layers of `turno-server`: a module imports from its own layer or from lower ones, and not from its parent.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Top-level modules, from the lowest layer to the highest. `lib` is the root of the crate.
const LAYERS: &[&str] = &[
    "http",
    "readiness",
    "setting",
    "auth",
    "overview",
    "metrics",
    "stream",
    "options",
    "app",
    "routes",
    "background",
    "server",
    "gate",
    "lib",
];
/// Maximum number of upward imports. Today: the middleware needs the state of the server, and the route of the API description
/// needs the list of routes, which contains that route.
const MAX_UPWARD_IMPORTS: usize = 2;

/// Path of a module or an item inside the crate.
type ModulePath = Vec<String>;

#[test]
fn the_server_has_few_upward_imports() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .join("crates/turno-server/src");
    let mut files = Vec::new();
    collect(&source, &mut Vec::new(), &mut files);
    let modules: Vec<ModulePath> = files.iter().map(|(module, _)| module.clone()).collect();
    assert!(modules.len() > 40, "only {} modules found", modules.len());
    let mut imported = BTreeSet::new();
    for (module, text) in &files {
        for name in imports(module, text) {
            imported.insert((module.clone(), target(&name, &modules)));
        }
    }
    assert!(
        imported.len() > 100,
        "only {} imports found",
        imported.len()
    );
    let is_up = |(module, target): &&(ModulePath, ModulePath)| is_upward(module, target);
    let upward: Vec<String> = imported
        .iter()
        .filter(is_up)
        .map(|(module, target)| format!("{} imports {}", module.join("::"), target.join("::")))
        .collect();
    println!("{} of {} imports run upward", upward.len(), imported.len());
    assert!(
        upward.len() <= MAX_UPWARD_IMPORTS,
        "more than {MAX_UPWARD_IMPORTS} upward imports. Move the imported type to the lower module:\n{}",
        upward.join("\n")
    );
}

#[test]
fn upward_imports_are_found() {
    let path = |path: &str| -> ModulePath { path.split("::").map(str::to_owned).collect() };
    let modules = [
        "http",
        "http::tls",
        "auth",
        "auth::caller",
        "routes",
        "routes::locks",
    ]
    .map(path);
    let upward = |module: &str, text: &str| -> Vec<bool> {
        let module = path(module);
        let names = imports(&module, text);
        let targets = names.iter().map(|name| target(name, &modules));
        targets.map(|target| is_upward(&module, &target)).collect()
    };
    for (module, text) in [
        ("http::tls", "use crate::auth::caller::Caller;"),
        ("http::tls", "use super::super::routes::all;"),
        ("routes::locks", "use super::all;"),
        ("routes::locks", "pub(crate) use crate::routes::all;"),
        ("auth::caller", "use crate::Server;"),
    ] {
        assert_eq!(upward(module, text), [true], "{module}: {text}");
    }
    for (module, text) in [
        ("auth::caller", "use crate::http::tls::Tls;"),
        ("auth::caller", "use super::caller::Caller;"),
        ("routes", "use self::locks::routes;"),
    ] {
        assert_eq!(upward(module, text), [false], "{module}: {text}");
    }
    let list = "use std::fmt;\nuse super::{\n    tls,\n    Options as O,\n};\nfn main() {}\n";
    assert_eq!(upward("http::tls", list), [false, true]);
    let tests = "#[cfg(test)]\nmod tests {\n    use super::*;\n}\n";
    assert!(upward("auth::caller", tests).is_empty());
}

/// Collects the modules of a folder with their texts, apart from tests.
fn collect(folder: &Path, module: &mut ModulePath, files: &mut Vec<(ModulePath, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        module.push(path.file_stem().unwrap().to_str().unwrap().to_owned());
        if path.is_dir() {
            collect(&path, module, files);
        } else if !path.ends_with("tests.rs") {
            files.push((module.clone(), fs::read_to_string(&path).unwrap()));
        }
        module.pop();
    }
}

/// Returns the names that a module imports from its own crate, as absolute paths.
fn imports(module: &[String], text: &str) -> Vec<ModulePath> {
    let product = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let mut names = Vec::new();
    let mut rest = product;
    while let Some((start, keyword)) = next_use(rest) {
        let statement = &rest[start + keyword.len()..];
        let (statement, after) = statement.split_once(';').unwrap();
        rest = after;
        let statement: String = statement.split_whitespace().collect::<Vec<_>>().join(" ");
        let (head, list) = match statement.split_once("::{") {
            Some((head, list)) => (head, list.trim_end_matches(['}', ',', ' '])),
            None => match statement.rsplit_once("::") {
                Some(both) => both,
                None => continue,
            },
        };
        let Some(head) = absolute(module, head) else {
            continue;
        };
        for name in list.split(',').map(str::trim) {
            let name = name.split(' ').next().unwrap_or_default();
            names.push(head.iter().cloned().chain([name.to_owned()]).collect());
        }
    }
    names
}

/// Returns the place of the next `use` at the beginning of a line, and its keywords.
fn next_use(text: &str) -> Option<(usize, &'static str)> {
    let keywords = ["use ", "pub use ", "pub(crate) use ", "pub(super) use "];
    let mut line_start = 0;
    for line in text.split_inclusive('\n') {
        if let Some(keyword) = keywords.iter().find(|keyword| line.starts_with(**keyword)) {
            return Some((line_start, keyword));
        }
        line_start += line.len();
    }
    None
}

/// Returns the absolute path of the head of an import; `None` for other crates.
fn absolute(module: &[String], head: &str) -> Option<ModulePath> {
    let mut parts = head.split("::").peekable();
    let mut path = module.to_vec();
    match *parts.peek()? {
        "crate" => path.clear(),
        "self" => {}
        "super" => {
            while parts.next_if_eq(&"super").is_some() {
                path.pop();
            }
            path.extend(parts.map(str::to_owned));
            return Some(path);
        }
        _ => return None,
    }
    path.extend(parts.skip(1).map(str::to_owned));
    Some(path)
}

/// Returns the module of an imported name: the name itself may be a module or an item.
fn target(name: &[String], modules: &[ModulePath]) -> ModulePath {
    if modules.iter().any(|module| module == name) {
        return name.to_vec();
    }
    name[..name.len() - 1].to_vec()
}

/// Whether an import comes from a higher layer, or from a module that contains the importing one.
fn is_upward(module: &[String], target: &[String]) -> bool {
    let layer = |path: &[String]| {
        let name = path.first().map_or("lib", String::as_str);
        let place = LAYERS.iter().position(|layer| *layer == name);
        place.unwrap_or_else(|| panic!("{name} is not in LAYERS"))
    };
    let is_ancestor = target.len() < module.len() && module.starts_with(target);
    is_ancestor || layer(target) > layer(module)
}
