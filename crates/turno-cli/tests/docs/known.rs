//! Compares an example with the actual output: ids, tokens and times may differ, everything else must be the same.

use serde_json::Value;

/// Matches anything, at the end of a word, of a line or of an output.
const ANYTHING: char = '…';

/// Actual values for values in examples.
#[derive(Debug, Default)]
pub struct Known {
    pairs: Vec<Pair>,
    block: usize,
}

#[derive(Debug)]
struct Pair {
    expected: String,
    meant: String,
    /// Block in which it was recorded: within a block, a value has one replacement; a later block may record another one.
    block: usize,
}

impl Known {
    /// Starts a new block.
    pub fn turn(&mut self) {
        self.block += 1;
    }

    /// Returns the text with all known values replaced.
    pub fn meant(&self, expected: &str) -> String {
        let mut pairs: Vec<&Pair> = self.pairs.iter().collect();
        pairs.sort_by_key(|pair| std::cmp::Reverse(pair.expected.len()));
        let mut meant = expected.to_owned();
        for pair in pairs {
            meant = meant.replace(&pair.expected, &pair.meant);
        }
        meant
    }

    /// Records the actual value for a value in an example.
    #[track_caller]
    pub fn remember(&mut self, expected: &str, meant: &str) {
        match self.pairs.iter_mut().find(|pair| pair.expected == expected) {
            Some(pair) if pair.block == self.block => assert_eq!(pair.meant, meant, "{expected}"),
            Some(pair) => (pair.meant, pair.block) = (meant.to_owned(), self.block),
            None => self.pairs.push(Pair {
                expected: expected.to_owned(),
                meant: meant.to_owned(),
                block: self.block,
            }),
        }
    }

    /// Checks that everything in the example is in the output and matches.
    #[track_caller]
    pub fn json(&mut self, expected: &Value, actual: &Value) {
        match (expected, actual) {
            (Value::Object(expected), Value::Object(_)) => {
                for (name, expected) in expected {
                    let value = actual.get(name);
                    self.json(
                        expected,
                        value.unwrap_or_else(|| panic!("no {name} in {actual}")),
                    );
                }
            }
            (Value::Array(expected), Value::Array(actual)) => {
                assert_eq!(expected.len(), actual.len(), "{actual:?}");
                for (expected, actual) in expected.iter().zip(actual) {
                    self.json(expected, actual);
                }
            }
            (Value::String(expected), Value::String(actual)) => self.word(expected, actual),
            (Value::Number(expected), Value::Number(actual)) => {
                self.word(&expected.to_string(), &actual.to_string());
            }
            _ => assert_eq!(expected, actual),
        }
    }

    /// Compares one value, or one word of a text.
    #[track_caller]
    pub fn word(&mut self, expected: &str, actual: &str) {
        if expected == actual || expected.ends_with(ANYTHING) || self.meant(expected) == actual {
            return;
        }
        let has_digit = actual.chars().any(|letter| letter.is_ascii_digit());
        assert!(
            varies(expected) && has_digit,
            "{actual:?} and not {expected:?}"
        );
        self.remember(expected, actual);
    }

    /// Compares a whole text, word by word, without blank lines and rules.
    #[track_caller]
    pub fn text(&mut self, expected: &str, actual: &str) {
        let (mut expected_lines, mut actual_lines) = (lines(expected), lines(actual));
        loop {
            match (expected_lines.next(), actual_lines.next()) {
                (None, None) => return,
                (Some(expected), _) if expected == [ANYTHING.to_string()] => return,
                (Some(expected), Some(line)) => self.line(&expected, &line, actual),
                (Some(expected), None) => panic!("{expected:?} is missing in {actual}"),
                (None, Some(line)) => panic!("{line:?} is not expected in {actual}"),
            }
        }
    }

    #[track_caller]
    fn line(&mut self, expected: &[String], line: &[String], actual: &str) {
        for (position, word) in expected.iter().enumerate() {
            if *word == ANYTHING.to_string() {
                return;
            }
            let other = line.get(position);
            let other =
                other.unwrap_or_else(|| panic!("{word:?} is missing in {line:?} of {actual}"));
            // A duration.
            let is_time = expected.get(position + 1).is_some_and(|unit| unit == "s");
            if is_time && word.parse::<f64>().is_ok() && other.parse::<f64>().is_ok() {
                continue;
            }
            self.word(word, other);
        }
        assert_eq!(
            expected.len(),
            line.len(),
            "{expected:?} is not {line:?} of {actual}"
        );
    }
}

/// Returns whether a word is an id, token, claim, time or duration, which cannot be predicted.
fn varies(word: &str) -> bool {
    let large = word.parse::<u64>().is_ok_and(|number| number >= 1000);
    let digits = word.chars().any(|letter| letter.is_ascii_digit());
    large || digits && word.contains(['@', ':', '-', '.'])
}

fn lines(text: &str) -> impl Iterator<Item = Vec<String>> {
    let is_rule = |word: &str| word.chars().all(|letter| "-+─│|".contains(letter));
    text.lines()
        .map(move |line| {
            let words = line.split_whitespace().filter(|word| !is_rule(word));
            words.map(str::to_owned).collect::<Vec<String>>()
        })
        .filter(|words| !words.is_empty())
}

#[test]
fn unpredictable_values_are_remembered() {
    let mut known = Known::default();
    known.text(
        "RESOURCE  TOKEN\nloan/1  300 s  1794708000000000  …\n…",
        "RESOURCE TOKEN\n\nloan/1 299 s 1800000000000001 4 m left\nmore\nstill more\n",
    );
    assert_eq!(
        known.meant("loan/1@1794708000000000"),
        "loan/1@1800000000000001"
    );
    known.json(
        &serde_json::json!({"id": "loan/1@1794708000000000", "user": "1"}),
        &serde_json::json!({"id": "loan/1@1800000000000001", "user": "1", "more": true}),
    );
}

/// The control: predictable values must match.
#[test]
fn predictable_values_must_match() {
    for (expected, actual) in [
        ("acquired", "busy"),
        ("3 items", "4 items"),
        ("one line", "one line\nand another"),
        ("one line\nand another", "one line"),
        ("one", "one word"),
        ("a b", "a"),
    ] {
        let alike = std::panic::catch_unwind(|| Known::default().text(expected, actual));
        assert!(alike.is_err(), "{expected:?} passed for {actual:?}");
    }
}
