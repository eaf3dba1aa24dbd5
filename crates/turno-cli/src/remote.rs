//! A server instead of a store: its address and access token. The token comes from the environment, or from a file that
//! `turno.toml` names. Never from an option, which other users of the machine can see.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use turno_client::{Client, RemoteStore};

use crate::fail::Usage;

const TOKEN: &str = "TURNO_TOKEN";
const TOKEN_FILE: &str = "token_file";
const CA_FILE: &str = "ca_file";
/// Maximum size of a token file in bytes. A larger file is the wrong file.
const LONGEST: u64 = 4096;

/// Address and credentials of a server.
#[derive(Debug)]
pub(crate) struct Remote {
    url: String,
    token_file: Option<PathBuf>,
    ca_file: Option<PathBuf>,
}

impl Remote {
    pub(crate) fn new(url: String, token_file: Option<PathBuf>, ca_file: Option<PathBuf>) -> Self {
        Remote {
            url,
            token_file,
            ca_file,
        }
    }

    /// Returns the address.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Creates a client. Sends nothing.
    pub(crate) fn client(&self) -> Result<Client, Usage> {
        let mut client = Client::new(&self.url).map_err(|error| wrong("server", &error))?;
        if let Some(file) = &self.ca_file {
            client = client
                .ca_file(file)
                .map_err(|error| wrong(CA_FILE, &error))?;
        }
        match self.token()? {
            Some(token) => client.token(token).map_err(|error| wrong(TOKEN, &error)),
            None => Ok(client),
        }
    }

    /// Returns the server as a store. `queue` is the queue of claims that were not made by this process.
    pub(crate) fn store(&self, queue: Option<&str>) -> Result<RemoteStore, Usage> {
        let store = RemoteStore::new(self.client()?);
        Ok(match queue {
            Some(queue) => store.queue(queue),
            None => store,
        })
    }

    /// Returns the token of the environment, or else of the file; `None` if neither is set.
    fn token(&self) -> Result<Option<String>, Usage> {
        match std::env::var(TOKEN) {
            Ok(token) if token.is_empty() => Err(Usage::new(
                TOKEN,
                format!(
                    "{TOKEN} is empty: set it to the token that `turno token create` printed, or unset it"
                ),
            )),
            Ok(token) => Ok(Some(token)),
            Err(std::env::VarError::NotUnicode(_)) => {
                Err(Usage::new(TOKEN, format!("{TOKEN} is not valid UTF-8")))
            }
            Err(std::env::VarError::NotPresent) => {
                self.token_file.as_deref().map(of_file).transpose()
            }
        }
    }
}

fn of_file(path: &Path) -> Result<String, Usage> {
    let refused = |why: String| {
        Usage::new(
            TOKEN_FILE,
            format!("{} has no access token: {why}", path.display()),
        )
    };
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(LONGEST + 1).read_to_string(&mut text));
    match read {
        Ok(length) if length as u64 > LONGEST => Err(refused("it is too long".into())),
        Ok(_) if text.trim().is_empty() => Err(refused("it is empty".into())),
        Ok(_) => Ok(text.trim().to_owned()),
        Err(error) => Err(refused(format!("it cannot be read ({error})"))),
    }
}

fn wrong(field: &str, error: &turno_client::Error) -> Usage {
    Usage::new(error.field().unwrap_or(field), error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_with_a_token_has_one_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        std::fs::write(&file, "turno_a_b\n").unwrap();
        assert_eq!(of_file(&file).unwrap(), "turno_a_b");
        for text in [String::new(), "\n".into(), "s3cret".repeat(1000)] {
            std::fs::write(&file, &text).unwrap();
            let usage = of_file(&file).unwrap_err();
            assert_eq!(usage.field, TOKEN_FILE);
            assert!(!usage.detail.contains("s3cret"), "{usage}");
        }
        assert!(of_file(&folder.path().join("missing")).is_err());
    }
}
