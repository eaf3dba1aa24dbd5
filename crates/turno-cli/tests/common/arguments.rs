//! The arguments of a command, as words or as one line.

use std::ffi::{OsStr, OsString};

/// The arguments of a command.
///
/// A text is a line, which is split at spaces; `'…'` is one word, as in a shell. Use a list for words with quotes in them.
pub trait Arguments {
    fn words(self) -> Vec<OsString>;
}

impl Arguments for &str {
    fn words(self) -> Vec<OsString> {
        let mut words = Vec::new();
        // Every second part is inside quotes.
        for (place, part) in self.split('\'').enumerate() {
            if place % 2 == 1 {
                words.push(part.into());
            } else {
                words.extend(part.split_whitespace().map(OsString::from));
            }
        }
        words
    }
}

impl Arguments for &String {
    fn words(self) -> Vec<OsString> {
        self.as_str().words()
    }
}

impl<S: AsRef<OsStr>> Arguments for &[S] {
    fn words(self) -> Vec<OsString> {
        self.iter().map(|word| word.as_ref().to_owned()).collect()
    }
}

impl<S: AsRef<OsStr>, const N: usize> Arguments for &[S; N] {
    fn words(self) -> Vec<OsString> {
        self.as_slice().words()
    }
}

impl<S: AsRef<OsStr>> Arguments for &Vec<S> {
    fn words(self) -> Vec<OsString> {
        self.as_slice().words()
    }
}
