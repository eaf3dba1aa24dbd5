//! The routes file: parsed and checked. Errors name the line and column.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use http::{HeaderName, Method};
use serde::Deserialize;
use toml::Spanned;
use turno::once::http::{KeyFrom, Policy, Routes};
use turno_server::gate::Upstream;

use super::route::{Keys, Route};
use crate::fail::Usage;

/// The file as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Said {
    #[serde(default)]
    defaults: Keys,
    #[serde(default)]
    route: Vec<Spanned<Keys>>,
}

/// The file with all defaults applied.
#[derive(Debug)]
pub(crate) struct RoutesFile {
    pub(super) routes: Vec<Route>,
}

impl RoutesFile {
    /// Returns the policies for the service behind the gate.
    pub(crate) fn routes(&self, upstream: &Upstream) -> turno::Result<Routes> {
        self.routes.iter().try_fold(Routes::new(), |routes, route| {
            routes.add(&route.path, route.policy(upstream))
        })
    }
}

/// The parts of a route that determine the once keys of its requests.
#[derive(Debug)]
pub(crate) struct Found<'a> {
    pub(crate) policy: Policy,
    pub(crate) path: &'a str,
    /// The first of its methods.
    pub(crate) method: Method,
    /// Header with the client's key; `None` if the key is derived from the content.
    pub(crate) key_header: Option<HeaderName>,
}

impl RoutesFile {
    /// Returns the route with this name.
    pub(crate) fn find(&self, name: &str) -> Option<Found<'_>> {
        let route = self.routes.iter().find(|route| route.name == name)?;
        let anywhere: Upstream = "http://localhost".parse().ok()?;
        Some(Found {
            policy: route.policy(&anywhere),
            path: &route.path,
            method: route.methods.first()?.clone(),
            key_header: match &route.key {
                KeyFrom::Content => None,
                KeyFrom::Header(name) => Some(name.clone()),
            },
        })
    }
}

/// Reads a routes file.
pub(crate) fn read(path: &Path) -> Result<RoutesFile, Usage> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        Usage::new(
            "routes",
            format!(
                "{} cannot be read ({error}): give the routes file with --routes",
                path.display()
            ),
        )
    })?;
    parse(path, &text)
}

fn parse(path: &Path, text: &str) -> Result<RoutesFile, Usage> {
    let wrong = |span: Option<Range<usize>>, message: &str| {
        let (line, column) = place(text, span.map_or(0, |span| span.start));
        let detail = format!(
            "{}, line {line}, column {column}: {message}",
            path.display()
        );
        Usage::new("routes", detail)
    };
    let said: Said = toml::from_str(text).map_err(|error| wrong(error.span(), error.message()))?;
    said.defaults
        .are_defaults()
        .map_err(|(span, message)| wrong(Some(span), message))?;
    if said.route.is_empty() {
        return Err(wrong(None, "there is no route: add [[route]] with a path"));
    }
    let mut known = Known::default();
    let mut routes = Vec::new();
    for keys in said.route {
        let span = keys.span();
        let route = keys
            .into_inner()
            .over(&said.defaults)
            .and_then(|(route, at)| known.add(&route, at).map(|()| route))
            .map_err(|(at, message)| wrong(Some(at.unwrap_or(span)), &message))?;
        routes.push(route);
    }
    Ok(RoutesFile { routes })
}

/// An error, and its place in the file if it has one.
pub(super) type Wrong = (Option<Range<usize>>, String);

/// The routes so far, to detect conflicts.
#[derive(Default)]
struct Known {
    routes: Routes,
    names: BTreeMap<String, String>,
}

impl Known {
    fn add(&mut self, route: &Route, at: Range<usize>) -> Result<(), Wrong> {
        if let Some(other) = self.names.insert(route.name.clone(), route.path.clone()) {
            return Err((
                Some(at),
                format!(
                    "the name {:?} is already used by {other}: give each route its own name",
                    route.name
                ),
            ));
        }
        // The address does not matter: only paths and methods are compared.
        let anywhere: Upstream = "http://localhost"
            .parse()
            .map_err(|error| (None, format!("{error}")))?;
        let routes = std::mem::take(&mut self.routes);
        self.routes = routes
            .add(&route.path, route.policy(&anywhere))
            .map_err(|error| (Some(at), error.to_string()))?;
        Ok(())
    }
}

/// Returns line and column of an offset, from 1.
fn place(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let start = before.rfind('\n').map_or(0, |end| end + 1);
    (line, before[start..].chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(text: &str) -> String {
        let usage = parse(Path::new("routes.toml"), text).expect_err(text);
        assert_eq!(usage.field, "routes");
        usage.detail
    }

    #[test]
    fn the_example_is_valid() {
        let text = include_str!("../../../../examples/gate/routes.toml");
        let file = parse(Path::new("routes.toml"), text).unwrap();
        let upstream = "http://localhost".parse().unwrap();
        file.routes(&upstream).unwrap();
        assert!(file.routes.len() > 1);
        let certificacion = &file.routes[0];
        assert_eq!(certificacion.name, "certificacion");
        assert!(certificacion.ttl.is_zero());
        assert_eq!(certificacion.lease.as_secs(), 30);
    }

    /// An error in a list has the place of the list, and its own message.
    #[test]
    fn what_is_wrong_is_named_with_its_line_and_column() {
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
                26,
                "between 200 and 599",
            ),
            (
                "[[route]]\npath = \"/a\"\nin_flight = { template = { status = 200, headers = { content-length = \"1\" }, body = '{}' } }",
                3,
                54,
                "leave it out",
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
            let detail = refused(text);
            let at = format!("routes.toml, line {line}, column {column}: ");
            assert!(detail.starts_with(&at), "{text}\n{detail}");
            assert!(detail.contains(says), "{text}\n{detail}");
        }
    }

    #[test]
    fn a_route_goes_over_the_defaults() {
        let text =
            "[defaults]\nlease = \"10s\"\nttl = \"1h\"\n[[route]]\npath = \"/a\"\nttl = \"2h\"";
        let file = parse(Path::new("routes.toml"), text).unwrap();
        let route = &file.routes[0];
        assert_eq!((route.lease.as_secs(), route.ttl.as_secs()), (10, 7200));
        assert_eq!(route.name, "/a", "unless it has one");
    }
}
