//! Known vulnerabilities: a snapshot of the entries of the RustSec database for the packages of `Cargo.lock`.
//!
//! The database is a Git repository, which a build machine may not be able to reach. `cargo xtask advisories FOLDER` rewrites
//! the snapshot from a copy of it.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use semver::VersionReq;
use serde::Deserialize;

use super::{IgnoredAdvisory, Package};

const SNAPSHOT: &str = "xtask/advisories.toml";
const HEADER: &str = "\
# What the RustSec database said about the packages of Cargo.lock on this date: in which versions each advisory is fixed, or
# never applied. Written by `cargo xtask advisories FOLDER`, from a copy of the database.
";
/// Maximum length of a line in a list of names.
const LINE_LENGTH: usize = 120;

#[derive(Debug, Deserialize)]
pub struct Snapshot {
    pub date: String,
    /// All packages that were looked up, with or without advisories.
    packages: BTreeSet<String>,
    #[serde(default)]
    advisory: Vec<Advisory>,
}

#[derive(Debug, Deserialize)]
struct Advisory {
    id: String,
    package: String,
    /// Versions that are not affected.
    safe: Vec<String>,
}

impl Snapshot {
    pub fn read() -> Result<Self> {
        let text =
            fs::read_to_string(SNAPSHOT).with_context(|| format!("could not read {SNAPSHOT}"))?;
        toml::from_str(&text).with_context(|| format!("{SNAPSHOT} is not valid"))
    }

    /// Returns the advisories that apply to a version in use and are not ignored.
    pub fn open(&self, packages: &[Package], ignored: &[IgnoredAdvisory]) -> Result<Vec<String>> {
        let mut open = Vec::new();
        for advisory in &self.advisory {
            if ignored.iter().any(|ignored| ignored.id == advisory.id) {
                continue;
            }
            let safe: Vec<VersionReq> = advisory
                .safe
                .iter()
                .map(|text| VersionReq::parse(text))
                .collect::<Result<_, _>>()
                .with_context(|| format!("{} names a version that is none", advisory.id))?;
            for package in packages
                .iter()
                .filter(|found| found.name == advisory.package)
            {
                if !safe.iter().any(|safe| safe.matches(&package.version)) {
                    open.push(format!(
                        "{} {} has the vulnerability {}; safe versions: {}",
                        package.name,
                        package.version,
                        advisory.id,
                        advisory.safe.join("; ")
                    ));
                }
            }
        }
        Ok(open)
    }

    /// Prints the packages that are newer than the snapshot.
    pub fn name_unknown(&self, packages: &[Package]) {
        let unknown: BTreeSet<&str> = packages
            .iter()
            .filter(|package| package.source.is_some())
            .map(|package| package.name.as_str())
            .filter(|name| !self.packages.contains(*name))
            .collect();
        if !unknown.is_empty() {
            let names: Vec<&str> = unknown.into_iter().collect();
            println!(
                "not in the snapshot of advisories, update it with `cargo xtask advisories FOLDER`: {}",
                names.join(", ")
            );
        }
    }
}

/// Writes the snapshot from a copy of the database. `date` is the day of its last change.
pub fn update(folder: &Path, date: &str) -> Result<()> {
    let names: BTreeSet<String> = super::packages()?
        .into_iter()
        .filter(|package| package.source.is_some())
        .map(|package| package.name)
        .collect();
    let mut text = format!(
        "{HEADER}date = {date:?}\npackages = [\n{}]\n",
        lines(&names)
    );
    let mut count = 0;
    for name in &names {
        let Ok(entries) = fs::read_dir(folder.join("crates").join(name)) else {
            continue;
        };
        let mut files: Vec<_> = entries
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<Result<_, _>>()?;
        files.sort();
        for file in files {
            let said = fs::read_to_string(&file)?;
            let entry =
                entry(&said).with_context(|| format!("{} is not understood", file.display()))?;
            if let Some(entry) = entry {
                text.push_str(&entry);
                count += 1;
            }
        }
    }
    fs::write(SNAPSHOT, text).with_context(|| format!("could not write {SNAPSHOT}"))?;
    println!("{count} advisories about {} packages", names.len());
    Ok(())
}

fn lines(names: &BTreeSet<String>) -> String {
    let mut text = String::new();
    let mut line = String::from(" ");
    for name in names {
        let next = format!(" {name:?},");
        if line.len() + next.len() > LINE_LENGTH {
            text.push_str(&line);
            text.push('\n');
            line = String::from(" ");
        }
        line.push_str(&next);
    }
    text.push_str(&line);
    text.push('\n');
    text
}

/// Returns an entry of the snapshot, from the header of an advisory; `None` if it was withdrawn.
fn entry(said: &str) -> Result<Option<String>> {
    #[derive(Deserialize)]
    struct Head {
        advisory: About,
        versions: Versions,
    }
    #[derive(Deserialize)]
    struct About {
        id: String,
        package: String,
        withdrawn: Option<String>,
    }
    #[derive(Deserialize)]
    struct Versions {
        #[serde(default)]
        patched: Vec<String>,
        #[serde(default)]
        unaffected: Vec<String>,
    }
    let head = said
        .split_once("```toml\n")
        .and_then(|(_, rest)| rest.split_once("\n```"))
        .context("it has no head")?
        .0;
    let head: Head = toml::from_str(head)?;
    if head.advisory.withdrawn.is_some() {
        return Ok(None);
    }
    let safe = [head.versions.patched, head.versions.unaffected].concat();
    let mut text = String::new();
    writeln!(
        text,
        "\n[[advisory]]\nid = {:?}\npackage = {:?}\nsafe = {safe:?}",
        head.advisory.id, head.advisory.package
    )?;
    Ok(Some(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "```toml\n[advisory]\nid = \"RUSTSEC-2000-0001\"\npackage = \"a\"\ndate = \"2000-01-01\"\n\n[versions]\npatched = [\">= 1.2.0, < 2.0.0\", \">= 2.1.0\"]\nunaffected = [\"< 1.0.0\"]\n```\n\n# Title\n";

    fn package(version: &str) -> Package {
        Package {
            name: "a".into(),
            version: version.parse().unwrap(),
            license: None,
            rust_version: None,
            source: None,
        }
    }

    #[test]
    fn an_advisory_applies_to_versions_that_are_neither_fixed_nor_unaffected() {
        let text = format!(
            "date = \"2000-01-02\"\npackages = [\"a\"]\n{}",
            entry(SAID).unwrap().unwrap()
        );
        let snapshot: Snapshot = toml::from_str(&text).unwrap();
        for (version, is_open) in [
            ("0.9.0", false),
            ("1.0.0", true),
            ("1.1.9", true),
            ("1.2.0", false),
            ("2.0.0", true),
            ("2.1.0", false),
        ] {
            let open = snapshot.open(&[package(version)], &[]).unwrap();
            assert_eq!(open.len(), usize::from(is_open), "{version}");
        }
        let ignored = [IgnoredAdvisory {
            id: "RUSTSEC-2000-0001".into(),
        }];
        assert_eq!(
            snapshot.open(&[package("1.0.0")], &ignored).unwrap(),
            [""; 0]
        );
    }

    #[test]
    fn a_withdrawn_advisory_is_left_out() {
        let withdrawn = SAID.replace("date =", "withdrawn = \"2000-01-03\"\ndate =");
        assert_eq!(entry(&withdrawn).unwrap(), None);
        assert!(entry("# Title").is_err());
    }
}
