//! The OpenAPI 3.1 description: completes what the routes declare.
//!
//! A route declares its own responses. The problems that any request may get are added here from the table of codes, so that
//! the description is complete and has no response that cannot occur. Every response with a status from 400 has a problem as
//! its body.

use std::collections::BTreeMap;

use http::StatusCode;
use serde_json::json;
use turno::lock::Language;
use turno::problem::{ProblemCode, ProblemSource};
use turno_api::problem::Problem;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::info::InfoBuilder;
use utoipa::openapi::path::{Operation, ParameterIn, PathItem};
use utoipa::openapi::schema::{ObjectBuilder, Schema, SchemaType, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{Components, ContentBuilder, OpenApi, Ref, RefOr, Response, ResponseBuilder};
use utoipa::{PartialSchema, ToSchema};

/// Content type of a problem.
const PROBLEM: &str = "application/problem+json";

/// Completes the description of the routes, as a server that requires access tokens serves it.
pub(crate) fn describe(mut api: OpenApi) -> OpenApi {
    api.info = InfoBuilder::new()
        .title("Turno")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(
            "Things happen once, one at a time, and never get lost: locks with fencing tokens, a work inbox, an event outbox, \
             and requests that are answered once. Durations are texts with their unit, such as 30s; times are RFC 3339 \
             in UTC. Every error is a problem of RFC 9457 with a stable `code`.",
        ))
        .build();
    let components = api.components.get_or_insert_default();
    let bearer = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some("An access token, as printed by `turno token create`"))
        .build();
    components.add_security_scheme("token", SecurityScheme::Http(bearer));
    let mut schemas = vec![(Problem::name().into_owned(), Problem::schema())];
    Problem::schemas(&mut schemas);
    components.schemas.extend(schemas);
    components.responses = problems();
    list_codes(components);
    api.security = Some(vec![SecurityRequirement::new("token", [] as [&str; 0])]);
    // The last parameter of a path may contain slashes, which OpenAPI cannot express.
    let paths = std::mem::take(&mut api.paths.paths);
    api.paths.paths = paths
        .into_iter()
        .map(|(path, item)| (path.replace("{*", "{"), item))
        .collect();
    api.paths
        .paths
        .values_mut()
        .flat_map(operations)
        .for_each(complete);
    api
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [
        &mut item.get,
        &mut item.put,
        &mut item.post,
        &mut item.delete,
        &mut item.patch,
    ]
    .into_iter()
    .flatten()
}

/// Returns one response per status of the problems, with the codes that it may have.
fn problems() -> BTreeMap<String, RefOr<Response>> {
    let mut by_status: BTreeMap<u16, Vec<ProblemCode>> = BTreeMap::new();
    for code in server_codes() {
        by_status
            .entry(code.status().as_u16())
            .or_default()
            .push(code);
    }
    let answer = |codes: &[ProblemCode]| {
        let lines: Vec<String> = codes.iter().map(|code| describe_code(*code)).collect();
        let mut answer = ResponseBuilder::new()
            .description(lines.join("\n\n"))
            .content(PROBLEM, problem_content());
        let header = |kind, words| {
            HeaderBuilder::new()
                .schema(Some(
                    ObjectBuilder::new().schema_type(SchemaType::new(kind)),
                ))
                .description(Some(words))
                .build()
        };
        if codes.iter().any(|code| code.is_transient()) {
            answer = answer.header(
                "retry-after",
                header(
                    Type::Integer,
                    "Number of seconds after which a retry may succeed",
                ),
            );
        }
        if codes.contains(&ProblemCode::Unauthorized) {
            answer = answer.header(
                "www-authenticate",
                header(Type::String, "How to authenticate"),
            );
        }
        RefOr::T(answer.build())
    };
    by_status
        .iter()
        .map(|(status, codes)| (response_name(*status), answer(codes)))
        .collect()
}

fn describe_code(code: ProblemCode) -> String {
    let (title, next) = code.text(Language::English);
    format!("`{}`: {title}. {next}", code.as_str())
}

/// Returns the codes with which the server responds.
fn server_codes() -> impl Iterator<Item = ProblemCode> {
    let all = ProblemCode::ALL.iter().copied();
    all.filter(|code| code.source() == ProblemSource::Server)
}

fn problem_content() -> ContentBuilder {
    ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem")))
}

/// Name of a status's response among the components.
fn response_name(status: u16) -> String {
    format!("Problem{status}")
}

/// Lists all codes in the description of a problem's code.
fn list_codes(components: &mut Components) {
    let Some(RefOr::T(Schema::Object(problem))) = components.schemas.get_mut("Problem") else {
        return;
    };
    let Some(RefOr::T(Schema::Object(code))) = problem.properties.get_mut("code") else {
        return;
    };
    code.enum_values = Some(server_codes().map(|code| json!(code.as_str())).collect());
}

/// Adds what a route need not declare: the problems that any request of its kind may get, and missing descriptions.
fn complete(operation: &mut Operation) {
    let general = general_statuses(operation);
    let summary = operation.summary.clone().unwrap_or_default();
    let responses = &mut operation.responses.responses;
    for status in general {
        responses
            .entry(status.as_str().to_owned())
            .or_insert_with(|| Ref::from_response_name(response_name(status.as_u16())).into());
    }
    for (status, response) in responses {
        let RefOr::T(response) = response else {
            continue;
        };
        if status.starts_with(['4', '5']) {
            response
                .content
                .entry(PROBLEM.to_owned())
                .or_insert_with(|| RefOr::T(problem_content().build()));
        }
        if response.description.is_empty() {
            response.description.clone_from(&summary);
        }
    }
}

/// Returns the statuses with which any request of this kind may be rejected.
fn general_statuses(operation: &Operation) -> Vec<StatusCode> {
    let has_body = operation.request_body.is_some();
    let mut parameters = operation.parameters.iter().flatten();
    let has_parameters = parameters.clone().next().is_some();
    let has_name = parameters.any(|parameter| {
        matches!(parameter, RefOr::T(parameter) if parameter.parameter_in == ParameterIn::Path)
    });
    let mut statuses = vec![
        StatusCode::TOO_MANY_REQUESTS,
        StatusCode::SERVICE_UNAVAILABLE,
    ];
    // Routes without authentication declare an empty security requirement.
    if operation.security.is_none() {
        statuses.extend([
            StatusCode::UNAUTHORIZED,
            StatusCode::FORBIDDEN,
            StatusCode::MISDIRECTED_REQUEST,
        ]);
    }
    if has_body {
        statuses.extend([
            StatusCode::BAD_REQUEST,
            StatusCode::REQUEST_TIMEOUT,
            StatusCode::PAYLOAD_TOO_LARGE,
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
        ]);
    }
    if has_name {
        statuses.extend([StatusCode::BAD_REQUEST, StatusCode::NOT_FOUND]);
    }
    if has_body || has_parameters {
        statuses.push(StatusCode::UNPROCESSABLE_ENTITY);
    }
    statuses
}
