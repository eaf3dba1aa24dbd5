//! `turno __man FOLDER`: writes the manual pages, one file per command, for packages (`cargo xtask dist`).

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::CommandFactory;

use crate::args::Cli;

/// Name under which `cargo xtask dist` starts it.
pub(crate) const VERB: &str = "__man";

pub(crate) fn run(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let Some(folder) = arguments.next().map(PathBuf::from) else {
        eprintln!("error: give the folder for the pages");
        return ExitCode::from(2);
    };
    match write(&folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let folder = folder.display();
            eprintln!("error: {folder} cannot be written ({error}): give an existing folder");
            ExitCode::FAILURE
        }
    }
}

fn write(folder: &Path) -> std::io::Result<()> {
    clap_mangen::generate_to(Cli::command(), folder)
}
