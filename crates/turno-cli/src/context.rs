//! What a command works with: store, settings and output. In order of precedence, they come from the command line, the
//! environment, the file and the defaults.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use turno::{Migrate, Settings, Turno};

use crate::args::{Cli, Command};
use crate::config::{self, Cleanup, File, Once, Outbox, Schedule, Serve};
use crate::fail::{self, Usage};
use crate::output::Output;
use crate::remote::Remote;
use crate::secrets;

/// Default store.
pub(crate) const DEFAULT_STORE: &str = "sqlite:turno.db";

/// Environment variable with the path of a file that contains the store's URL.
const STORE_FILE: &str = "TURNO_STORE_FILE";

/// A command asks one thing at a time; the second connection is for waiting.
const CONNECTIONS: usize = 2;

/// The environment of a command.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) output: Output,
    pub(crate) store: String,
    /// The store, if it was named by an option of this command.
    pub(crate) named_store: Option<String>,
    /// The server, if one is used instead of a store.
    remote: Option<Remote>,
    /// Settings of the file. The options of a command override them.
    pub(crate) settings: Settings,
    pub(crate) cleanup: Option<Cleanup>,
    /// Default lease of a claim.
    pub(crate) inbox_lease: Duration,
    /// Section `[outbox]` of the file.
    pub(crate) outbox: Outbox,
    /// Section `[once]` of the file.
    pub(crate) once: Once,
    /// Section `[serve]` of the file.
    pub(crate) serve: Serve,
    /// Schedules of the server.
    pub(crate) schedules: Vec<Schedule>,
}

impl Context {
    pub(crate) fn new(cli: Cli) -> Result<(Command, Self)> {
        let file = config::read(cli.config.as_deref())?;
        for warning in &cli.secret_warnings {
            fail::warn(warning, cli.output());
        }
        let server = server(&cli, &file).map(str::to_owned);
        let store = store(&cli, &file)?;
        let context = Context {
            output: cli.output(),
            settings: settings(&file),
            // Not the timeout of locks: an item takes as long as its work takes.
            inbox_lease: file.inbox.lease().unwrap_or(Settings::default().ttl),
            named_store: cli.store.clone().filter(|_| cli.store_named),
            store,
            remote: server.map(|url| Remote::new(url, file.token_file, file.ca_file)),
            cleanup: file.cleanup,
            outbox: file.outbox,
            once: file.once,
            serve: file.serve,
            schedules: file.schedules,
        };
        Ok((cli.command, context))
    }

    /// Opens the store, runs some work with it, and closes it.
    pub(crate) async fn with<T>(
        &self,
        settings: Settings,
        work: impl AsyncFnOnce(&Turno) -> Result<T>,
    ) -> Result<T> {
        let turno = self.connect(settings, None).await?;
        let done = work(&turno).await;
        turno.close().await;
        done
    }

    async fn connect(&self, settings: Settings, queue: Option<&str>) -> Result<Turno> {
        Ok(match &self.remote {
            Some(remote) => Turno::with_store(Arc::new(remote.store(queue)?), settings),
            None => {
                Turno::builder()
                    .settings(settings)
                    .connect(&self.store)
                    .await?
            }
        })
    }

    /// Runs some work with claims of a queue. Only a server needs the name of the queue; a store finds it itself.
    pub(crate) async fn with_queue<T>(
        &self,
        queue: Option<&str>,
        work: impl AsyncFnOnce(&Turno) -> Result<T>,
    ) -> Result<T> {
        let turno = self.connect(self.settings.clone(), queue).await?;
        let done = work(&turno).await;
        turno.close().await;
        done
    }

    /// Returns the server, if one is used instead of a store.
    pub(crate) fn remote(&self) -> Option<&Remote> {
        self.remote.as_ref()
    }

    /// Rejects a command that needs a store if a server is used.
    pub(crate) fn expect_store(&self, command: &str) -> Result<(), Usage> {
        match self.remote {
            Some(_) => Err(Usage::new(
                "server",
                format!(
                    "turno {command} works on a store, not through a server: give the store with --store URL"
                ),
            )),
            None => Ok(()),
        }
    }

    /// Same as [`Context::with`], with the settings of the file.
    pub(crate) async fn with_store<T>(
        &self,
        work: impl AsyncFnOnce(&Turno) -> Result<T>,
    ) -> Result<T> {
        self.with(self.settings.clone(), work).await
    }

    /// Same as [`Context::with_store`], for a command that only reads: it creates neither a store nor a schema.
    pub(crate) async fn read_store<T>(
        &self,
        work: impl AsyncFnOnce(&Turno) -> Result<T>,
    ) -> Result<T> {
        let mut settings = self.settings.clone();
        settings.migrate = Migrate::Never;
        self.with(settings, work).await
    }

    /// Returns settings that open a store with any schema version, to inspect or migrate it.
    pub(crate) fn unchecked(&self) -> Settings {
        let mut settings = self.settings.clone();
        settings.migrate = Migrate::Unchecked;
        settings
    }
}

/// Returns the store's URL: from the option, the environment, the file that the environment names, `turno.toml`, or the file
/// that it names.
fn store(cli: &Cli, file: &File) -> Result<String, Usage> {
    if let Some(store) = &cli.store {
        return Ok(store.clone());
    }
    if let Some(path) = store_file_variable() {
        return secrets::of_file(STORE_FILE, &path);
    }
    match (&file.store, &file.store_file) {
        (Some(_), Some(_)) => Err(Usage::new(
            "store_file",
            "the configuration file has both store and store_file: remove one of them",
        )),
        (Some(store), None) => Ok(store.clone()),
        (None, Some(path)) => secrets::of_file("store_file", path),
        (None, None) => Ok(DEFAULT_STORE.to_owned()),
    }
}

fn store_file_variable() -> Option<PathBuf> {
    let path = std::env::var_os(STORE_FILE).filter(|path| !path.is_empty());
    path.map(PathBuf::from)
}

/// The server, if one is named no later than a store: options come first, then the environment, then the file.
fn server<'a>(cli: &'a Cli, file: &'a File) -> Option<&'a str> {
    let said = cli.server.as_deref();
    if cli.server_named {
        return said;
    }
    if cli.store_named {
        return None;
    }
    let names_store = cli.store.is_some() || store_file_variable().is_some();
    said.or(if names_store {
        None
    } else {
        file.server.as_deref()
    })
}

fn settings(file: &File) -> Settings {
    let mut settings = Settings::default();
    settings.connections = CONNECTIONS;
    settings.ttl = file.lock.timeout().unwrap_or(settings.ttl);
    settings.max_ttl = file.lock.max_ttl().unwrap_or(settings.max_ttl);
    settings.retry.max = file.lock.retry.max().unwrap_or(settings.retry.max);
    settings.retry.delay = file.lock.retry.delay().unwrap_or(settings.retry.delay);
    settings.idle_poll_max = file.idle_poll_max().unwrap_or(settings.idle_poll_max);
    settings.call_timeout = file.call_timeout().unwrap_or(settings.call_timeout);
    let max_age = file.connection_max_age();
    settings.connection_max_age = max_age.unwrap_or(settings.connection_max_age);
    settings.max_payload = file.inbox.max_payload().unwrap_or(settings.max_payload);
    let max_claim_bytes = file.inbox.max_claim_bytes();
    settings.max_claim_bytes = max_claim_bytes.unwrap_or(settings.max_claim_bytes);
    settings.user = file.application.user().map(str::to_owned);
    settings.service = file.application.service().map(str::to_owned);
    settings
}
