//! Supply chain: licences, known vulnerabilities, sources and duplicate versions of all dependencies, with the rules of
//! `deny.toml`, and the minimum Rust version.
//!
//! `cargo deny` does most of this and reads the same file. It is not installed for the tests: the release on PyPI (0.14.2)
//! cannot read the output of current Cargo versions, and compiling it takes many minutes on two cores. If it is installed, it
//! runs too.

mod advisory;
mod licence;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use semver::{Version, VersionReq};
use serde::Deserialize;

pub use advisory::update;

use crate::steps::{cargo, cargo_program};

const RULES: &str = "deny.toml";
/// The oldest `cargo deny` that supports the keys of [`RULES`].
const OLDEST_CARGO_DENY: Version = Version::new(0, 18, 0);
/// Suffix of the source of a package from the public registry.
const PUBLIC_REGISTRY: &str = "/crates.io-index";

/// A package, from `cargo metadata`.
#[derive(Debug, Clone, Deserialize)]
struct Package {
    name: String,
    version: Version,
    license: Option<String>,
    rust_version: Option<String>,
    /// `None` for packages of the workspace.
    source: Option<String>,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Debug, Default, Deserialize)]
struct Rules {
    advisories: Advisories,
    licenses: Licences,
    bans: Bans,
}

#[derive(Debug, Default, Deserialize)]
struct Advisories {
    ignore: Vec<IgnoredAdvisory>,
}

#[derive(Debug, Deserialize)]
struct IgnoredAdvisory {
    id: String,
}

#[derive(Debug, Default, Deserialize)]
struct Licences {
    allow: BTreeSet<String>,
}

#[derive(Debug, Default, Deserialize)]
struct Bans {
    skip: Vec<SkippedVersion>,
}

/// A version that is allowed beside another one of the same package.
#[derive(Debug, Clone, Deserialize)]
struct SkippedVersion {
    #[serde(rename = "crate")]
    package: String,
    reason: String,
}

/// Checks all rules. The error lists all violations.
pub fn check() -> Result<()> {
    let packages = packages()?;
    let text = fs::read_to_string(RULES).with_context(|| format!("could not read {RULES}"))?;
    let rules: Rules = toml::from_str(&text).with_context(|| format!("{RULES} is not valid"))?;
    let snapshot = advisory::Snapshot::read()?;
    let mut wrong = licences(&packages, &rules.licenses);
    wrong.extend(sources(&packages));
    wrong.extend(duplicates(&packages, &rules.bans.skip));
    wrong.extend(snapshot.open(&packages, &rules.advisories.ignore)?);
    wrong.extend(too_new(&packages, &minimum_rust()?)?);
    ensure!(
        wrong.is_empty(),
        "these dependencies break a rule:\n  {}",
        wrong.join("\n  ")
    );
    println!(
        "{} packages, {} duplicate versions with a reason, advisories of {}",
        packages.len(),
        rules.bans.skip.len(),
        snapshot.date
    );
    snapshot.name_unknown(&packages);
    cargo_deny()?;
    oldest_toolchain()
}

fn packages() -> Result<Vec<Package>> {
    let arguments = [
        "metadata",
        "--locked",
        "--all-features",
        "--format-version=1",
    ];
    let output = Command::new(cargo_program())
        .args(arguments)
        .stderr(Stdio::inherit())
        .output()
        .context("could not start cargo")?;
    ensure!(
        output.status.success(),
        "`cargo {}` ended with {}",
        arguments.join(" "),
        output.status
    );
    let metadata: Metadata = serde_json::from_slice(&output.stdout)?;
    Ok(metadata.packages)
}

fn licences(packages: &[Package], rules: &Licences) -> Vec<String> {
    let refused = |package: &Package| {
        let name = format!("{} {}", package.name, package.version);
        match package.license.as_deref() {
            None => Some(format!("{name} names no licence")),
            Some(text) => match licence::is_allowed(text, &rules.allow) {
                Ok(true) => None,
                Ok(false) => Some(format!(
                    "{name} has the licence {text}, which {RULES} does not allow"
                )),
                Err(error) => Some(format!("{name} has the licence {text}: {error}")),
            },
        }
    };
    packages.iter().filter_map(refused).collect()
}

fn sources(packages: &[Package]) -> Vec<String> {
    packages
        .iter()
        .filter_map(|package| {
            let source = package.source.as_deref()?;
            let is_public = source.starts_with("registry+") && source.ends_with(PUBLIC_REGISTRY);
            (!is_public).then(|| format!("{} comes from {source}", package.name))
        })
        .collect()
}

/// Returns duplicate versions without a reason, and reasons that are not needed any more.
fn duplicates(packages: &[Package], skipped: &[SkippedVersion]) -> Vec<String> {
    let mut versions: BTreeMap<&str, BTreeSet<&Version>> = BTreeMap::new();
    for package in packages {
        versions
            .entry(&package.name)
            .or_default()
            .insert(&package.version);
    }
    versions.retain(|_, versions| versions.len() > 1);
    let mut wrong = Vec::new();
    for skip in skipped {
        let found = skip.package.split_once('@').and_then(|(name, version)| {
            let versions = versions.get_mut(name)?;
            let exact = VersionReq::parse(&format!("={version}")).ok()?;
            let matching = versions
                .iter()
                .copied()
                .find(|found| exact.matches(found))?;
            Some(versions.remove(matching))
        });
        if found != Some(true) {
            wrong.push(format!(
                "{RULES} gives a reason for {}, of which there is no other version: remove it",
                skip.package
            ));
        }
        if skip.reason.trim().is_empty() {
            wrong.push(format!("{RULES} gives no reason for {}", skip.package));
        }
    }
    for (name, versions) in versions {
        if versions.len() > 1 {
            let all: Vec<String> = versions.iter().map(ToString::to_string).collect();
            wrong.push(format!(
                "{name} is there as {}: use one of them, or add the others to `skip` of {RULES} with a reason",
                all.join(" and ")
            ));
        }
    }
    wrong
}

/// Returns the workspace's `rust-version`.
fn minimum_rust() -> Result<Version> {
    #[derive(Deserialize)]
    struct Manifest {
        workspace: Workspace,
    }
    #[derive(Deserialize)]
    struct Workspace {
        package: Inherited,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "kebab-case")]
    struct Inherited {
        rust_version: String,
    }
    let manifest: Manifest = toml::from_str(&fs::read_to_string("Cargo.toml")?)?;
    rust_version(&manifest.workspace.package.rust_version)
}

/// Parses a version; 1.94 and 1.94.0 are the same.
fn rust_version(text: &str) -> Result<Version> {
    let full = match text.matches('.').count() {
        1 => format!("{text}.0"),
        _ => text.to_owned(),
    };
    Version::parse(&full).with_context(|| format!("{text} is no version of Rust"))
}

fn too_new(packages: &[Package], minimum: &Version) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    for package in packages {
        let Some(needed) = &package.rust_version else {
            if package.source.is_none() {
                wrong.push(format!("{} names no rust-version", package.name));
            }
            continue;
        };
        if rust_version(needed)? > *minimum {
            wrong.push(format!(
                "{} {} needs Rust {needed}, and the workspace promises {minimum}",
                package.name, package.version
            ));
        }
    }
    Ok(wrong)
}

/// Runs the real `cargo deny`, with the database of advisories if it is reachable.
fn cargo_deny() -> Result<()> {
    let Some(version) = cargo_deny_version() else {
        println!("cargo deny is not installed: it is optional");
        return Ok(());
    };
    if version < OLDEST_CARGO_DENY {
        println!("cargo deny {version} is older than {OLDEST_CARGO_DENY}, and is not used");
        return Ok(());
    }
    cargo(&["deny", "--locked", "check", "bans", "licenses", "sources"])?;
    if cargo(&["deny", "--locked", "fetch", "db"]).is_ok() {
        cargo(&["deny", "--locked", "check", "--disable-fetch", "advisories"])?;
    }
    Ok(())
}

fn cargo_deny_version() -> Option<Version> {
    let output = Command::new(cargo_program())
        .args(["deny", "--version"])
        .stderr(Stdio::null())
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    Version::parse(text.split_whitespace().last()?).ok()
}

/// Compiles the workspace with the minimum Rust version, if it is installed. If not, clippy's `incompatible_msrv` finds uses
/// of a newer standard library.
fn oldest_toolchain() -> Result<()> {
    let minimum = minimum_rust()?;
    let short = format!("{}.{}", minimum.major, minimum.minor);
    let listed = Command::new("rustup")
        .args(["toolchain", "list"])
        .stderr(Stdio::null())
        .output();
    let names = listed.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let names = names.unwrap_or_default();
    let Some(toolchain) = toolchain(&names, &short) else {
        println!("Rust {short} is not installed: clippy alone checks for newer functions");
        return Ok(());
    };
    let status = Command::new("rustup")
        .args(["run", toolchain, "cargo", "check", "--locked"])
        .args(["--workspace", "--all-features", "--all-targets"])
        .env_remove("RUSTC")
        .env_remove("CARGO")
        .status()
        .context("could not start rustup")?;
    if !status.success() {
        bail!("the workspace does not compile with Rust {short}, which Cargo.toml promises");
    }
    Ok(())
}

/// Returns the toolchain of one minor version from a list.
fn toolchain<'a>(names: &'a str, short: &str) -> Option<&'a str> {
    names
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .find(|name| {
            name.strip_prefix(short)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '-']))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, version: &str) -> Package {
        Package {
            name: name.into(),
            version: Version::parse(version).unwrap(),
            license: Some("MIT".into()),
            rust_version: Some("1.60".into()),
            source: Some("registry+https://example.com/crates.io-index".into()),
        }
    }

    fn skip(package: &str, reason: &str) -> SkippedVersion {
        SkippedVersion {
            package: package.into(),
            reason: reason.into(),
        }
    }

    #[test]
    fn a_second_version_needs_a_reason() {
        let two = [
            package("a", "1.0.0"),
            package("a", "2.0.0"),
            package("b", "1.0.0"),
        ];
        assert_eq!(duplicates(&two, &[]).len(), 1);
        assert_eq!(duplicates(&two, &[skip("a@1.0.0", "old")]), [""; 0]);
        assert_eq!(duplicates(&two, &[skip("a@1.0.0", " ")]).len(), 1);
        // Unneeded reasons are found: a version that does not exist, and a package with one version.
        let unused = [
            skip("a@1.0.0", "old"),
            skip("a@3.0.0", "x"),
            skip("b@1.0.0", "x"),
        ];
        assert_eq!(duplicates(&two, &unused).len(), 2);
        assert_eq!(duplicates(&two[..1], &[]), [""; 0]);
    }

    #[test]
    fn licences_and_sources_are_those_that_are_allowed() {
        let rules = Licences {
            allow: ["MIT".to_owned()].into(),
        };
        let mut packages = [package("a", "1.0.0")];
        assert_eq!(licences(&packages, &rules), [""; 0]);
        assert_eq!(sources(&packages), [""; 0]);
        packages[0].license = Some("GPL-3.0".into());
        packages[0].source = Some("git+https://example.com/a".into());
        assert_eq!(licences(&packages, &rules).len(), 1);
        assert_eq!(sources(&packages).len(), 1);
        packages[0].license = None;
        assert_eq!(licences(&packages, &rules).len(), 1);
    }

    #[test]
    fn no_dependency_needs_a_newer_rust() {
        let mut packages = [package("a", "1.0.0")];
        for (needs, minimum, is_wrong) in [
            ("1.94", "1.94.0", false),
            ("1.94.0", "1.94.0", false),
            ("1.94.1", "1.94.0", true),
            ("1.95", "1.94.0", true),
        ] {
            packages[0].rust_version = Some(needs.into());
            let wrong = too_new(&packages, &Version::parse(minimum).unwrap()).unwrap();
            assert_eq!(wrong.len(), usize::from(is_wrong), "{needs}");
        }
    }

    #[test]
    fn the_oldest_toolchain_is_found_by_its_minor_version() {
        let names = "stable-x86_64-unknown-linux-gnu (default)\n1.95.0-x86_64-unknown-linux-gnu\n1.94.1-x86_64-unknown-linux-gnu\n";
        assert_eq!(
            toolchain(names, "1.94"),
            Some("1.94.1-x86_64-unknown-linux-gnu")
        );
        assert_eq!(toolchain(names, "1.9"), None);
        assert_eq!(toolchain(names, "1.93"), None);
    }
}
