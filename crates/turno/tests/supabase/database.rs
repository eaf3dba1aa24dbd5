//! A database like Supabase's. Its own server program cannot be installed here, so its roles and default privileges are
//! created in the same way as in its images.

use std::sync::OnceLock;

use tokio_postgres::Client;
use turno::store::postgres::script_for_supabase;
use turno_testkit::sql::client;
use turno_testkit::{PostgresServer, Sql as _, supabase};

/// Role `manager` represents Supabase's `postgres`, which is not a superuser, but may create roles.
const MANAGER: &str = "
    drop role turno_app, turno_operator;
    create role manager login createrole bypassrls;
    grant anon, authenticated, service_role to manager;
";

pub struct Database {
    server: &'static PostgresServer,
    name: String,
}

impl Database {
    /// Creates a database of `manager`, without Turno.
    pub async fn new() -> Self {
        static SERVER: OnceLock<PostgresServer> = OnceLock::new();
        let server = SERVER.get_or_init(start);
        let url = server.create_database();
        let name = url.rsplit('/').next().unwrap().to_owned();
        let database = Database { server, name };
        let administrator = database.client("postgres").await;
        let owner = format!("alter database {} owner to manager", database.name);
        administrator.run(&owner).await;
        // Before version 15, schema public belongs to the superuser.
        administrator
            .run("alter schema public owner to manager")
            .await;
        database.manager().await.run(supabase::SCHEMAS).await;
        database
    }

    /// Creates one with Turno, installed by the migration file.
    pub async fn with_turno() -> Self {
        let database = Self::new().await;
        let manager = database.manager().await;
        apply(&manager, &script_for_supabase()).await.unwrap();
        database
    }

    pub fn url(&self) -> String {
        self.server.url_as("manager", &self.name)
    }

    pub async fn manager(&self) -> Client {
        self.client("manager").await
    }

    pub async fn client(&self, role: &str) -> Client {
        client(&self.server.url_as(role, &self.name)).await
    }
}

/// Starts a server with Supabase's roles.
fn start() -> PostgresServer {
    let server = PostgresServer::start().unwrap_or_else(|error| panic!("{error:#}"));
    server.administer(supabase::ROLES).unwrap();
    server.administer(MANAGER).unwrap();
    server
}

/// Applies a file as Supabase's command line does: it splits the file, and sends the statements in one transaction, each
/// as a prepared statement.
pub async fn apply(client: &Client, file: &str) -> Result<(), tokio_postgres::Error> {
    client.batch_execute("begin").await?;
    for statement in statements(file) {
        if let Err(error) = client.execute(statement, &[]).await {
            client.batch_execute("rollback").await?;
            return Err(error);
        }
    }
    client.batch_execute("commit").await
}

/// Returns the statements of a file: they end with a semicolon outside of quotes, dollar quotes and comments.
pub fn statements(file: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let (mut start, mut at) = (0, 0);
    while let Some(letter) = file[at..].chars().next() {
        let rest = &file[at..];
        let length = match letter {
            ';' => {
                found.push(file[start..at].trim());
                start = at + 1;
                1
            }
            '-' if rest.starts_with("--") => rest.find('\n').unwrap_or(rest.len()),
            '\'' | '"' => 2 + rest[1..].find(letter).unwrap(),
            '$' => match rest[1..].find('$').map(|end| &rest[..end + 2]) {
                Some(tag)
                    if tag[1..tag.len() - 1]
                        .chars()
                        .all(|c| c.is_alphanumeric() || c == '_') =>
                {
                    tag.len() * 2 + rest[tag.len()..].find(tag).unwrap()
                }
                _ => 1,
            },
            _ => letter.len_utf8(),
        };
        at += length;
    }
    found
}

#[test]
fn statements_end_at_semicolons_outside_of_quotes() {
    let file = "select ';', \";\"; -- a; b\ndo $x$ begin; $$;$$ end $x$;\nselect 1;\n";
    assert_eq!(
        statements(file),
        [
            "select ';', \";\"",
            "-- a; b\ndo $x$ begin; $$;$$ end $x$",
            "select 1"
        ]
    );
}
