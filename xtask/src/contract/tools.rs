//! Python tools, in a separate folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use super::{FOLDER, run};

/// Programs that were installed from `requirements.txt`.
pub struct Tools {
    folder: PathBuf,
}

impl Tools {
    /// Installs the programs, unless they are installed.
    pub fn provide(folder: &Path) -> Result<Self> {
        let wanted = Path::new(FOLDER).join("requirements.txt");
        let tools = Tools {
            folder: folder.join("python"),
        };
        let versions = fs::read_to_string(&wanted)
            .with_context(|| format!("could not read {}", wanted.display()))?;
        // Written last, so that an interrupted installation is repeated.
        let installed = tools.folder.join("installed.txt");
        let is_there = fs::read_to_string(&installed).is_ok_and(|there| there == versions);
        if is_there && tools.works() {
            return Ok(tools);
        }
        println!("installing Schemathesis into {}", tools.folder.display());
        run(Command::new("python3")
            .args(["-m", "venv", "--clear"])
            .arg(&tools.folder))?;
        let mut pip = tools.command("python");
        pip.args(["-m", "pip", "install", "--quiet"]);
        pip.args(["--disable-pip-version-check", "--requirement"]);
        run(pip.arg(wanted))?;
        fs::write(&installed, versions)
            .with_context(|| format!("could not write {}", installed.display()))?;
        Ok(tools)
    }

    pub fn command(&self, program: &str) -> Command {
        Command::new(self.folder.join("bin").join(program))
    }

    /// Returns whether the programs run. After an upgrade of Python, those installed for the older version do not.
    fn works(&self) -> bool {
        let mut command = self.command("schemathesis");
        command.arg("--version").stdout(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    }
}
