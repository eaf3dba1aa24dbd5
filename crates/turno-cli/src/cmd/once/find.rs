//! `turno once --find`: the once key of a request that came through a gate.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Request};
use turno::once::http::KeyFrom;
use turno_server::gate::config::Route;

use super::status;
use crate::cmd::gate::{identities, read_routes};
use crate::context::Context;
use crate::fail::Usage;

#[derive(Debug, Args)]
pub(super) struct FindArgs {
    /// Find: routes file of the gate
    // The environment may set this for every gate, so no option conflicts with it.
    #[arg(
        long,
        env = "TURNO_ROUTES",
        hide_env_values = true,
        value_name = "FILE"
    )]
    routes: Option<PathBuf>,

    /// Find: name of the route
    #[arg(long, value_name = "NAME", requires = "find")]
    route: Option<String>,

    /// Find: key that the client sent
    #[arg(long = "key", value_name = "KEY", requires = "find")]
    client_key: Option<String>,

    /// Find: header that identifies the sender or the tenant of the request; can be repeated
    #[arg(long, value_name = "NAME: VALUE", requires = "find")]
    header: Vec<String>,

    /// Find: path of the request, if the path of the route has parameters
    #[arg(long, value_name = "PATH", requires = "find")]
    path: Option<String>,

    /// Find: method of the request [default: the first method of the route]
    #[arg(long, value_name = "METHOD", requires = "find")]
    method: Option<Method>,

    /// Find: file with the body of the request, if the content is the key
    #[arg(long, value_name = "FILE", requires = "find")]
    body_file: Option<PathBuf>,

    /// Find: file with the secret of the gate
    #[arg(long, value_name = "FILE", requires = "find")]
    secret_file: Option<PathBuf>,
}

pub(super) async fn run(context: &Context, args: FindArgs) -> Result<ExitCode> {
    let Some(routes) = &args.routes else {
        return Err(Usage::new("routes", "name the routes file of the gate with --routes").into());
    };
    let routes = read_routes(routes)?;
    let name = args.route.as_deref().unwrap_or_default();
    let mut list = routes.list().iter();
    let route = list.find(|route| route.name() == name).ok_or_else(|| {
        Usage::new(
            "route",
            format!("the routes file has no route {name:?}: name one with --route"),
        )
    })?;
    let body = match &args.body_file {
        Some(file) => std::fs::read(file).map_err(|error| {
            Usage::new(
                "body_file",
                format!("{} cannot be read ({error})", file.display()),
            )
        })?,
        None => Vec::new(),
    };
    let identities = identities(args.secret_file.as_deref())?;
    let head = args.head(route)?;
    let policy = route.policy_without_probe();
    let key = policy.store_key(&identities, &head, &body.into())?;
    status::run(context, &key).await
}

impl FindArgs {
    /// Returns the parts of the request that determine its key.
    fn head(&self, route: &Route) -> Result<Parts> {
        let path = match &self.path {
            Some(path) => path.as_str(),
            None if route.path().contains('{') => {
                let detail = format!(
                    "the path of the route is {}: give the path of the request with --path",
                    route.path()
                );
                return Err(Usage::new("path", detail).into());
            }
            None => route.path(),
        };
        let method = self.method.as_ref().or(route.methods().first());
        let request = Request::builder()
            .method(method.unwrap_or(&Method::POST))
            .uri(path)
            .body(())
            .map_err(|error| Usage::new("path", format!("{path:?} is not a path ({error})")))?;
        let mut head = request.into_parts().0;
        for header in &self.header {
            let (name, value) = named(header)?;
            head.headers.append(name, value);
        }
        if let (KeyFrom::Header(name), Some(key)) = (route.key(), &self.client_key) {
            let key = HeaderValue::from_str(key)
                .map_err(|_| Usage::new("key", "a key consists of visible ASCII characters"))?;
            head.headers.insert(name.clone(), key);
        }
        Ok(head)
    }
}

fn named(header: &str) -> Result<(HeaderName, HeaderValue)> {
    let parts = header.split_once(':');
    let parsed = parts
        .and_then(|(name, value)| Some((name.trim().parse().ok()?, value.trim().parse().ok()?)));
    parsed.ok_or_else(|| {
        let detail = format!("{header:?} is not a header: write, for example, \"x-user: ana\"");
        Usage::new("header", detail).into()
    })
}
