//! The mistakes, each in one line of a function's body.

use std::fmt;
use std::ops::Range;

/// A function with one mistake.
pub struct Mutant {
    /// Name of the file, without its ending.
    pub file: &'static str,
    pub function: String,
    /// Number of the line in the file.
    line: usize,
    was: String,
    is: String,
    /// Statement that creates the function.
    pub sql: String,
}

impl fmt::Display for Mutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Mutant {
            file,
            function,
            line,
            was,
            is,
            ..
        } = self;
        write!(f, "{file}.sql:{line} {function}: `{was}` -> `{is}`")
    }
}

/// What is replaced by what, wherever it stands. A longer text comes before its parts.
const REPLACED: &[(&str, &str)] = &[
    // Turned round: whether a limit itself is inside makes no difference that a test could see, if times are compared.
    (" <= ", " > "),
    (" >= ", " < "),
    (" < ", " > "),
    (" > ", " < "),
    (" <> ", " = "),
    ("for no key update skip locked", ""),
    ("for update skip locked", ""),
    ("for share", ""),
    (" skip locked", ""),
    ("clock_timestamp()", "now()"),
    ("greatest(", "least("),
    ("least(", "greatest("),
    (" is not null", " is null"),
    (" is null", " is not null"),
    ("not exists", "exists"),
    ("if not ", "if "),
    (" and not ", " and "),
    (" + 1", ""),
    (" - 1", ""),
    ("return true", "return false"),
    ("return false", "return true"),
];

/// Words that begin a condition on a line of its own, and what makes it have no effect.
const CONDITIONS: &[(&str, &str)] = &[
    ("and ", "and true"),
    ("or ", "or false"),
    ("where ", "where true"),
];

/// Returns all mutants of the functions in a file.
pub fn mutants(file: &'static str, text: &str) -> Vec<Mutant> {
    let lines: Vec<&str> = text.lines().collect();
    let mut mutants = Vec::new();
    let mut first = 0;
    while first < lines.len() {
        let Some(name) = lines[first].strip_prefix("create or replace function turno.") else {
            first += 1;
            continue;
        };
        let function = name.split('(').next().unwrap_or_default();
        let until = |is: &dyn Fn(&str) -> bool| {
            let found = lines[first..].iter().position(|line| is(line));
            first + found.unwrap_or_default()
        };
        let (body, last) = (
            until(&|line| line.ends_with("as $$")),
            until(&|line| line.starts_with("$$;")),
        );
        for number in body + 1..last {
            for (was, is, changed) in changes(lines[number]) {
                let mut copy = lines[first..=last].to_vec();
                copy[number - first] = &changed;
                mutants.push(Mutant {
                    file,
                    function: function.to_owned(),
                    line: number + 1,
                    was,
                    is,
                    sql: copy.join("\n"),
                });
            }
        }
        first = last + 1;
    }
    mutants
}

/// Returns what is changed in a line, into what, and the changed line.
fn changes(line: &str) -> Vec<(String, String, String)> {
    let (code, comment) = match line.find("--") {
        Some(at) => line.split_at(at),
        None => (line, ""),
    };
    let indented = code.trim_start();
    let indent = &code[..code.len() - indented.len()];
    let mut changes = Vec::new();
    for (word, neutral) in CONDITIONS {
        if let Some(condition) = indented.strip_prefix(word)
            && let Some((condition, rest)) = whole(condition)
        {
            changes.push((
                format!("{word}{condition}"),
                (*neutral).to_owned(),
                format!("{indent}{neutral}{rest}{comment}"),
            ));
        }
    }
    if indented.starts_with("perform turno.") && indented.trim_end().ends_with(';') {
        changes.push((
            indented.trim_end().to_owned(),
            "null;".to_owned(),
            format!("{indent}null;{comment}"),
        ));
    }
    let mut taken: Vec<Range<usize>> = Vec::new();
    for (was, is) in REPLACED {
        for (at, _) in code.match_indices(was) {
            let end = at + was.len();
            if taken
                .iter()
                .any(|other| at < other.end && other.start < end)
            {
                continue;
            }
            taken.push(at..end);
            let changed = format!("{}{is}{}{comment}", &code[..at], &code[end..]);
            changes.push((was.trim().to_owned(), is.trim().to_owned(), changed));
        }
    }
    changes
}

/// Splits a condition that ends on its line from what follows it: closing parentheses of what is around it, and the end of the
/// statement.
fn whole(text: &str) -> Option<(&str, &str)> {
    let mut condition = text.trim_end();
    for end in [" then", " loop", ";", ","] {
        condition = condition.strip_suffix(end).unwrap_or(condition);
    }
    let depth = |text: &str| {
        let count = |wanted: char| text.chars().filter(|c| *c == wanted).count();
        count('(') as isize - count(')') as isize
    };
    while depth(condition) < 0 {
        condition = condition.strip_suffix(')')?;
    }
    // It goes on in the next line.
    let goes_on = depth(condition) > 0
        || condition.ends_with(" and")
        || condition.ends_with(" or")
        || condition == "case"
        || condition.is_empty();
    (!goes_on).then(|| (condition, &text[condition.len()..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
-- Not a function < this.
create or replace function turno.one(a integer < 3) returns boolean
language plpgsql
as $$
begin
  perform turno.wake('x', 'y');
  return exists (
    select from turno.lock t
    where t.resource = one.a
      and t.expires_at > clock_timestamp() -- and not before
      and (t.mode = 'shared'
        or t.owner is null));
end
$$;
";

    fn shown() -> Vec<String> {
        mutants("file", FILE)
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn each_line_of_a_body_has_its_mistakes() {
        assert_eq!(
            shown(),
            [
                "file.sql:6 one: `perform turno.wake('x', 'y');` -> `null;`",
                "file.sql:9 one: `where t.resource = one.a` -> `where true`",
                "file.sql:10 one: `and t.expires_at > clock_timestamp()` -> `and true`",
                "file.sql:10 one: `>` -> `<`",
                "file.sql:10 one: `clock_timestamp()` -> `now()`",
                "file.sql:12 one: `or t.owner is null` -> `or false`",
                "file.sql:12 one: `is null` -> `is not null`",
            ]
        );
    }

    #[test]
    fn a_mutant_differs_in_one_line() {
        let original: Vec<&str> = FILE.lines().skip(1).collect();
        for mutant in mutants("file", FILE) {
            let lines: Vec<&str> = mutant.sql.lines().collect();
            assert_eq!(lines.len(), original.len());
            let different: Vec<usize> = (0..lines.len())
                .filter(|number| lines[*number] != original[*number])
                .collect();
            assert_eq!(different, [mutant.line - 2], "{mutant}");
        }
        let last = mutants("file", FILE).pop().map(|mutant| mutant.sql);
        assert!(last.is_some_and(|sql| sql.contains("or t.owner is not null));")));
        let neutral = &mutants("file", FILE)[5].sql;
        assert!(neutral.contains("        or false));"), "{neutral}");
    }
}
