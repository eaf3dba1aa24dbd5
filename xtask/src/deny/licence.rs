//! SPDX expressions: `MIT OR Apache-2.0`, `(MIT OR Apache-2.0) AND Unicode-3.0`. Older packages write `MIT/Apache-2.0`.

use std::collections::BTreeSet;
use std::iter::Peekable;
use std::vec::IntoIter;

use anyhow::{Result, bail, ensure};

type Words = Peekable<IntoIter<String>>;

/// Returns whether the allowed licences satisfy a licence expression.
pub fn is_allowed(text: &str, allowed: &BTreeSet<String>) -> Result<bool> {
    let spaced = text
        .replace('/', " OR ")
        .replace('(', " ( ")
        .replace(')', " ) ");
    let words: Vec<String> = spaced.split_whitespace().map(str::to_owned).collect();
    let mut words = words.into_iter().peekable();
    let answer = any(&mut words, allowed)?;
    ensure!(words.next().is_none(), "it has a bracket too many");
    Ok(answer)
}

fn any(words: &mut Words, allowed: &BTreeSet<String>) -> Result<bool> {
    let mut answer = all(words, allowed)?;
    while words.next_if(|word| word == "OR").is_some() {
        answer |= all(words, allowed)?;
    }
    Ok(answer)
}

fn all(words: &mut Words, allowed: &BTreeSet<String>) -> Result<bool> {
    let mut answer = one(words, allowed)?;
    while words.next_if(|word| word == "AND").is_some() {
        answer &= one(words, allowed)?;
    }
    Ok(answer)
}

fn one(words: &mut Words, allowed: &BTreeSet<String>) -> Result<bool> {
    match words.next().as_deref() {
        Some("(") => {
            let answer = any(words, allowed)?;
            ensure!(
                words.next().as_deref() == Some(")"),
                "a bracket is not closed"
            );
            Ok(answer)
        }
        Some("AND" | "OR" | "WITH" | ")") | None => bail!("a licence is missing in it"),
        Some(name) => match words.next_if(|word| word == "WITH") {
            None => Ok(allowed.contains(name)),
            Some(_) => match words.next() {
                Some(exception) => Ok(allowed.contains(&format!("{name} WITH {exception}"))),
                None => bail!("an exception is missing in it"),
            },
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_read_as_spdx_means_them() {
        let allowed: BTreeSet<String> = ["MIT", "ISC"].map(str::to_owned).into();
        for (text, is_enough) in [
            ("MIT", true),
            ("GPL-3.0", false),
            ("GPL-3.0 OR MIT", true),
            ("GPL-3.0/MIT", true),
            ("Apache-2.0 / MIT", true),
            ("GPL-3.0 AND MIT", false),
            ("MIT AND ISC", true),
            ("MIT OR Apache-2.0 AND GPL-3.0", true),
            ("(MIT OR Apache-2.0) AND GPL-3.0", false),
            ("(MIT OR Apache-2.0) AND ISC", true),
            ("MIT WITH LLVM-exception", false),
            ("MIT WITH LLVM-exception OR ISC", true),
        ] {
            assert_eq!(is_allowed(text, &allowed).unwrap(), is_enough, "{text}");
        }
        for text in ["", "MIT OR", "(MIT", "MIT)", "AND MIT", "MIT WITH"] {
            assert!(is_allowed(text, &allowed).is_err(), "{text}");
        }
    }
}
