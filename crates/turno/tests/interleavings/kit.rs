//! A database, sessions that take turns, and functions without their guards.

use tokio_postgres::Client;
use turno_testkit::conformance::TestStore;
use turno_testkit::interleave::{Ran, Sessions, orders};
use turno_testkit::sql::replace_in_function;

/// A database for one test.
pub struct Kit {
    test_store: TestStore,
    pub client: Client,
}

impl Kit {
    /// Creates a database with Turno's schema and a table of the application.
    pub async fn new() -> Self {
        let test_store = TestStore::postgres();
        test_store.turno().await.close().await;
        let client = test_store.postgres_connection().await;
        // What a session has to remember between its statements, and what the application writes.
        let tables = "create table token (owner text, token text);
            create table effect (n bigserial primary key, name text, value text)";
        client.batch_execute(tables).await.unwrap();
        Kit { test_store, client }
    }

    /// Removes a guard: replaces a text in the definition of a function.
    pub async fn without(self, function: &str, from: &str, to: &str) -> Self {
        replace_in_function(&self.client, function, from, to)
            .await
            .unwrap();
        self
    }

    /// Runs scripts in every order. `{}` in a statement is the number of the order, so that each has names of its own. `prepare`
    /// runs before. Returns the first order about which `broken` says something, and what it says.
    pub async fn explore<F>(
        &self,
        prepare: &[&str],
        scripts: &[&[&str]],
        broken: impl Fn(usize, Ran, Vec<(String, String)>) -> F,
    ) -> Option<String>
    where
        F: Future<Output = Option<String>>,
    {
        let url = self.test_store.url();
        let mut sessions = Sessions::open(url, scripts.len()).await.unwrap();
        let lengths: Vec<usize> = scripts.iter().map(|script| script.len()).collect();
        let orders = orders(&lengths);
        println!("{} orders", orders.len());
        for (number, order) in orders.iter().enumerate() {
            let filled = |statement: &str| statement.replace("{}", &number.to_string());
            for statement in prepare {
                self.client.batch_execute(&filled(statement)).await.unwrap();
            }
            let scripts: Vec<Vec<String>> = scripts
                .iter()
                .map(|script| script.iter().map(|statement| filled(statement)).collect())
                .collect();
            let ran = sessions.run(&scripts, order).await.unwrap();
            sessions.roll_back().await.unwrap();
            let effects = self.effects(number).await;
            if let Some(complaint) = broken(number, ran, effects).await {
                return Some(format!("{order:?}: {complaint}"));
            }
        }
        None
    }

    /// Rows of the application whose name begins with the number of the order, in the order of their inserts.
    async fn effects(&self, number: usize) -> Vec<(String, String)> {
        let select =
            "select name, value from effect where name = $1 or name like $1 || '/%' order by n";
        let rows = self
            .client
            .query(select, &[&number.to_string()])
            .await
            .unwrap();
        rows.iter().map(|row| (row.get(0), row.get(1))).collect()
    }
}

impl Kit {
    /// Whether a queue has items that no claim would ever find.
    pub async fn unreachable(&self, queue: &str) -> Option<String> {
        let select =
            "select turno.inbox_unreachable(q.id) from turno.inbox_queue q where q.name = $1";
        let rows = self.client.query(select, &[&queue]).await.unwrap();
        let many: i64 = rows.first().map_or(0, |row| row.get(0));
        (many > 0).then(|| format!("{many} items of {queue} are out of reach"))
    }
}

/// More than one effect of the work that two sessions did.
pub fn doubled(effects: &[(String, String)]) -> Option<String> {
    (effects.len() > 1).then(|| format!("{effects:?}"))
}
