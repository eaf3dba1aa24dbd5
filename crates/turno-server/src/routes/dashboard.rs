//! The dashboard: a web page for the operator on call. Its files in `crates/turno-server/dashboard` are served as they are,
//! without a build step and without third-party code.
//!
//! The page uses the public API with the access token that the user types in. It has no cookie, so a page of another site
//! cannot make requests in the user's name.

use std::sync::{Arc, LazyLock};

use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH, REFERRER_POLICY,
};
use http::{HeaderMap, StatusCode};
use sha2::{Digest, Sha256};
use turno::problem::ProblemCode;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::http::problem::Problem;

/// Content security policy: scripts, styles and data come from this server only, and no text becomes markup.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
                      trusted-types 'none'";

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

macro_rules! file {
    ($name:literal, $kind:expr) => {
        (
            $name,
            $kind,
            include_str!(concat!("../../dashboard/", $name)),
        )
    };
}

/// All files: name, content type, text.
const FILES: &[(&str, &str, &str)] = &[
    file!("index.html", HTML),
    file!("style.css", CSS),
    file!("parts.css", CSS),
    file!("icon.svg", SVG),
    file!("main.js", SCRIPT),
    file!("api.js", SCRIPT),
    file!("stream.js", SCRIPT),
    file!("state.js", SCRIPT),
    file!("samples.js", SCRIPT),
    file!("dom.js", SCRIPT),
    file!("list.js", SCRIPT),
    file!("format.js", SCRIPT),
    file!("plot.js", SCRIPT),
    file!("words.js", SCRIPT),
    file!("en.js", SCRIPT),
    file!("es.js", SCRIPT),
    file!("settings.js", SCRIPT),
    file!("ask.js", SCRIPT),
    file!("actions.js", SCRIPT),
    file!("keys.js", SCRIPT),
    file!("locks.js", SCRIPT),
    file!("queues.js", SCRIPT),
    file!("failed.js", SCRIPT),
    file!("outbox.js", SCRIPT),
    file!("once.js", SCRIPT),
    file!("history.js", SCRIPT),
];

/// A file and its ETag.
struct File {
    name: &'static str,
    kind: &'static str,
    text: &'static str,
    etag: String,
}

static SERVED: LazyLock<Vec<File>> = LazyLock::new(|| {
    let served = |&(name, kind, text): &(&'static str, &'static str, &'static str)| {
        let hash = Sha256::digest(text);
        let etag = hash.iter().take(12).map(|byte| format!("{byte:02x}"));
        File {
            name,
            kind,
            text,
            etag: format!("\"{}\"", etag.collect::<String>()),
        }
    };
    FILES.iter().map(served).collect()
});

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(page))
        .route("/dashboard/{file}", get(file))
}

/// The dashboard: locks, queues, events, once keys and history, for operators.
#[utoipa::path(
    get,
    path = "/",
    tag = "admin",
    security(()),
    responses(
        (status = 200, body = String, content_type = "text/html"),
        (status = 304, description = "The file matches `if-none-match`"),
    ),
)]
async fn page(headers: HeaderMap) -> Response {
    answer("index.html", &headers)
}

async fn file(Path(name): Path<String>, headers: HeaderMap) -> Response {
    answer(&name, &headers)
}

fn answer(name: &str, headers: &HeaderMap) -> Response {
    let Some(file) = SERVED.iter().find(|file| file.name == name) else {
        return Problem::new(ProblemCode::NotFound).into_response();
    };
    let of_file = [
        (ETAG, file.etag.as_str()),
        // Browsers revalidate the file each time, so that a new page is used right after an upgrade of the server.
        (CACHE_CONTROL, "no-cache"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (REFERRER_POLICY, "no-referrer"),
    ];
    let is_known = headers
        .get_all(IF_NONE_MATCH)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|known| known.trim().trim_start_matches("W/") == file.etag);
    if is_known {
        return (StatusCode::NOT_MODIFIED, of_file).into_response();
    }
    (of_file, [(CONTENT_TYPE, file.kind)], file.text).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_small() {
        let bytes: usize = FILES.iter().map(|(_, _, text)| text.len()).sum();
        assert!(
            bytes < 100_000,
            "the dashboard has {bytes} bytes: make it smaller"
        );
    }

    #[test]
    fn every_file_is_served_and_no_other_is_named() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("dashboard");
        for entry in std::fs::read_dir(folder).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            assert!(
                FILES.iter().any(|file| file.0 == name),
                "{name} is not in FILES"
            );
        }
    }

    /// Only the page itself creates markup. The content security policy demands the same.
    #[test]
    fn no_script_makes_markup_and_no_markup_has_scripts() {
        for (name, kind, text) in FILES {
            let never: &[&str] = match *kind {
                SCRIPT => &[
                    "innerHTML",
                    "outerHTML",
                    "insertAdjacent",
                    "document.write",
                    "eval(",
                    "DOMParser",
                ],
                HTML => &[
                    " style=",
                    " onclick=",
                    " onload=",
                    "<style",
                    "http://",
                    "https://",
                    "//cdn",
                ],
                _ => &["@import", "url(http"],
            };
            for word in never {
                assert!(!text.contains(word), "{name} has {word}");
            }
        }
    }
}
