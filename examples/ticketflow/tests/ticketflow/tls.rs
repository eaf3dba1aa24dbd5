//! A managed database: only encrypted connections, with a password. The example's own connections and Turno's use the same URL.

use turno_testkit::{Certificate, PostgresServer, Subject};

use crate::stage::{Stage, all_once};

const LOCALHOST: Subject<'_> = Subject {
    common_name: "localhost",
    names: "DNS:localhost",
    days: 2,
};

#[tokio::test(flavor = "multi_thread")]
async fn todo_funciona_en_una_base_de_datos_cifrada() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Certificate::authority(folder.path(), "authority").unwrap();
    let certificate = authority.issue(folder.path(), "server", LOCALHOST).unwrap();
    let server = PostgresServer::start_hostssl(&certificate, &authority, &[]).unwrap();
    server
        .administer("alter role owner password 's3cret'")
        .unwrap();
    let database = server.create_database();
    let store = format!(
        "postgres://owner:s3cret@localhost:{}/{}?sslmode=verify-full&sslrootcert={}",
        server.port(),
        database.rsplit('/').next().unwrap(),
        authority.certificate.display()
    );
    let stage = Stage::on(store).await;
    let _crew = stage.crew(&["consumer"], None);
    stage.start(&["api"]).create("encrypted").await.unwrap();
    let tally = stage
        .await_tally("it to be handled", |tally| tally.handled == 1)
        .await;
    assert_eq!(tally, all_once(1, 1));
}
