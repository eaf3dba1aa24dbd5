//! Databases with the schema. They are copied, because creating the schema takes longer than most tests.

use std::sync::OnceLock;
use std::{env, fs, process, thread};

use turno::Turno;

use crate::server::PostgresServer;

/// Creates a database with the schema on the server that all tests of this process share, and returns its URL.
///
/// # Panics
///
/// Panics if the schema cannot be created, or not be copied.
#[track_caller]
pub fn migrated_database() -> String {
    static TEMPLATE: OnceLock<String> = OnceLock::new();
    let server = PostgresServer::shared();
    let template = TEMPLATE.get_or_init(|| {
        let url = server.create_database();
        let migrate = || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime can be started");
            runtime.block_on(async {
                let migrated = Turno::connect(&url).await;
                migrated.expect("the schema can be created").close().await;
                mutate(&url).await;
            });
        };
        // On a separate thread, because the first caller may be in a runtime already.
        thread::scope(|scope| scope.spawn(migrate).join().expect("it did not panic"));
        url
    });
    server.copy_database(template)
}

/// Runs the statements of the file that `TURNO_TEST_SQL` names: a function with a mistake, of `cargo xtask mutants`.
async fn mutate(url: &str) {
    let Some(file) = env::var_os("TURNO_TEST_SQL") else {
        return;
    };
    let sql = fs::read_to_string(file).expect("the file of the mutant can be read");
    let client = crate::sql::client(url).await;
    if let Err(error) = client.batch_execute(&sql).await {
        eprintln!("TURNO_TEST_SQL is not valid: {error:?}");
        process::exit(1);
    }
}
