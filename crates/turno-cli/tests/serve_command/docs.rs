//! The server's page lists the server's problem codes. `tests/docs` checks that its commands work.

/// The page's table has each problem code, and no other.
#[test]
fn the_page_names_every_code_with_its_status() {
    let codes_file = include_str!("../../../turno-server/src/http/problem_code.rs");
    let page = include_str!("../../../../docs/serve.md");
    let mut lines = codes_file
        .lines()
        .map(str::trim)
        .skip_while(|line| !line.contains("fn entry"));
    let mut codes = Vec::new();
    while let Some(line) = lines.next() {
        if !line.starts_with("ProblemCode::") || !line.contains("=> (") {
            continue;
        }
        let word = lines.next().unwrap().trim_matches(['"', ',']);
        codes.push(word);
    }
    assert!(codes.len() > 20, "{codes:?}");
    let rows: Vec<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once("` | "))
        .filter(|(_, rest)| rest.starts_with(['4', '5']))
        .map(|(code, _)| code)
        .collect();
    assert_eq!(rows, codes);
}
