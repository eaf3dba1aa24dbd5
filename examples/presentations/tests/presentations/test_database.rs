//! An empty store for one test.

use std::time::Duration;

use presentations::database::Database;
use presentations::instance::Setup;
use presentations::strategy::{Fleet, Strategy};
use presentations::use_case::ProcessPresentationUseCase;
use presentations::web_service::WebService;
use presentations::web_service_client::WebServiceClient;
use tempfile::TempDir;
use turno_testkit::migrated_database;

/// Path of the program, built along with this test.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_presentations");
/// Timeout, longer than any operation takes on a slow machine with other load.
pub const LONG: Duration = Duration::from_secs(60);

pub struct TestDatabase {
    pub setup: Setup,
    pub database: Database,
    /// Folder of an SQLite file, deleted when the test ends.
    _folder: Option<TempDir>,
}

impl TestDatabase {
    pub async fn postgres() -> Self {
        Self::new(migrated_database(), None).await
    }

    pub async fn sqlite() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = format!("sqlite:{}", folder.path().join("test.db").display());
        Self::new(store, Some(folder)).await
    }

    async fn new(store: String, folder: Option<TempDir>) -> Self {
        let database = Database::open(&store, "test").await.unwrap();
        database.create().await.unwrap();
        let setup = Setup {
            program: PROGRAM.into(),
            store,
            instances: 3,
            presentations: 6,
            fleet: Fleet::Uniform,
        };
        TestDatabase {
            setup,
            database,
            _folder: folder,
        }
    }

    pub fn is_postgres(&self) -> bool {
        matches!(self.database, Database::Postgres(_))
    }

    /// Returns the use case, to run it step by step in this process.
    pub fn use_case(&self, how: Strategy, service: &WebService) -> ProcessPresentationUseCase {
        ProcessPresentationUseCase {
            how,
            database: self.database.clone(),
            web_service: WebServiceClient::new(&service.url, 0),
        }
    }
}
