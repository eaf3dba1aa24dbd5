//! A PostgreSQL server for mutants: it has a database with the schema, and each mutant is in a copy of it.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::background::Background;

/// psql's exit status if a statement fails.
const STATEMENT_FAILED: i32 = 3;

/// A running server. It ends with this value.
pub struct Server {
    _process: Background,
    /// `host:port`.
    address: String,
    /// Name of the database with the schema.
    original: String,
    /// Number of copies made.
    copies: u32,
}

/// A database that tests copy.
pub struct Template {
    name: String,
    pub url: String,
}

impl Server {
    pub fn start(programs: &Path) -> Result<Self> {
        let mut command = Command::new(programs.join("turno-servers"));
        if let Some(folder) = crate::memory::folder() {
            command.env("TMPDIR", folder);
        }
        let mut process = Background::start(command.arg("migrated"))?;
        let url = process.line(|line| line.starts_with("postgres://").then(|| line.to_owned()))?;
        let (server, original) = url.rsplit_once('/').context("the URL has a database")?;
        let (_, address) = server.rsplit_once('@').context("the URL has a user")?;
        let server = Server {
            _process: process,
            address: address.to_owned(),
            original: original.to_owned(),
            copies: 0,
        };
        server
            .administer("alter system set track_functions = 'all';\nselect pg_reload_conf();\n")?;
        Ok(server)
    }

    /// Makes a copy of the database and runs `sql` in it. Returns `None` if PostgreSQL rejects `sql`.
    pub fn template(&mut self, sql: &str) -> Result<Option<Template>> {
        self.copies += 1;
        let name = format!("mutant_{}", self.copies);
        let original = &self.original;
        self.administer(&format!(
            "create database {name} owner owner template {original};\n"
        ))?;
        let is_valid = self.psql("owner", &name, &format!("{sql}\n"))?.is_some();
        let url = format!("postgres://owner@{}/{name}", self.address);
        Ok(is_valid.then_some(Template { name, url }))
    }

    /// Returns the functions that were called in the copies of a template, each with the id of the process that made the copy.
    pub fn calls(&self, template: &Template) -> Result<Vec<(u32, String)>> {
        let prefix = format!("{}_", template.name);
        // A session counts its calls until it ends.
        self.administer(&format!(
            "do $$ begin
               while exists (select from pg_stat_activity where datname like '{prefix}%') loop
                 perform pg_sleep(0.02), pg_stat_clear_snapshot();
               end loop;
             end $$;\n"
        ))?;
        let list = format!("select datname from pg_database where datname like '{prefix}%';\n");
        let databases = self.administer(&list)?;
        let select = "select current_database(), funcname from pg_stat_user_functions where schemaname = 'turno';\n";
        let script: String = databases
            .lines()
            .map(|name| format!("\\connect {name}\n{select}"))
            .collect();
        let rows = self.administer(&script)?;
        let calls = rows.lines().filter_map(|row| {
            let (database, function) = row.split_once('|')?;
            let (process, _) = database.strip_prefix(&prefix)?.split_once('_')?;
            Some((process.parse().ok()?, function.to_owned()))
        });
        Ok(calls.collect())
    }

    /// Drops all mutants and their copies.
    pub fn drop_copies(&self) -> Result<()> {
        self.administer(
            "select format('drop database %I with (force)', datname) from pg_database where datname like 'mutant%' \\gexec\n",
        )
        .map(drop)
    }

    fn administer(&self, sql: &str) -> Result<String> {
        match self.psql("postgres", "postgres", sql)? {
            Some(output) => Ok(output),
            None => bail!("PostgreSQL rejects {sql}"),
        }
    }

    /// Returns the output, or `None` if a statement fails.
    fn psql(&self, user: &str, database: &str, sql: &str) -> Result<Option<String>> {
        let url = format!("postgres://{user}@{}/{database}", self.address);
        let mut child = Command::new("psql")
            .args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-f", "-"])
            .arg(url)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("could not start psql")?;
        let mut stdin = child.stdin.take().context("its input is piped")?;
        stdin.write_all(sql.as_bytes())?;
        drop(stdin);
        let output = child.wait_with_output()?;
        match output.status.code() {
            Some(0) => Ok(Some(String::from_utf8(output.stdout)?)),
            Some(STATEMENT_FAILED) => Ok(None),
            _ => bail!("psql ended with {}", output.status),
        }
    }
}
