//! A server that accepts only encrypted connections with a password, and its certificates.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use tempfile::TempDir;
use turno::store::postgres::{Environment, Target};
use turno_testkit::{Certificate, PostgresServer, Subject};

pub const PASSWORD: &str = "s3cret";

/// Roles of the server: `owner` has a password, `certified` also needs a certificate.
const ROLES: &str =
    "alter role owner password 's3cret'; create role certified login password 's3cret'";
const CERTIFIED: &str = "hostssl all certified 127.0.0.1/32 scram-sha-256 clientcert=verify-full";

pub const LOCALHOST: Subject<'_> = Subject {
    common_name: "localhost",
    names: "DNS:localhost",
    days: 2,
};

/// Certificates, and a server that uses one of them.
pub struct TlsFixture {
    pub folder: TempDir,
    pub authority: Certificate,
    pub server: PostgresServer,
}

impl TlsFixture {
    /// The server's certificate is for `localhost`, and not for 127.0.0.1.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<TlsFixture> = OnceLock::new();
        SHARED.get_or_init(|| {
            TlsFixture::start(|folder, authority| {
                authority.issue(folder, "server", LOCALHOST).unwrap()
            })
        })
    }

    pub fn start(certificate: impl FnOnce(&Path, &Certificate) -> Certificate) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let authority = Certificate::authority(folder.path(), "authority").unwrap();
        let certificate = certificate(folder.path(), &authority);
        let server = PostgresServer::start_hostssl(&certificate, &authority, &[CERTIFIED]).unwrap();
        server.administer(ROLES).unwrap();
        TlsFixture {
            folder,
            authority,
            server,
        }
    }

    /// Returns the URL of a new database on `localhost`, with the owner's password.
    pub fn create_database(&self) -> String {
        self.server
            .create_database()
            .replace("owner@127.0.0.1", &format!("owner:{PASSWORD}@localhost"))
            + "?hostaddr=127.0.0.1"
    }

    /// Returns a connection string for the server's own database, as `user`, with more parameters.
    pub fn string(&self, user: &str, more: &str) -> String {
        let port = self.server.port();
        format!("host=localhost hostaddr=127.0.0.1 port={port} user={user} dbname=postgres {more}")
    }

    pub fn root(&self) -> String {
        format!("sslrootcert={}", self.authority.certificate.display())
    }

    /// File of a CA that has signed no certificate here.
    pub fn other_root(&self) -> PathBuf {
        let other = self.folder.path().join("other.crt");
        if !other.exists() {
            let made = Certificate::authority(self.folder.path(), "other").unwrap();
            assert_eq!(made.certificate, other);
        }
        other
    }
}

/// Returns whether the server reports a new connection as encrypted, or the error.
pub async fn tried(conninfo: &str, environment: &Environment) -> Result<bool, turno::Error> {
    let target = Target::parse_with(conninfo, environment)?;
    let (client, connection) = target.connect().await?;
    tokio::spawn(connection);
    let sql = "select ssl from pg_stat_ssl where pid = pg_backend_pid()";
    Ok(client.query_one(sql, &[]).await.unwrap().get(0))
}

pub async fn is_encrypted(conninfo: &str) -> bool {
    let tried = tried(conninfo, &Environment::default()).await;
    tried.unwrap_or_else(|error| panic!("{conninfo}: {error}"))
}

/// Returns the message of a connection that is refused permanently.
pub async fn refusal(conninfo: &str) -> String {
    let error = tried(conninfo, &Environment::default()).await;
    let error = error.expect_err(conninfo);
    assert!(!error.is_unavailable(), "{error}");
    let message = error.to_string();
    assert!(!message.contains(PASSWORD), "{message}");
    message
}
