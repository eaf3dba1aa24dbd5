//! Lists of ids as short text: `5-9 12 d3` is 5, 6, 7, 8, 9, 12 and the marked 3. Items that are pushed or claimed together mostly
//! have consecutive ids, so that a thousand of them need a few characters.

use std::fmt::Write as _;

use crate::error::{Error, Kind, Result};

const MARK: char = 'd';

/// Whether an id is marked, and the id.
type Entry = (bool, i64);

pub(crate) fn encode(entries: impl IntoIterator<Item = Entry>) -> String {
    let mut text = String::new();
    let mut run: Option<(bool, i64, i64)> = None;
    for (marked, id) in entries {
        run = match run {
            Some((mark, first, last)) if mark == marked && id == last + 1 => {
                Some((mark, first, id))
            }
            before => {
                write_run(&mut text, before);
                Some((marked, id, id))
            }
        };
    }
    write_run(&mut text, run);
    text
}

fn write_run(text: &mut String, run: Option<(bool, i64, i64)>) {
    let Some((marked, first, last)) = run else {
        return;
    };
    if !text.is_empty() {
        text.push(' ');
    }
    if marked {
        text.push(MARK);
    }
    // Writing to a string cannot fail.
    let _ = write!(text, "{first}");
    if last > first {
        let _ = write!(text, "-{last}");
    }
}

pub(crate) fn decode(text: &str) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for word in text.split_ascii_whitespace() {
        let (marked, run) = match word.strip_prefix(MARK) {
            Some(run) => (true, run),
            None => (false, word),
        };
        let (first, last) = run.split_once('-').unwrap_or((run, run));
        let bounds = first
            .parse::<i64>()
            .and_then(|first| Ok((first, last.parse::<i64>()?)));
        let (first, last) = bounds.map_err(|_| damaged(text))?;
        entries.extend((first..=last).map(|id| (marked, id)));
    }
    Ok(entries)
}

/// Returns the ids without the marks.
pub(crate) fn decode_ids(text: &str) -> Result<Vec<i64>> {
    Ok(decode(text)?.into_iter().map(|(_, id)| id).collect())
}

/// Returns the runs of consecutive ids, each as its first and its last one. A statement takes a run faster than a list.
pub(crate) fn runs(ids: &[i64]) -> Vec<(i64, i64)> {
    let mut sorted = ids.to_vec();
    sorted.sort_unstable();
    let mut runs: Vec<(i64, i64)> = Vec::new();
    for id in sorted {
        match runs.last_mut() {
            Some((_, last)) if id <= *last + 1 => *last = id,
            _ => runs.push((id, id)),
        }
    }
    runs
}

/// Returns the ids as a list for `json_each`, by which a statement takes many values.
pub(crate) fn json(ids: &[i64]) -> String {
    let mut text = String::with_capacity(2 + 8 * ids.len());
    for id in ids {
        text.push(if text.is_empty() { '[' } else { ',' });
        let _ = write!(text, "{id}");
    }
    text.push_str(if text.is_empty() { "[]" } else { "]" });
    text
}

pub(crate) fn damaged(text: &str) -> Error {
    Error::new(
        Kind::Broken,
        format!(
            "the store holds a record of the inbox that cannot be read ({text:?}): please report it"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_come_back_as_they_were() {
        for (text, ids) in [
            ("", vec![]),
            ("5", vec![(false, 5)]),
            (
                "5-7 d3 d9-10 8 2-3",
                vec![
                    (false, 5),
                    (false, 6),
                    (false, 7),
                    (true, 3),
                    (true, 9),
                    (true, 10),
                    (false, 8),
                    (false, 2),
                    (false, 3),
                ],
            ),
        ] {
            assert_eq!(encode(ids.clone()), text);
            assert_eq!(decode(text).unwrap(), ids);
        }
        assert!(decode("5-x").is_err());
        assert_eq!(runs(&[]), []);
        assert_eq!(runs(&[6, 9, 5, 7, 5, 3]), [(3, 3), (5, 7), (9, 9)]);
        assert_eq!(json(&[]), "[]");
        assert_eq!(json(&[5, 3]), "[5,3]");
    }
}
