//! What can be asked, in OpenAPI 3.1: made from the routes themselves.

use utoipa::openapi::OpenApi;
use utoipa::openapi::info::InfoBuilder;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};

use super::routes;

/// The description of the whole API.
pub fn openapi() -> OpenApi {
    let mut api = routes::all().1;
    api.info = InfoBuilder::new()
        .title("Turno")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(
            "Things happen once, one at a time, and never get lost: locks with fencing tokens, a work inbox, an event outbox, \
             and requests that are answered once. Durations are texts such as 30s, or whole milliseconds; times are RFC 3339 \
             in UTC. Every error is a problem of RFC 9457 with a stable `code`.",
        ))
        .build();
    let bearer = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some("An access token, as `turno token create` printed it"))
        .build();
    api.components
        .get_or_insert_default()
        .add_security_scheme("token", SecurityScheme::Http(bearer));
    api.security = Some(vec![SecurityRequirement::new("token", [] as [&str; 0])]);
    // What is at the end of a path may have slashes; OpenAPI has no word for that.
    let paths = std::mem::take(&mut api.paths.paths);
    api.paths.paths = paths
        .into_iter()
        .map(|(path, item)| (path.replace("{*", "{"), item))
        .collect();
    api
}
