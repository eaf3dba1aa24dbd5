//! URLs: the server's address and the paths of its calls.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Url;

use super::error::{Error, Result};

/// Characters that are percent-encoded in a name: all but the unreserved ones. A slash is encoded too.
const KEPT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// Parses the server's address. The path of the result ends with a slash, so that paths can be joined to it.
pub(super) fn base(text: &str) -> Result<Url> {
    let wrong = |why: &str| {
        // The message does not contain the address, which may have a password.
        Error::invalid(
            "server",
            format!("the server's address {why}: give one such as http://127.0.0.1:7117"),
        )
    };
    let mut url: Url = text.trim().parse().map_err(|_| wrong("is none"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(wrong("begins with neither http:// nor https://"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(wrong(
            "has a user or a password in it, and a server knows tokens only",
        ));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(wrong("has a ? or a # in it"));
    }
    let path = url.path().trim_end_matches('/').to_owned() + "/";
    url.set_path(&path);
    Ok(url)
}

/// Path and query parameters of a call.
#[derive(Debug)]
pub(super) struct Target {
    path: String,
    query: Vec<(&'static str, String)>,
}

impl Target {
    pub(super) fn new(path: &str) -> Self {
        Target {
            path: path.to_owned(),
            query: Vec::new(),
        }
    }

    /// Adds a name as one more path segment. Rejects `.`, `..` and the empty name.
    pub(super) fn name(mut self, field: &'static str, name: &str) -> Result<Self> {
        // URL parsers treat these as "this directory" and "parent directory" even if they are percent-encoded.
        if matches!(name, "." | "..") {
            return Err(Error::invalid(
                field,
                format!("{field} is {name:?}, which no URL can say: use --store, or another name"),
            ));
        }
        if name.is_empty() {
            return Err(Error::invalid(
                field,
                format!("{field} is empty: give it 1 to 255 bytes of text"),
            ));
        }
        self.path.push('/');
        self.path.extend(utf8_percent_encode(name, KEPT));
        Ok(self)
    }

    /// Adds the rest of the path, unencoded.
    pub(super) fn then(mut self, rest: &str) -> Self {
        self.path.push('/');
        self.path.push_str(rest);
        self
    }

    /// Adds a query parameter, unless the value is `None`.
    pub(super) fn with(mut self, name: &'static str, value: Option<impl ToString>) -> Self {
        self.query
            .extend(value.map(|value| (name, value.to_string())));
        self
    }

    pub(super) fn on(&self, base: &Url) -> Result<Url> {
        let mut url = base
            .join(&self.path)
            .map_err(|error| Error::broken(format!("no address can be made of a name: {error}")))?;
        if !self.query.is_empty() {
            let query = self
                .query
                .iter()
                .map(|(name, value)| format!("{name}={}", utf8_percent_encode(value, KEPT)));
            url.set_query(Some(&query.collect::<Vec<_>>().join("&")));
        }
        Ok(url)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_one_segment() {
        let base = base("https://turno.example/behind").unwrap();
        for (name, path) in [
            ("PRESTAMO/123", "PRESTAMO%2F123"),
            ("a b?c#d%2F", "a%20b%3Fc%23d%252F"),
            ("ñ/../x", "%C3%B1%2F..%2Fx"),
            ("...", "..."),
        ] {
            let target = Target::new("v1/locks").name("resource", name).unwrap();
            assert_eq!(
                target.on(&base).unwrap().as_str(),
                format!("https://turno.example/behind/v1/locks/{path}"),
            );
        }
        for name in [".", "..", ""] {
            let error = Target::new("v1/locks").name("resource", name).unwrap_err();
            assert_eq!(error.field(), Some("resource"));
        }
    }

    #[test]
    fn parameters_are_encoded() {
        let url = Target::new("v1/locks")
            .with("prefix", Some("a&b=c d"))
            .with("limit", None::<u32>)
            .with("after", Some(7))
            .on(&base("http://[::1]:7117/").unwrap())
            .unwrap();
        assert_eq!(
            url.as_str(),
            "http://[::1]:7117/v1/locks?prefix=a%26b%3Dc%20d&after=7"
        );
    }

    #[test]
    fn what_is_no_address_is_refused_and_not_shown() {
        for text in [
            "",
            "turno",
            "ftp://s3cret",
            "http://",
            "http://ana:s3cret@turno/",
            "http://turno/?token=s3cret",
        ] {
            let error = base(text).unwrap_err();
            assert_eq!(error.field(), Some("server"), "{text}");
            assert!(!error.to_string().contains("s3cret"), "{error}");
        }
    }
}
