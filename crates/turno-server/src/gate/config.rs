//! The routes file of `turno gate`: which requests are processed once, and how. docs/gate.md describes the format.
//!
//! ```
//! use turno_server::gate::Upstream;
//! use turno_server::gate::config::RoutesFile;
//!
//! let file = RoutesFile::parse("[[route]]\npath = \"/pagos\"\nttl = \"1h\"")?;
//! let upstream: Upstream = "http://127.0.0.1:8080".parse()?;
//! let routes = file.routes(&upstream)?;
//! let error = RoutesFile::parse("[[route]]\npath = \"pagos\"").unwrap_err();
//! assert!(error.to_string().starts_with("line 2, column 8: this is not a path"));
//! # drop(routes); Ok::<_, Box<dyn std::error::Error>>(())
//! ```

mod describe;
mod route;
mod template;
mod value;
mod word_or_table;

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue, Deserializer};
use turno::once::http::Routes;

pub use self::route::Route;
use super::upstream::Upstream;

/// The error of an invalid routes file, with its place in the file.
#[derive(Debug, thiserror::Error)]
#[error("line {line}, column {column}: {message}")]
pub struct RoutesError {
    line: usize,
    column: usize,
    message: String,
}

/// Key of the templates of a route.
const TEMPLATES: &str = "templates";

/// A parsed routes file.
#[derive(Debug)]
pub struct RoutesFile {
    routes: Vec<Route>,
}

/// The sections of the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sections {
    #[serde(default)]
    defaults: Route,
    #[serde(default)]
    route: Vec<Spanned<Route>>,
}

impl RoutesFile {
    /// Parses the text of a routes file.
    ///
    /// # Errors
    /// Returns an error if a key or a value is invalid, or if two routes have the same name, or the same path and method.
    pub fn parse(text: &str) -> Result<Self, RoutesError> {
        let error = |at: usize, message: &str| RoutesError::new(text, at, message);
        let invalid = |error: toml::de::Error| {
            let at = error.span().unwrap_or_default().start;
            RoutesError::new(text, at, error.message())
        };
        let mut table = DeTable::parse(text).map_err(invalid)?;
        apply_defaults(table.get_mut());
        let file = Sections::deserialize(Deserializer::from(table)).map_err(invalid)?;
        if let Some(span) = file.defaults.own_key() {
            let message = "belongs to a single route, not to [defaults]: move it there";
            return Err(error(span.start, message));
        }
        if file.route.is_empty() {
            return Err(error(0, "there is no route: add [[route]] with a path"));
        }
        let mut known = KnownRoutes::default();
        for route in &file.route {
            known
                .add(route)
                .map_err(|(span, e)| error(span.start, &e))?;
        }
        let routes = file.route.into_iter().map(Spanned::into_inner).collect();
        Ok(RoutesFile { routes })
    }

    /// Returns the policies of all routes, for the service behind the gate.
    ///
    /// # Errors
    /// Returns an error if two routes conflict. [`RoutesFile::parse`] has checked that.
    pub fn routes(&self, upstream: &Upstream) -> turno::Result<Routes> {
        self.routes.iter().try_fold(Routes::new(), |routes, route| {
            routes.add(route.path(), route.policy(upstream))
        })
    }

    /// Returns the routes in the order of the file.
    pub fn list(&self) -> &[Route] {
        &self.routes
    }
}

/// Copies the keys of `[defaults]` into the routes that do not have them, and each template into the routes that do not have that
/// one. The copies keep their place in the file, so errors in them name it.
fn apply_defaults(file: &mut DeTable<'_>) {
    let defaults = file.get("defaults").map(Spanned::get_ref);
    let Some(DeValue::Table(defaults)) = defaults.cloned() else {
        return;
    };
    let Some(DeValue::Array(routes)) = file.get_mut("route").map(Spanned::get_mut) else {
        return;
    };
    for route in routes.iter_mut() {
        let DeValue::Table(route) = route.get_mut() else {
            continue;
        };
        add_missing(route, &defaults);
        let own = route.get_mut(TEMPLATES).map(Spanned::get_mut);
        let common = defaults.get(TEMPLATES).map(Spanned::get_ref);
        if let (Some(DeValue::Table(own)), Some(DeValue::Table(common))) = (own, common) {
            add_missing(own, common);
        }
    }
}

fn add_missing<'t>(table: &mut DeTable<'t>, defaults: &DeTable<'t>) {
    for (key, value) in defaults {
        table.entry(key.clone()).or_insert(value.clone());
    }
}

impl RoutesError {
    fn new(text: &str, at: usize, message: &str) -> Self {
        let before = text.get(..at).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |end| end + 1);
        RoutesError {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            message: message.to_owned(),
        }
    }
}

/// The routes so far, to detect conflicts.
#[derive(Default)]
struct KnownRoutes {
    routes: Routes,
    paths_by_name: BTreeMap<String, String>,
}

impl KnownRoutes {
    fn add(&mut self, route: &Spanned<Route>) -> Result<(), (Range<usize>, String)> {
        let Some(span) = route.get_ref().path_span() else {
            let message = "the route has no path: add, for example, path = \"/pagos\"";
            return Err((route.span(), message.to_owned()));
        };
        let route = route.get_ref();
        if let Some(error) = route.template_error() {
            return Err(error);
        }
        let (name, path) = (route.name().to_owned(), route.path().to_owned());
        if let Some(other) = self.paths_by_name.insert(name, path) {
            let name = route.name();
            let message = format!(
                "the name {name:?} is already used by {other}: give each route its own name"
            );
            return Err((span, message));
        }
        let routes = std::mem::take(&mut self.routes);
        let routes = routes.add(route.path(), route.policy_without_probe());
        self.routes = routes.map_err(|error| (span, error.to_string()))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_is_valid() {
        let text = include_str!("../../../../examples/gate/routes.toml");
        let file = RoutesFile::parse(text).unwrap();
        let upstream = "http://localhost".parse().unwrap();
        file.routes(&upstream).unwrap();
        assert!(file.routes.len() > 1);
        let certificacion = file.routes[0].to_json();
        assert_eq!(certificacion["name"], "certificacion");
        assert_eq!(certificacion["ttl_ms"], 0);
        assert_eq!(certificacion["lease_ms"], 30_000);
    }

    /// Checks the place and the message of an error. `»` marks the place, and is not part of the file.
    fn check(marked: &str, says: &str) {
        let (before, _) = marked.split_once('»').expect(marked);
        let line = before.split('\n').count();
        let column = before.split('\n').next_back().unwrap().chars().count() + 1;
        let text = marked.replacen('»', "", 1);
        let detail = RoutesFile::parse(&text).expect_err(&text).to_string();
        let at = format!("line {line}, column {column}: ");
        assert!(detail.starts_with(&at), "{marked}\n{detail}");
        assert!(detail.contains(says), "{marked}\n{detail}");
    }

    #[test]
    fn errors_of_a_file_have_line_and_column() {
        for (file, says) in [
            ("»", "[[route]]"),
            ("»[defaults]\nttl = \"1h\"\n", "[[route]]"),
            ("[[»rout]]\npath = \"/a\"", "unknown field `rout`"),
            ("»[[route]]\nname = \"a\"", "path"),
            ("[[route]]\npath = »\"a\"", "not a path"),
            ("[[route]]\npath = »\"/a?b\"", "not a path"),
            ("[[route]]\npath = »\"/a/{\"", "cannot be used"),
            (
                "[[route]]\npath = »\"/a\"\n[route.templates.in_flight]\nstatus = 200\nbody = '{}'\n[route.in_flight.template]\nstatus = 200\nbody = '{}'",
                "remove one of them",
            ),
            (
                "[defaults.templates.default]\nstatus = 200\nbody = »'{'\n[[route]]\npath = \"/a\"\n[route.templates.unknown]\nstatus = 200\nbody = '{}'",
                "JSON",
            ),
            (
                "[defaults]\npath = »\"/a\"\n[[route]]\npath = \"/a\"",
                "a single route",
            ),
            (
                "[[route]]\npath = \"/a\"\n\n[[route]]\nname = \"b\"\npath = »\"/a\"\nmethods = [\"PATCH\"]",
                "two policies",
            ),
            (
                "[[route]]\npath = \"/a\"\n[[route]]\nname = \"/a\"\npath = »\"/b\"",
                "its own name",
            ),
            (
                "[[route]]\npath = \"/a/{b}\"\n[[route]]\npath = »\"/a/{c}\"",
                "cannot be used",
            ),
            ("[[route]]\npath = \"/a»", ""),
        ] {
            check(file, says);
        }
    }

    /// An error in a list has the place of the list, and its own message.
    #[test]
    fn errors_of_a_key_have_line_and_column() {
        for (key, says) in [
            (r#"»tll = "1h""#, "unknown field `tll`"),
            (r#"ttl = »"soon""#, "30s"),
            (r#"ttl = »"99999d""#, "ten years"),
            (r#"lease = »"0s""#, "above zero"),
            (r#"lease = »"25h""#, "lower it"),
            ("methods = »[]", "POST"),
            (r#"methods = »["POST", "put"]"#, "capitals"),
            (r#"key = »"body""#, "`content`"),
            ("key = »5", "word or a table"),
            (r#"key = { header = »"a b" }"#, "not a header name"),
            (r#"key = { »heder = "a" }"#, "unknown field `heder`"),
            (r#"principal = »["x user"]"#, "not a header name"),
            ("principal = »[]", r#"write "none""#),
            (r#"principal = »"x-user""#, "`none`"),
            (r#"principal = »{ cookie = "a b" }"#, "not a cookie name"),
            (r#"in_flight = »"wait""#, "`conflict`"),
            (r#"in_flight = { wait = »"0s" }"#, "above zero"),
            ("in_flight = »{}", "conflict"),
            (
                "in_flight = { template = { status = 200, body = »'{' } }",
                "JSON",
            ),
            (
                "[route.in_flight.template]\nstatus = 200\nbody = »'{\"a\": {\"$request\": \"b\"}}'",
                "does not begin with /",
            ),
            (
                "in_flight = { template = { status = »100, body = '{}' } }",
                "between 200 and 599",
            ),
            (
                r#"in_flight = { template = { status = 200, headers = { »content-length = "1" }, body = '{}' } }"#,
                "leave it out",
            ),
            (
                "templates = { »store_down = { status = 200, body = '{}' } }",
                "store_unavailable",
            ),
            (
                "[route.templates.default]\nstatus = »99\nbody = '{}'",
                "between 200 and 599",
            ),
            (
                "[route.templates.unknown]\nstatus = 204\nbody = »'{}'",
                "use another status",
            ),
            (
                "[route.templates.unknown]\nstatus = 200\nbody = »'{'",
                "JSON",
            ),
            (
                "[route.templates.unknown]\nstatus = 200\ncontent_type = »\"xml\"\nbody = '<a/>'",
                "application/xml",
            ),
            (
                "[route.templates.unknown]\nstatus = 200\nbody = '{}'\nheaders = { »\"a b\" = \"c\" }",
                "not a header name",
            ),
            (
                "[route.templates.unknown]\nstatus = 200\nbody = '{}'\nheaders = { a = »\"\\n\" }",
                "not a header value",
            ),
            (
                "[route.templates.unknown]\nstatus = 200\ncontent_type = \"text/csv\"\nbody = »'{\"$request\": \"/a\"}'",
                "remove it",
            ),
            (
                "»[[route.templates.unknown.variants]]\nbody = '<a/>'\n[route.templates.unknown]\nstatus = 200\nbody = '{}'",
                "content_type",
            ),
            (r#"unknown = »"redo""#, "`rerun`"),
            (r#"unknown = { probe = { path = »"/by/{id}" } }"#, "{key}"),
            (r#"store = »["2xx", "9xx"]"#, "not a status"),
            (r#"unstored = »"done""#, "`release`"),
            (r#"store_down = »"ajar""#, "`closed`"),
            ("unidentified = »true", "string"),
            (r#"headers = »["transfer-encoding"]"#, "leave it out"),
            ("max_body = »0", "1 or more"),
            ("quota = »0", "between 1"),
            (r#"switch = »"dim""#, "`shadow`"),
            (r#"name = »"""#, "1 to 100"),
        ] {
            check(&format!("[[route]]\npath = \"/a\"\n{key}"), says);
        }
    }

    #[test]
    fn a_key_of_a_route_has_precedence_over_the_defaults() {
        let text =
            "[defaults]\nlease = \"10s\"\nttl = \"1h\"\n[[route]]\npath = \"/a\"\nttl = \"2h\"";
        let file = RoutesFile::parse(text).unwrap();
        let route = file.routes[0].to_json();
        assert_eq!(route["lease_ms"], 10_000);
        assert_eq!(route["ttl_ms"], 7_200_000);
        assert_eq!(route["name"], "/a", "the default is the path");
    }

    #[test]
    fn templates_of_a_route_and_of_the_defaults_are_both_used() {
        let text = "[defaults.templates]\ndefault = { status = 200, body = '1' }\nunknown = { status = 200, body = '1' }\n\
            [[route]]\npath = \"/a\"\n[route.templates.unknown]\nstatus = 503\nbody = '2'\n\
            variants = [{ content_type = \"text/plain\", body = \"3\" }]\n\
            [[route]]\npath = \"/b\"\ntemplates = {}";
        let file = RoutesFile::parse(text).unwrap();
        let json = |content_types: &[&str], status: u16| serde_json::json!({ "status": status, "content_types": content_types });
        let default = json(&["application/json"], 200);
        let own = json(&["application/json", "text/plain"], 503);
        let templates = |place: usize| file.routes[place].to_json()["templates"].clone();
        assert_eq!(
            templates(0),
            serde_json::json!({ "default": default, "unknown": own })
        );
        assert_eq!(
            templates(1),
            serde_json::json!({ "default": default, "unknown": default })
        );
    }

    /// Also if each route has the key itself.
    #[test]
    fn errors_in_the_defaults_have_their_place() {
        for route in ["", "ttl = \"1h\""] {
            let text = format!("[defaults]\nttl = \"soon\"\n[[route]]\npath = \"/a\"\n{route}");
            let error = RoutesFile::parse(&text).unwrap_err().to_string();
            assert!(error.starts_with("line 2, column 7: "), "{error}");
        }
    }
}
