//! Executes a page from its beginning to its end, as a reader would do it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::OnceLock;

use turno_testkit::{PostgresServer, Process};

use crate::block::{Block, BlockKind, Language, Program, blocks};
use crate::common::{Fixture, Kind};
use crate::known::Known;
use crate::sql::Session;
use crate::{program, shell};

/// URL of the database in the pages.
const DATABASE: &str = "postgres://app@db/app";
/// The same for Java.
const JDBC: &str = "jdbc:postgresql://db/app?user=app";
/// The same database, as an administrator: used where an owner may not create roles and databases.
const ADMINISTRATOR: &str = "postgres://postgres@db/app";
/// The same database, as a role that a page creates for sweeping.
const SWEEPER: &str = "postgres://sweeper@db/app";
/// As on readers' servers, and as `turno doctor` requires.
const DURABLE: [(&str, &str); 2] = [("fsync", "on"), ("full_page_writes", "on")];
/// Tables that readers already have.
const TABLES: &str = "
    create table notes (id integer primary key, user_id integer, body text);
    insert into notes (id, user_id, body) values (1, 7, 'one'), (2, 7, 'two');
    create table prestamo (id integer primary key, saldo numeric not null);
    insert into prestamo values (123, 1000);
    create table ticket (id integer primary key, title text not null);
    create table sent (presentation integer primary key);
    create table payment (id integer primary key, amount numeric not null);
";
/// Programs that readers already have.
const SCRIPTS: [&str; 3] = ["report.sh", "invoice.sh", "charge"];

pub struct Page {
    pub fixture: Fixture,
    pub known: Known,
    pub variables: BTreeMap<String, String>,
    /// Started processes, until the end of the page.
    pub servers: Vec<Process>,
    session: Option<Session>,
}

impl Page {
    /// Creates a page on an existing store, without known values.
    fn at(fixture: Fixture) -> Self {
        prepare(&fixture);
        Page {
            fixture,
            known: Known::default(),
            variables: BTreeMap::new(),
            servers: Vec::new(),
            session: None,
        }
    }

    fn new(blocks: &[Block]) -> Self {
        let on_postgres = blocks.iter().any(|block| {
            matches!(
                block.kind,
                BlockKind::Run(Language::Sql | Language::Program(_))
            ) || block.kind == BlockKind::Run(Language::Shell) && block.text.contains(DATABASE)
        });
        let mut fixture = Fixture::new(Kind::Sqlite);
        if on_postgres {
            (fixture.kind, fixture.store) = (Kind::Postgres, server().create_database());
        }
        prepare(&fixture);
        let mut known = Known::default();
        let mut session = None;
        if on_postgres {
            remember_database(&mut known, &fixture.store);
            let (_, name) = fixture.store.rsplit_once('/').unwrap();
            known.remember("app_restored", &format!("{name}_restored"));
            known.remember(ADMINISTRATOR, &server().superuser_url(name));
            known.remember(SWEEPER, &server().url_as("sweeper", name));
            known.remember("_restored owner app", "_restored owner owner");
            session = Some(Session::new(&fixture.store));
        }
        Page {
            fixture,
            known,
            variables: BTreeMap::new(),
            servers: Vec::new(),
            session,
        }
    }
}

/// Records the URL of the pages' database.
fn remember_database(known: &mut Known, store: &str) {
    known.remember(DATABASE, store);
    let url = store.strip_prefix("postgres://owner@").unwrap();
    known.remember(JDBC, &format!("jdbc:postgresql://{url}?user=owner"));
}

/// Returns the known values for a page's program with this server and database.
pub fn known_on(fixture: &Fixture, address: &str) -> Known {
    let mut known = Known::default();
    remember_database(&mut known, &fixture.store);
    known.remember(shell::ADDRESS, address);
    known
}

/// Creates what readers already have: their programs, their tables, and Turno's schema.
fn prepare(fixture: &Fixture) {
    for script in SCRIPTS {
        let path = fixture.path(script);
        fs::write(&path, "#!/bin/sh\necho done\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let routes = include_str!("../../../../examples/gate/routes.toml");
    fs::write(fixture.path("routes.toml"), routes).unwrap();
    fixture.turno(&["migrate"]).expect(0);
    fixture.tell(TABLES);
}

/// Returns the server for all pages.
fn server() -> &'static PostgresServer {
    static SERVER: OnceLock<PostgresServer> = OnceLock::new();
    SERVER.get_or_init(|| PostgresServer::start_with(&DURABLE).unwrap())
}

/// Executes a page.
pub fn follow(text: &str) {
    let blocks = blocks(text).unwrap();
    follow_blocks(&blocks, Page::new(&blocks));
}

/// Executes a page on an existing store.
pub fn follow_at(text: &str, fixture: Fixture) {
    follow_blocks(&blocks(text).unwrap(), Page::at(fixture));
}

fn follow_blocks(blocks: &[Block], mut page: Page) {
    let mut printed = String::new();
    for (position, block) in blocks.iter().enumerate() {
        page.known.turn();
        println!("--- the block in line {}", block.line);
        match block.kind {
            BlockKind::Excerpt => {}
            BlockKind::Output => page.known.text(&block.text, &printed),
            BlockKind::Run(Language::Shell) => printed = shell::run(&mut page, &block.text),
            BlockKind::Run(Language::Sql) => {
                let session = page.session.as_ref().expect("a page with SQL");
                printed = session.run(&mut page.known, &block.text);
            }
            BlockKind::Run(Language::Toml) => check(&page.fixture, &block.text),
            BlockKind::Run(Language::Program(language)) => {
                let Some(whole) = whole(blocks, language, position) else {
                    continue;
                };
                printed = program::run(&page.fixture, language, &page.known.meant(&whole));
            }
        }
    }
}

/// Returns all blocks of a language, if this is the last one.
fn whole(blocks: &[Block], language: Program, position: usize) -> Option<String> {
    let is_part = |block: &&Block| block.kind == BlockKind::Run(Language::Program(language));
    if blocks[position + 1..].iter().any(|block| is_part(&block)) {
        return None;
    }
    let parts: Vec<&str> = blocks
        .iter()
        .filter(is_part)
        .map(|block| block.text.as_str())
        .collect();
    Some(parts.join("\n"))
}

/// Has the program itself read a file that a page shows.
fn check(fixture: &Fixture, text: &str) {
    fs::write(fixture.path("page.toml"), text).unwrap();
    let words: &[&str] = if text.contains("[[route]]") {
        &["gate", "--check", "--routes", "page.toml"]
    } else {
        // `store` in the file is not used, because the environment sets the test's store.
        &["lock", "list", "--config", "page.toml"]
    };
    fixture.turno(words).expect(0);
}

/// The control: wrong statements of a page are found.
#[test]
fn a_page_that_says_what_is_not_so_is_found() {
    for (page, is_so) in [
        ("```sh\nturno doctor\n```", true),
        ("```sh\nturno doctor  # exit code 1\n```", false),
        ("```sh\necho one\n```\n```text\none\n```", true),
        ("```sh\necho one\n```\n```text\ntwo\n```", false),
        (
            "```sh\ncurl http://127.0.0.1:7117/healthz\n# 200 {\"status\": \"ok\"}\n```",
            true,
        ),
        (
            "```sh\ncurl http://127.0.0.1:7117/healthz\n# 204\n```",
            false,
        ),
        (
            "```sh\ncurl http://127.0.0.1:7117/healthz\n# 200 {\"status\": \"ill\"}\n```",
            false,
        ),
        ("```toml\n[lock]\ntimeout = \"30s\"\n```", true),
        ("```toml\n[lock]\ntime_out = \"30s\"\n```", false),
        (
            "```sql\nselect turno.schema_version() > 0, 1;\n-- t | 1\n```",
            true,
        ),
        (
            "```sql\nselect turno.schema_version() > 0, 1;\n-- t | 2\n```",
            false,
        ),
        ("```sql\nselect 1;\n-- ERROR TN410\n```", false),
        ("```python\nprint(1)\n```\n```text\n1\n```", true),
        ("```python\nraise SystemExit(1)\n```", false),
    ] {
        let followed = std::panic::catch_unwind(|| follow(page));
        assert_eq!(followed.is_ok(), is_so, "{page}");
    }
}
