//! The guide to the server lists every problem code. `tests/docs` executes its commands.

use turno::problem::{ProblemCode, ProblemSource};

/// The table of the guide has each problem code of the server with its status, and no other.
#[test]
fn the_page_names_every_code_with_its_status() {
    let page = include_str!("../../../../docs/serve.md");
    let codes: Vec<(&str, String)> = ProblemCode::ALL
        .iter()
        .filter(|code| code.source() == ProblemSource::Server)
        .map(|code| (code.as_str(), code.status().as_u16().to_string()))
        .collect();
    let rows: Vec<(&str, String)> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once("` | "))
        .filter(|(_, rest)| rest.starts_with(['4', '5']))
        .map(|(code, rest)| (code, rest.chars().take(3).collect()))
        .collect();
    assert_eq!(rows, codes);
}
