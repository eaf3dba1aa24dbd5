//! The OpenAPI description as released. To update it: `TURNO_UPDATE_GOLDEN=1 cargo xtask test golden`.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;
use turno_server::openapi;

use crate::common::Running;

const METHODS: [&str; 5] = ["get", "put", "post", "delete", "patch"];

pub fn described() -> Value {
    serde_json::to_value(openapi()).unwrap()
}

/// Returns each operation, with its method and its path.
pub fn operations(api: &Value) -> impl Iterator<Item = (&str, &str, &Value)> {
    let paths = api["paths"].as_object().unwrap();
    paths.iter().flat_map(|(path, item)| {
        METHODS
            .iter()
            .filter_map(move |method| Some((*method, path.as_str(), item.get(method)?)))
    })
}

#[test]
fn golden_openapi() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/openapi.json");
    let now = openapi().to_pretty_json().unwrap() + "\n";
    if std::env::var_os("TURNO_UPDATE_GOLDEN").is_some() {
        std::fs::write(&golden, &now).unwrap();
    }
    let kept = std::fs::read_to_string(&golden).unwrap_or_default();
    assert!(
        kept == now,
        "{} is not what the server has: look at the change, then run this test with TURNO_UPDATE_GOLDEN=1",
        golden.display()
    );
}

/// A server returns the same description as the file; without authentication, it requires no token.
#[tokio::test]
async fn a_server_hands_out_its_description() {
    let server = Running::start().await;
    let response = server.get("/openapi.json").await.expect(200);
    assert_eq!(response["security"], Value::Null, "no token is needed");
    let mut wants = described();
    wants.as_object_mut().unwrap().remove("security");
    assert_eq!(response, wants);
    server.end().await;
}

#[test]
fn every_operation_is_described() {
    let api = described();
    assert_eq!(api["openapi"], "3.1.0");
    assert!(api["security"][0]["token"].is_array(), "tokens, as a rule");
    let mut ids = BTreeSet::new();
    for (method, path, operation) in operations(&api) {
        let named = format!("{method} {path}");
        let id = operation["operationId"].as_str().unwrap_or_default();
        assert!(
            !id.is_empty() && id.chars().all(|c| c.is_ascii_lowercase() || c == '_'),
            "{named}: {id:?} is not noun_verb"
        );
        assert!(ids.insert(id), "{named}: there are two {id}");
        assert!(operation["tags"][0].is_string(), "{named} has no tag");
        let summary = operation["summary"].as_str().unwrap_or_default();
        assert!(!summary.is_empty(), "{named} has no summary");
        // Operations without a token say so; all others use the global rule.
        let is_open = !path.starts_with("/v1/") && path != "/metrics";
        assert_eq!(operation.get("security").is_some(), is_open, "{named}");
        let in_path: BTreeSet<&str> = path
            .split('{')
            .skip(1)
            .map(|rest| rest.split('}').next().unwrap())
            .collect();
        let parameters = operation["parameters"].as_array().into_iter().flatten();
        let described = parameters
            .filter(|parameter| parameter["in"] == "path")
            .map(|parameter| parameter["name"].as_str().unwrap());
        assert_eq!(in_path, described.collect(), "{named}");
        answers(&api, &named, operation);
    }
    assert!(ids.len() > 7, "only {ids:?}");
}

fn answers(api: &Value, named: &str, operation: &Value) {
    let responses = operation["responses"].as_object().unwrap();
    assert!(
        responses.keys().any(|status| status.starts_with('2')),
        "{named} never succeeds"
    );
    for (status, response) in responses {
        let response = resolved(api, response);
        let status: u16 = status
            .parse()
            .unwrap_or_else(|_| panic!("{named}: {status} says nothing"));
        let words = response["description"].as_str().unwrap_or_default();
        assert!(!words.is_empty(), "{named}: {status} is not described");
        if status >= 400 {
            let schema = &response["content"]["application/problem+json"]["schema"]["$ref"];
            assert_eq!(
                *schema, "#/components/schemas/Problem",
                "{named}: {status} is no problem"
            );
        }
    }
}

fn resolved<'a>(api: &'a Value, value: &'a Value) -> &'a Value {
    let Some(reference) = value["$ref"].as_str() else {
        return value;
    };
    let pointer = reference.strip_prefix('#').unwrap();
    api.pointer(pointer)
        .unwrap_or_else(|| panic!("{reference} leads nowhere"))
}

#[test]
fn every_reference_leads_somewhere() {
    fn walk(api: &Value, value: &Value, seen: &mut usize) {
        match value {
            Value::Object(object) => {
                if object.get("$ref").is_some_and(Value::is_string) {
                    resolved(api, value);
                    *seen += 1;
                }
                object.values().for_each(|inner| walk(api, inner, seen));
            }
            Value::Array(array) => array.iter().for_each(|inner| walk(api, inner, seen)),
            _ => {}
        }
    }
    let api = described();
    let mut seen = 0;
    walk(&api, &api, &mut seen);
    assert!(seen > 50, "only {seen} references were looked at");
}

/// The description of a problem response names its code, and each code is described where it is returned.
#[test]
fn every_code_is_described() {
    let api = described();
    let codes = api["components"]["schemas"]["Problem"]["properties"]["code"]["enum"]
        .as_array()
        .unwrap();
    let codes: BTreeSet<&str> = codes.iter().map(|code| code.as_str().unwrap()).collect();
    assert!(codes.contains("busy") && codes.contains("broken"));
    let responses = api["components"]["responses"].as_object().unwrap();
    let descriptions: String = responses
        .values()
        .map(|response| response["description"].as_str().unwrap())
        .collect();
    for code in &codes {
        assert!(descriptions.contains(&format!("`{code}`: ")), "{code}");
    }
    for (method, path, operation) in operations(&api) {
        for (status, response) in operation["responses"].as_object().unwrap() {
            let words = resolved(&api, response)["description"].as_str().unwrap();
            let named = words.split('`').skip(1).step_by(2);
            let is_problem = status.as_str() >= "400";
            assert!(
                !is_problem || path == "/readyz" || named.clone().any(|word| codes.contains(word)),
                "{method} {path}: {status} names no code: {words:?}"
            );
        }
    }
}
