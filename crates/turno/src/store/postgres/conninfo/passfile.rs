//! The password file: `host:port:database:user:password`, one server on a line, `*` for any value.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// What a password is looked up by.
pub(super) struct Key<'a> {
    pub(super) host: &'a str,
    pub(super) port: &'a str,
    pub(super) dbname: &'a str,
    pub(super) user: &'a str,
}

/// Permissions of the group and of others.
const SHARED: u32 = 0o077;

/// The text of the file, if it is there and only its owner can read it. As in libpq, a file that others can read is
/// ignored with a warning.
pub(super) fn read(file: &Path) -> Option<String> {
    let metadata = std::fs::metadata(file).ok()?;
    let ignored = if !metadata.is_file() {
        Some("it is not a plain file".to_owned())
    } else if metadata.mode() & SHARED != 0 {
        Some(format!(
            "others can read it (mode {:04o}): run chmod 600",
            metadata.mode() & 0o777
        ))
    } else {
        None
    };
    if let Some(reason) = ignored {
        tracing::warn!(file = %file.display(), "the password file is ignored, because {reason}");
        return None;
    }
    std::fs::read_to_string(file).ok()
}

/// The password of the first line that matches.
pub(super) fn password(text: &str, key: &Key<'_>) -> Option<String> {
    let wanted = [key.host, key.port, key.dbname, key.user];
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .find_map(|line| {
            let mut rest = line;
            for value in wanted {
                let (field, after) = field(rest)?;
                if rest[..rest.len() - after.len() - 1] != *"*" && field != value {
                    return None;
                }
                rest = after;
            }
            // As in libpq, a colon in a password is escaped too.
            Some(field(rest).map_or_else(|| unescaped(rest), |(password, _)| password))
        })
}

/// The field up to the next colon that is not escaped, and what comes behind it.
fn field(text: &str) -> Option<(String, &str)> {
    let mut is_escaped = false;
    for (at, letter) in text.char_indices() {
        match letter {
            ':' if !is_escaped => return Some((unescaped(&text[..at]), &text[at + 1..])),
            '\\' => is_escaped = !is_escaped,
            _ => is_escaped = false,
        }
    }
    None
}

fn unescaped(text: &str) -> String {
    let mut letters = text.chars();
    let mut plain = String::new();
    while let Some(letter) = letters.next() {
        plain.push(match letter {
            '\\' => letters.next().unwrap_or('\\'),
            letter => letter,
        });
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r"# comment
db:5432:app:ana:first
db:5432:*:ana:any\:database
*:*:*:eva:with\\backslash
\*:5432:app:bob:a host that is called *
fe80\:\:1:5432:app:bob:IPv6
short:line
";

    #[track_caller]
    fn check(host: &str, dbname: &str, user: &str, expected: Option<&str>) {
        let key = Key {
            host,
            port: "5432",
            dbname,
            user,
        };
        assert_eq!(password(FILE, &key).as_deref(), expected, "{user}@{host}");
    }

    #[test]
    fn the_first_line_that_matches_has_the_password() {
        check("db", "app", "ana", Some("first"));
        check("db", "other", "ana", Some("any:database"));
        check("anywhere", "app", "eva", Some(r"with\backslash"));
        check("fe80::1", "app", "bob", Some("IPv6"));
        check("*", "app", "bob", Some("a host that is called *"));
        check("db", "app", "bob", None);
        check("elsewhere", "app", "ana", None);
    }
}
