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

    /// An error in a list has the place of the list, and its own message.
    #[test]
    fn errors_have_line_and_column() {
        for (text, line, column, says) in [
            ("", 1, 1, "[[route]]"),
            ("[defaults]\nttl = \"1h\"\n", 1, 1, "[[route]]"),
            ("[[rout]]\npath = \"/a\"", 1, 3, "unknown field `rout`"),
            ("[[route]]\nname = \"a\"", 1, 1, "path"),
            ("[[route]]\npath = \"a\"", 2, 8, "not a path"),
            ("[[route]]\npath = \"/a?b\"", 2, 8, "not a path"),
            ("[[route]]\npath = \"/a/{\"", 2, 8, "cannot be used"),
            (
                "[[route]]\npath = \"/a\"\ntll = \"1h\"",
                3,
                1,
                "unknown field `tll`",
            ),
            ("[[route]]\npath = \"/a\"\nttl = \"soon\"", 3, 7, "30s"),
            (
                "[[route]]\npath = \"/a\"\nttl = \"99999d\"",
                3,
                7,
                "ten years",
            ),
            (
                "[[route]]\npath = \"/a\"\nlease = \"0s\"",
                3,
                9,
                "above zero",
            ),
            (
                "[[route]]\npath = \"/a\"\nlease = \"25h\"",
                3,
                9,
                "lower it",
            ),
            ("[[route]]\npath = \"/a\"\nmethods = []", 3, 11, "POST"),
            (
                "[[route]]\npath = \"/a\"\nmethods = [\"POST\", \"put\"]",
                3,
                11,
                "capitals",
            ),
            (
                "[[route]]\npath = \"/a\"\nkey = \"body\"",
                3,
                7,
                "`content`",
            ),
            ("[[route]]\npath = \"/a\"\nkey = 5", 3, 7, "word or a table"),
            (
                "[[route]]\npath = \"/a\"\nkey = { header = \"a b\" }",
                3,
                18,
                "not a header name",
            ),
            (
                "[[route]]\npath = \"/a\"\nkey = { heder = \"a\" }",
                3,
                9,
                "unknown field `heder`",
            ),
            (
                "[[route]]\npath = \"/a\"\nprincipal = [\"x user\"]",
                3,
                13,
                "not a header name",
            ),
            (
                "[[route]]\npath = \"/a\"\nprincipal = []",
                3,
                13,
                "write \"none\"",
            ),
            (
                "[[route]]\npath = \"/a\"\nprincipal = \"x-user\"",
                3,
                13,
                "`none`",
            ),
            (
                "[[route]]\npath = \"/a\"\nprincipal = { cookie = \"a b\" }",
                3,
                13,
                "not a cookie name",
            ),
            (
                "[[route]]\npath = \"/a\"\nin_flight = \"wait\"",
                3,
                13,
                "`conflict`",
            ),
            (
                "[[route]]\npath = \"/a\"\nin_flight = { wait = \"0s\" }",
                3,
                22,
                "above zero",
            ),
            (
                "[[route]]\npath = \"/a\"\nin_flight = {}",
                3,
                13,
                "conflict",
            ),
            (
                "[[route]]\npath = \"/a\"\nin_flight = { template = { status = 200, body = '{' } }",
                3,
                49,
                "JSON",
            ),
            (
                "[[route]]\npath = \"/a\"\n[route.in_flight.template]\nstatus = 200\nbody = '{\"a\": {\"$request\": \"b\"}}'",
                5,
                8,
                "does not begin with /",
            ),
            (
                "[[route]]\npath = \"/a\"\nin_flight = { template = { status = 100, body = '{}' } }",
                3,
                37,
                "between 200 and 599",
            ),
            (
                "[[route]]\npath = \"/a\"\nin_flight = { template = { status = 200, headers = { content-length = \"1\" }, body = '{}' } }",
                3,
                54,
                "leave it out",
            ),
            (
                "[[route]]\npath = \"/a\"\ntemplates = { store_down = { status = 200, body = '{}' } }",
                3,
                15,
                "store_unavailable",
            ),
            (
                "[[route]]\npath = \"/a\"\n[route.templates.default]\nstatus = 99\nbody = '{}'",
                4,
                10,
                "between 200 and 599",
            ),
            (
                "[[route]]\npath = \"/a\"\n[route.templates.unknown]\nstatus = 204\nbody = '{}'",
                5,
                8,
                "use another status",
            ),
            (
                "[[route]]\npath = \"/a\"\n[route.templates.unknown]\nstatus = 200\nbody = '{'",
                5,
                8,
                "JSON",
            ),
            (
                "[[route]]\npath = \"/a\"\n[route.templates.unknown]\nstatus = 200\ncontent_type = \"xml\"\nbody = '<a/>'",
                5,
                16,
                "application/xml",
            ),
            (
                "[[route]]\npath = \"/a\"\n[route.templates.unknown]\nstatus = 200\nbody = '{}'\nheaders = { \"a b\" = \"c\" }",
                6,
                13,
                "not a header name",
            ),
            (
                "[[route]]\npath = \"/a\"\n[route.templates.unknown]\nstatus = 200\nbody = '{}'\nheaders = { a = \"\\n\" }",
                6,
                17,
                "not a header value",
            ),
            (
                "[[route]]\npath = \"/a\"\n[route.templates.unknown]\nstatus = 200\ncontent_type = \"text/csv\"\nbody = '{\"$request\": \"/a\"}'",
                6,
                8,
                "remove it",
            ),
            (
                "[[route]]\npath = \"/a\"\n[[route.templates.unknown.variants]]\nbody = '<a/>'\n[route.templates.unknown]\nstatus = 200\nbody = '{}'",
                3,
                1,
                "content_type",
            ),
            (
                "[[route]]\npath = \"/a\"\n[route.templates.in_flight]\nstatus = 200\nbody = '{}'\n[route.in_flight.template]\nstatus = 200\nbody = '{}'",
                2,
                8,
                "remove one of them",
            ),
            (
                "[defaults.templates.default]\nstatus = 200\nbody = '{'\n[[route]]\npath = \"/a\"\n[route.templates.unknown]\nstatus = 200\nbody = '{}'",
                3,
                8,
                "JSON",
            ),
            (
                "[[route]]\npath = \"/a\"\nunknown = \"redo\"",
                3,
                11,
                "`rerun`",
            ),
            (
                "[[route]]\npath = \"/a\"\nunknown = { probe = { path = \"/by/{id}\" } }",
                3,
                30,
                "{key}",
            ),
            (
                "[[route]]\npath = \"/a\"\nstore = [\"2xx\", \"9xx\"]",
                3,
                9,
                "not a status",
            ),
            (
                "[[route]]\npath = \"/a\"\nunstored = \"done\"",
                3,
                12,
                "`release`",
            ),
            (
                "[[route]]\npath = \"/a\"\nstore_down = \"ajar\"",
                3,
                14,
                "`closed`",
            ),
            (
                "[[route]]\npath = \"/a\"\nunidentified = true",
                3,
                16,
                "string",
            ),
            (
                "[[route]]\npath = \"/a\"\nheaders = [\"transfer-encoding\"]",
                3,
                11,
                "leave it out",
            ),
            ("[[route]]\npath = \"/a\"\nmax_body = 0", 3, 12, "1 or more"),
            ("[[route]]\npath = \"/a\"\nquota = 0", 3, 9, "between 1"),
            (
                "[[route]]\npath = \"/a\"\nswitch = \"dim\"",
                3,
                10,
                "`shadow`",
            ),
            ("[[route]]\npath = \"/a\"\nname = \"\"", 3, 8, "1 to 100"),
            (
                "[defaults]\npath = \"/a\"\n[[route]]\npath = \"/a\"",
                2,
                8,
                "a single route",
            ),
            (
                "[[route]]\npath = \"/a\"\n\n[[route]]\nname = \"b\"\npath = \"/a\"\nmethods = [\"PATCH\"]",
                6,
                8,
                "two policies",
            ),
            (
                "[[route]]\npath = \"/a\"\n[[route]]\nname = \"/a\"\npath = \"/b\"",
                5,
                8,
                "its own name",
            ),
            (
                "[[route]]\npath = \"/a/{b}\"\n[[route]]\npath = \"/a/{c}\"",
                4,
                8,
                "cannot be used",
            ),
            ("[[route]]\npath = \"/a", 2, 11, ""),
        ] {
            let detail = RoutesFile::parse(text).expect_err(text).to_string();
            let at = format!("line {line}, column {column}: ");
            assert!(detail.starts_with(&at), "{text}\n{detail}");
            assert!(detail.contains(says), "{text}\n{detail}");
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
