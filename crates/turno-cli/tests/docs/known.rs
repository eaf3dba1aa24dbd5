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
    said: String,
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
    pub fn meant(&self, said: &str) -> String {
        let mut pairs: Vec<&Pair> = self.pairs.iter().collect();
        pairs.sort_by_key(|pair| std::cmp::Reverse(pair.said.len()));
        let mut meant = said.to_owned();
        for pair in pairs {
            meant = meant.replace(&pair.said, &pair.meant);
        }
        meant
    }

    /// Records the actual value for a value in an example.
    #[track_caller]
    pub fn remember(&mut self, said: &str, meant: &str) {
        match self.pairs.iter_mut().find(|pair| pair.said == said) {
            Some(pair) if pair.block == self.block => assert_eq!(pair.meant, meant, "{said}"),
            Some(pair) => (pair.meant, pair.block) = (meant.to_owned(), self.block),
            None => self.pairs.push(Pair {
                said: said.to_owned(),
                meant: meant.to_owned(),
                block: self.block,
            }),
        }
    }

    /// Checks that everything in the example is in the output and matches.
    #[track_caller]
    pub fn json(&mut self, said: &Value, told: &Value) {
        match (said, told) {
            (Value::Object(said), Value::Object(_)) => {
                for (name, said) in said {
                    let value = told.get(name);
                    self.json(said, value.unwrap_or_else(|| panic!("no {name} in {told}")));
                }
            }
            (Value::Array(said), Value::Array(told)) => {
                assert_eq!(said.len(), told.len(), "{told:?}");
                for (said, told) in said.iter().zip(told) {
                    self.json(said, told);
                }
            }
            (Value::String(said), Value::String(told)) => self.word(said, told),
            (Value::Number(said), Value::Number(told)) => {
                self.word(&said.to_string(), &told.to_string());
            }
            _ => assert_eq!(said, told),
        }
    }

    /// Compares one value, or one word of a text.
    #[track_caller]
    pub fn word(&mut self, said: &str, told: &str) {
        if said == told || said.ends_with(ANYTHING) || self.meant(said) == told {
            return;
        }
        let has_digit = told.chars().any(|letter| letter.is_ascii_digit());
        assert!(varies(said) && has_digit, "{told:?} and not {said:?}");
        self.remember(said, told);
    }

    /// Compares a whole text, word by word, without blank lines and rules.
    #[track_caller]
    pub fn text(&mut self, said: &str, told: &str) {
        let (mut said_lines, mut told_lines) = (lines(said), lines(told));
        loop {
            match (said_lines.next(), told_lines.next()) {
                (None, None) => return,
                (Some(said), _) if said == [ANYTHING.to_string()] => return,
                (Some(said), Some(line)) => self.line(&said, &line, told),
                (Some(said), None) => panic!("{said:?} is missing in {told}"),
                (None, Some(line)) => panic!("nothing was said of {line:?} in {told}"),
            }
        }
    }

    #[track_caller]
    fn line(&mut self, said: &[String], line: &[String], told: &str) {
        for (position, word) in said.iter().enumerate() {
            if *word == ANYTHING.to_string() {
                return;
            }
            let other = line.get(position);
            let other =
                other.unwrap_or_else(|| panic!("{word:?} is missing in {line:?} of {told}"));
            // A duration.
            let is_time = said.get(position + 1).is_some_and(|unit| unit == "s");
            if is_time && word.parse::<f64>().is_ok() && other.parse::<f64>().is_ok() {
                continue;
            }
            self.word(word, other);
        }
        assert_eq!(said.len(), line.len(), "{said:?} is not {line:?} of {told}");
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
fn what_nobody_can_know_is_remembered() {
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
fn what_can_be_known_has_to_be_so() {
    for (said, told) in [
        ("acquired", "busy"),
        ("3 items", "4 items"),
        ("one line", "one line\nand another"),
        ("one line\nand another", "one line"),
        ("one", "one word"),
        ("a b", "a"),
    ] {
        let alike = std::panic::catch_unwind(|| Known::default().text(said, told));
        assert!(alike.is_err(), "{said:?} passed for {told:?}");
    }
}
