//! Databases with the schema. They are copied, because creating the schema takes longer than most tests.

use std::sync::OnceLock;
use std::{env, thread};

use turno::Turno;

use crate::server::PostgresServer;

/// Variable with the URL of a database with the schema on a running server. `cargo xtask mutants` sets it to one with a changed
/// function.
const TEMPLATE: &str = "TURNO_TEST_TEMPLATE";

/// Creates a database with the schema on the server that all tests of this process share, and returns its URL.
///
/// If `TURNO_TEST_TEMPLATE` is the URL of a database, it is a copy of that one, on its server.
///
/// # Panics
///
/// Panics if the schema cannot be created, or not be copied.
#[track_caller]
pub fn migrated_database() -> String {
    static OWN: OnceLock<String> = OnceLock::new();
    if let Ok(template) = env::var(TEMPLATE) {
        return PostgresServer::copy_on_running_server(&template);
    }
    let server = PostgresServer::shared();
    let template = OWN.get_or_init(|| {
        let url = server.create_database();
        let migrate = || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime can be started");
            runtime.block_on(async {
                let migrated = Turno::connect(&url).await;
                migrated.expect("the schema can be created").close().await;
            });
        };
        // On a separate thread, because the first caller may be in a runtime already.
        thread::scope(|scope| scope.spawn(migrate).join().expect("it did not panic"));
        url
    });
    server.copy_database(template)
}
