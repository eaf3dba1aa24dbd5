//! Connections and statements of tests on PostgreSQL. A statement that fails ends the test, and the message has its text.

use tokio_postgres::{Client, NoTls, Row};

/// Connects to PostgreSQL.
///
/// # Errors
///
/// Returns an error if the server is unavailable.
pub async fn connect(url: &str) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    // Ends with its client.
    tokio::spawn(connection);
    Ok(client)
}

/// Connects to a PostgreSQL server that is available.
///
/// # Panics
///
/// Panics if the server is unavailable.
pub async fn client(url: &str) -> Client {
    connect(url).await.expect("the server is available")
}

/// Statements without parameters.
pub trait Sql {
    /// Runs statements.
    fn run(&self, sql: &str) -> impl Future<Output = ()> + Send;

    /// Returns the only row.
    fn row(&self, sql: &str) -> impl Future<Output = Row> + Send;

    /// Returns the text in the first column of the only row.
    fn text(&self, sql: &str) -> impl Future<Output = String> + Send;

    /// Returns the `bigint` in the first column of the only row.
    fn number(&self, sql: &str) -> impl Future<Output = i64> + Send;

    /// Checks the text in the first column of the only row.
    fn expect(&self, sql: &str, text: &str) -> impl Future<Output = ()> + Send;

    /// Returns the SQLSTATE of a call; `00000` if it succeeded.
    fn code(&self, sql: &str) -> impl Future<Output = String> + Send;
}

impl Sql for Client {
    async fn run(&self, sql: &str) {
        let done = self.batch_execute(sql).await;
        done.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    }

    async fn row(&self, sql: &str) -> Row {
        let row = self.query_one(sql, &[]).await;
        row.unwrap_or_else(|error| panic!("{sql}: {error:?}"))
    }

    async fn text(&self, sql: &str) -> String {
        self.row(sql).await.get(0)
    }

    async fn number(&self, sql: &str) -> i64 {
        self.row(sql).await.get(0)
    }

    async fn expect(&self, sql: &str, text: &str) {
        assert_eq!(self.text(sql).await, text, "{sql}");
    }

    async fn code(&self, sql: &str) -> String {
        let Err(error) = self.query(sql, &[]).await else {
            return "00000".to_owned();
        };
        let code = error.code();
        let code = code.unwrap_or_else(|| panic!("{sql}: {error:?}"));
        code.code().to_owned()
    }
}

/// Replaces a text in the definition of a function of Turno, in one database: a function without its guard, for a control.
///
/// # Errors
///
/// Returns an error if the function does not contain the text: then the control would control nothing.
pub async fn replace_in_function(
    client: &Client,
    function: &str,
    from: &str,
    to: &str,
) -> anyhow::Result<()> {
    let definitions = "select pg_get_functiondef(p.oid) from pg_proc p
         where p.pronamespace = 'turno'::regnamespace and p.proname = $1";
    let mut is_changed = false;
    for row in client.query(definitions, &[&function]).await? {
        let definition: String = row.get(0);
        if definition.contains(from) {
            client.batch_execute(&definition.replace(from, to)).await?;
            is_changed = true;
        }
    }
    anyhow::ensure!(is_changed, "{function} does not contain {from:?}");
    Ok(())
}
