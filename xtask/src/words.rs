//! Checks the words of the project: `docs/glossary.md` lists rejected ones, in names or in any text.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

const GLOSSARY: &str = "docs/glossary.md";
const EXTENSIONS: &[&str] = &[
    "rs", "sql", "md", "js", "ts", "html", "css", "toml", "txt", "json", "yml", "java", "py", "cs",
];
/// Files with third-party or generated text.
const NOT_OURS: &[&str] = &["xtask/src/deny/", "LICENSE", "Cargo.lock"];
/// Maximum number of findings that an error lists.
const FINDINGS_LISTED: usize = 40;

/// Words that the glossary rejects.
#[derive(Debug, Default)]
struct Rejected {
    /// Parts of names: `deed` rejects `Deed`, `deed_of` and `OperatorDeed`.
    names: Vec<String>,
    /// Whole names of types: `How` rejects neither `how` nor `HowTo`.
    types: Vec<String>,
    /// In any text, as whole words.
    phrases: Vec<String>,
}

/// Checks every tracked file.
pub fn check() -> Result<()> {
    let glossary = fs::read_to_string(GLOSSARY).context("could not read the glossary")?;
    let rejected = Rejected::read(&glossary)?;
    let mut findings = Vec::new();
    for file in tracked()? {
        // A file that is deleted and not committed yet, or not text.
        let Ok(text) = fs::read_to_string(&file) else {
            continue;
        };
        let in_file = rejected.find(&text, is_code(&file));
        findings.extend(in_file.iter().map(|finding| format!("{file}:{finding}")));
    }
    findings.truncate(FINDINGS_LISTED);
    ensure!(
        findings.is_empty(),
        "{GLOSSARY} rejects these words:\n{}",
        findings.join("\n")
    );
    Ok(())
}

fn tracked() -> Result<Vec<String>> {
    let output = Command::new("git").args(["ls-files"]).output()?;
    ensure!(output.status.success(), "git ls-files failed");
    let files = String::from_utf8(output.stdout)?;
    let is_ours = |file: &&str| {
        let extension = Path::new(file).extension().and_then(|e| e.to_str());
        extension.is_some_and(|extension| EXTENSIONS.contains(&extension))
            && *file != GLOSSARY
            && !NOT_OURS.iter().any(|other| file.starts_with(other))
    };
    Ok(files.lines().filter(is_ours).map(str::to_owned).collect())
}

/// Returns whether a file is code, in which names are checked. Migrations contain the names of older versions.
fn is_code(file: &str) -> bool {
    let is_code = [".rs", ".sql", ".js", ".ts"]
        .iter()
        .any(|extension| file.ends_with(extension));
    is_code && !file.contains("/migrations/")
}

impl Rejected {
    fn read(glossary: &str) -> Result<Self> {
        let mut rejected = Self::default();
        for row in glossary.lines().filter(|line| line.starts_with("| ")) {
            let columns: Vec<&str> = row.trim_matches('|').split(" | ").collect();
            let [_, _, not] = columns[..] else { continue };
            let quoted = |mark: char| not.split(mark).skip(1).step_by(2).map(str::to_owned);
            let is_type = |name: &String| name.starts_with(char::is_uppercase);
            let (types, names): (Vec<_>, Vec<_>) = quoted('`').partition(is_type);
            rejected.types.extend(types);
            rejected.names.extend(names);
            rejected.phrases.extend(quoted('"'));
        }
        ensure!(
            !rejected.names.is_empty() && !rejected.phrases.is_empty(),
            "{GLOSSARY} rejects no words: its tables are not read"
        );
        Ok(rejected)
    }

    /// Returns findings as line numbers and words.
    fn find(&self, text: &str, is_code: bool) -> Vec<String> {
        // Most files have none of most words, so their lines need not be searched.
        let lower = text.to_lowercase();
        let occurs = |word: &&String| parts(word).iter().all(|part| lower.contains(part));
        let phrases: Vec<_> = self.phrases.iter().filter(|p| lower.contains(*p)).collect();
        let (names, types): (Vec<_>, Vec<_>) = if is_code {
            let names = self.names.iter().filter(occurs).collect();
            (names, self.types.iter().filter(occurs).collect())
        } else {
            Default::default()
        };
        let mut findings = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let mut add = |word: &String| findings.push(format!("{}: {word}", number + 1));
            if !phrases.is_empty() {
                let lower = line.to_lowercase();
                let phrases = phrases.iter().filter(|p| has_phrase(&lower, p));
                phrases.for_each(|phrase| add(phrase));
            }
            if !(names.is_empty() && types.is_empty()) {
                let code = code_of(line);
                let parts: Vec<_> = names_in(&code).map(parts).collect();
                let names = names.iter().filter(|name| has_name(&parts, name));
                names.for_each(|name| add(name));
                let types = types.iter();
                let types = types.filter(|name| names_in(&code).any(|n| n == ***name));
                types.for_each(|name| add(name));
            }
        }
        findings
    }
}

/// Returns whether a line contains the phrase as whole words.
fn has_phrase(line: &str, phrase: &str) -> bool {
    let is_letter = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    line.match_indices(phrase).any(|(at, _)| {
        !is_letter(line[..at].chars().next_back())
            && !is_letter(line[at + phrase.len()..].chars().next())
    })
}

/// Returns a line without its comment and string literals.
fn code_of(line: &str) -> String {
    let code = line.trim_start();
    if ["//", "--", "*"].iter().any(|mark| code.starts_with(mark)) {
        return String::new();
    }
    let code = code.split(" // ").next().unwrap_or(code);
    let code = code.split('"').step_by(2).collect::<Vec<_>>().join(" ");
    without_renamed(&code)
}

/// Returns a line without foreign names that it renames: in `use ratatui::text::Line as TextLine;`, only `TextLine` is a name of
/// this project.
fn without_renamed(code: &str) -> String {
    let is_own = |path: &str| {
        ["crate::", "self::", "super::", "turno"]
            .iter()
            .any(|own| path.starts_with(own))
    };
    match code.strip_prefix("use ") {
        Some(path) if !is_own(path) => {
            let mut parts: Vec<&str> = path.split(" as ").collect();
            let last = parts.pop().unwrap_or_default();
            let before = parts.iter().map(|part| part.trim_end_matches(is_name));
            before.chain([last]).collect::<Vec<_>>().join(" ")
        }
        _ => code.to_owned(),
    }
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn names_in(code: &str) -> impl Iterator<Item = &str> {
    code.split(|c| !is_name(c)).filter(|name| !name.is_empty())
}

/// Splits a name into words: `OnceView` and `once_view` are `[once, view]`.
fn parts(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut after_lower = false;
    for c in name.chars() {
        if c == '_' || (c.is_uppercase() && after_lower) {
            parts.push(String::new());
        }
        if c != '_'
            && let Some(last) = parts.last_mut()
        {
            last.extend(c.to_lowercase());
        }
        after_lower = c.is_lowercase() || c.is_numeric();
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// Returns whether the parts of the rejected name occur in sequence in one of the names.
fn has_name(names: &[Vec<String>], rejected: &str) -> bool {
    let rejected = parts(rejected);
    names
        .iter()
        .any(|name| name.windows(rejected.len()).any(|part| part == rejected))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    fn rejected() -> Rejected {
        Rejected::read(include_str!("../../docs/glossary.md")).unwrap()
    }

    #[test]
    fn every_rejected_phrase_is_found() {
        let rejected = rejected();
        assert!(rejected.phrases.len() >= 10);
        for phrase in &rejected.phrases {
            for text in [
                format!("/// Here, {phrase}."),
                format!("{} at the start", phrase.to_uppercase()),
            ] {
                assert_eq!(rejected.find(&text, false).len(), 1, "{text}");
            }
            assert!(rejected.find(&format!("x{phrase}x"), false).is_empty());
        }
    }

    #[test]
    fn every_rejected_name_is_found() {
        let rejected = rejected();
        assert!(rejected.names.len() >= 15);
        for name in &rejected.names {
            let camel: String = parts(name)
                .iter()
                .map(|part| part[..1].to_uppercase() + &part[1..])
                .collect();
            for code in [
                format!("let {name} = 1;"),
                format!("fn the_{name}_of() {{"),
                format!("const {}: u32 = 1;", name.to_uppercase()),
                format!("struct {camel};"),
                format!("use a::My{camel}Type;"),
            ] {
                let found = rejected.find(&code, true);
                assert!(
                    found.iter().any(|f| f.ends_with(&format!(": {name}"))),
                    "{code}: {found:?}"
                );
            }
            // Prose may use the word in its usual sense.
            assert!(rejected.find(&format!("// the {name} is"), true).is_empty());
            assert!(rejected.find(&format!("let x{name} = 1;"), true).is_empty());
        }
    }

    #[test]
    fn every_rejected_type_is_found() {
        let rejected = rejected();
        assert!(rejected.types.len() >= 10);
        for name in &rejected.types {
            for code in [format!("struct {name} {{"), format!("fn f(x: &{name}) {{")] {
                assert!(
                    rejected.find(&code, true).iter().any(|f| f.ends_with(name)),
                    "{code}"
                );
            }
            let lower = name.to_lowercase();
            for code in [
                format!("let {lower} = 1;"),
                format!("struct {name}Options;"),
            ] {
                assert!(
                    !rejected.find(&code, true).iter().any(|f| f.ends_with(name)),
                    "{code}"
                );
            }
        }
    }

    #[test]
    fn a_foreign_name_may_be_renamed() {
        let rejected = rejected();
        let found = |code: &str| !rejected.find(code, true).is_empty();
        assert!(!found("use ratatui::text::{Line as TextLine, Span};"));
        // The control: without a new name, with a rejected one, and for names of this project.
        assert!(found("use ratatui::text::{Line, Span};"));
        assert!(found("use ratatui::text::{Text as Line, Span};"));
        assert!(found("use ratatui::text::{Line as TextLine, Bed};"));
        assert!(found("use crate::text::Line as TextLine;"));
        assert!(found("use turno::text::Line as TextLine;"));
        assert!(found("let x = y as Line;"));
    }

    #[test]
    fn ordinary_text_is_accepted() {
        let text = "/// Returns an error if an argument is invalid.\nfn lock_acquire(options: &AcquireOptions) {}";
        assert!(rejected().find(text, true).is_empty());
    }
}
