//! The commands that docs/from-sql.md passes to pg_cron work as the role that it names, and only with that role's rights.
//!
//! pg_cron itself is not part of the tests: it runs the command unchanged, as one statement of an ordinary session.

use turno_testkit::PostgresServer;

use crate::block::{BlockKind, blocks};
use crate::common::{Fixture, Kind, ask_postgres};
use crate::known::Known;
use crate::sql::Session;

/// Returns the text between dollar quotes of each call of `cron.schedule…`.
fn commands() -> Vec<String> {
    let page = include_str!("../../../../docs/from-sql.md");
    let blocks = blocks(page).unwrap();
    let excerpts = blocks
        .iter()
        .filter(|block| block.kind == BlockKind::Excerpt);
    let calls = excerpts.filter(|block| block.text.contains("cron.schedule"));
    calls
        .map(|block| block.text.split("$$").nth(1).unwrap().to_owned())
        .collect()
}

#[test]
fn a_scheduled_sweep_works_as_an_operator_and_not_as_an_application() {
    let server = PostgresServer::shared();
    let fixture = Fixture::new(Kind::Postgres);
    fixture.turno(&["migrate"]).expect(0);
    let (_, database) = fixture.store.rsplit_once('/').unwrap();
    let operator = server.url_as("operator", database);
    let commands = commands();
    assert_eq!(commands.len(), 2, "{commands:?}");
    for command in &commands {
        let before = fixture.ask("select at from {sweep_last}()");
        ask_postgres(&operator, command);
        assert_ne!(fixture.ask("select at from {sweep_last}()"), before);
        assert_eq!(fixture.ask("select \"by\" from {sweep_last}()"), "operator");
        // The control: the rights of an application are not sufficient.
        let application = Session::new(&server.url_as("app", database));
        application.run(
            &mut Known::default(),
            &format!("{command};\n-- ERROR 42501\n"),
        );
    }
}
