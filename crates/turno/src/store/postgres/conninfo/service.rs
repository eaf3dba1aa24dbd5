//! The connection service file: parameters by the name of a service.

use std::path::{Path, PathBuf};

use super::environment::Environment;
use super::parameters::Parameters;
use crate::error::{Error, Result};

/// In the user's home folder.
const USER_FILE: &str = ".pg_service.conf";
/// In the system's folder.
const SYSTEM_FILE: &str = "pg_service.conf";
/// The system's folder unless `PGSYSCONFDIR` names another one; Debian's.
const SYSTEM_FOLDER: &str = "/etc/postgresql-common";

/// Sets what has no value yet from the service that is asked for, if one is.
pub(super) fn apply(parameters: &mut Parameters, environment: &Environment) -> Result<()> {
    let named = |parameters: &Parameters, name: &str, variable: &str| {
        let value = parameters.get(name).or_else(|| environment.get(variable));
        value.map(str::to_owned)
    };
    let Some(service) = named(parameters, "service", "PGSERVICE") else {
        return Ok(());
    };
    let user_file = named(parameters, "servicefile", "PGSERVICEFILE").map(PathBuf::from);
    let user_file = user_file.or_else(|| environment.home_file(USER_FILE));
    let system_folder = environment.get("PGSYSCONFDIR").unwrap_or(SYSTEM_FOLDER);
    let files = user_file
        .into_iter()
        .chain([Path::new(system_folder).join(SYSTEM_FILE)]);
    let mut searched = Vec::new();
    for file in files {
        match std::fs::read_to_string(&file) {
            Ok(text) if apply_text(parameters, &service, &text, &file)? => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                return Err(invalid(format!(
                    "the service file {} cannot be read ({error}): check its permissions",
                    file.display()
                )));
            }
        }
        searched.push(file.display().to_string());
    }
    Err(invalid(format!(
        "service {service:?} is not defined in {}: define it there, or name another service file in PGSERVICEFILE",
        searched.join(" or ")
    )))
}

/// Whether the service is in the text; its parameters are set then.
fn apply_text(parameters: &mut Parameters, service: &str, text: &str, file: &Path) -> Result<bool> {
    let mut is_found = false;
    let mut is_in_service = false;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        let place = || format!("the service file {}, line {number}", file.display());
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(name) = line.strip_prefix('[') {
            if is_found {
                // The first section of that name is the service.
                break;
            }
            is_in_service = name.strip_suffix(']') == Some(service);
            is_found = is_in_service;
        } else if is_in_service {
            let Some((name, value)) = line.split_once('=') else {
                return Err(invalid(format!("{} has no =: write name=value", place())));
            };
            let name = name.trim_end();
            if name == "service" || name == "servicefile" {
                return Err(invalid(format!(
                    "{} names another service: write its parameters there",
                    place()
                )));
            }
            parameters.set_default(name, value.trim_start().to_owned(), &place())?;
        }
    }
    Ok(is_found)
}

fn invalid(message: String) -> Error {
    Error::invalid("store", message)
}
