//! Routes files: errors of invalid ones, and the explanation of a valid one.

use crate::common::{Fixture, Kind, text};

fn check(fixture: &Fixture, routes: &str) -> crate::common::Done {
    std::fs::write(fixture.path("routes.toml"), routes).unwrap();
    fixture.turno("--json gate --check --routes routes.toml")
}

#[test]
fn a_bad_file_is_refused_with_the_place_of_what_is_wrong() {
    let fixture = Fixture::new(Kind::Sqlite);
    for (routes, line, says) in [
        ("", 1, "[[route]]"),
        ("[[route]]\npath = \"a\"", 2, "is not a path"),
        ("[[route]]\npath = \"/a\"\nunknown = \"redo\"", 3, "rerun"),
        ("[[route]]\npath = \"/a\"\n\nttl = \"soon\"", 4, "30s"),
        (
            "[[route]]\npath = \"/a\"\nkey = { header = \"a b\" }",
            3,
            "header",
        ),
        (
            "[[route]]\npath = \"/a\"\nin_flight = { template = { status = 200, body = '{' } }",
            3,
            "JSON",
        ),
        (
            "[[route]]\npath = \"/a\"\n[[route]]\nname = \"b\"\npath = \"/a\"",
            5,
            "two policies",
        ),
        ("[[route]]\npath = \"/a\"\ntll = 5", 3, "unknown field"),
        ("[[route]\n", 1, ""),
    ] {
        let refused = check(&fixture, routes).expect(2).error();
        assert_eq!(
            (text(&refused, "code"), text(&refused, "field")),
            ("invalid", "routes")
        );
        let detail = text(&refused, "detail");
        let at = format!("routes.toml, line {line}, column ");
        assert!(
            detail.starts_with(&at) && detail.contains(says),
            "{routes}\n{detail}"
        );
    }
    let refused = fixture.turno("gate --check --routes none.toml").expect(2);
    assert!(
        refused.err.contains("none.toml cannot be read"),
        "{refused:?}"
    );
}

#[test]
fn a_good_file_is_explained() {
    let fixture = Fixture::new(Kind::Sqlite);
    let example = std::fs::read_to_string("../../examples/gate/routes.toml").unwrap();
    let output = check(&fixture, &example).expect(0).json();
    let route = &output["routes"][0];
    assert_eq!(
        (
            text(route, "name"),
            text(route, "key"),
            route["ttl_ms"].as_u64()
        ),
        ("certificacion", "content", Some(0))
    );
    assert_eq!(output["routes"][2]["switch"], "shadow");
    let output = fixture.turno("gate --check --routes routes.toml").expect(0);
    for said in [
        "POST /disposicionimss/certificacion",
        "200 with a custom response",
        "only duplicates in flight are rejected",
        "probe: GET /pagos/by-key/{key}",
        "shadow: counts duplicates, and changes nothing",
        "kept for 24h",
    ] {
        assert!(output.out.contains(said), "{said}: {}", output.out);
    }
}
