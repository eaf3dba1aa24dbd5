//! Data folder of a new server. `initdb` needs most of a second of CPU time, so its result is kept and unpacked for every
//! further server of the same PostgreSQL, also by other test programs.

use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::super::supervised::Supervised;
use super::text;

/// Archive of the data folder, in the server's own folder, where its account can read it.
const ARCHIVE: &str = "initdb.tar";

/// Creates the data folder `data` of `server` with the programs in `bin`.
pub(super) fn create(server: &mut Supervised, bin: &Path, data: &Path) -> Result<()> {
    let kept = kept(bin);
    match kept.as_deref().map(fs::read) {
        Some(Ok(archive)) => {
            server.write(ARCHIVE, archive)?;
            server.prepare(&words(&["mkdir", &text(data)]))?;
            server.prepare(&words(&["tar", "-xf", ARCHIVE, "-C", &text(data)]))?;
        }
        Some(Err(_)) | None => {
            server.prepare(&initdb(bin, data))?;
            if let Some(kept) = kept {
                server.prepare(&words(&["tar", "-cf", ARCHIVE, "-C", &text(data), "."]))?;
                keep(&server.folder().join(ARCHIVE), &kept)
                    .with_context(|| format!("could not write {}", kept.display()))?;
            }
        }
    }
    // It may be missing, if nothing was kept.
    let _ = fs::remove_file(server.folder().join(ARCHIVE));
    Ok(())
}

/// Returns where the archive is kept: in cargo's target folder, one for each build of PostgreSQL. `None` if this program is not
/// in such a folder.
fn kept(bin: &Path) -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let target = program
        .ancestors()
        .find(|folder| folder.join("CACHEDIR.TAG").is_file())?;
    let postgres = bin.join("postgres");
    let build = fs::metadata(&postgres).ok()?;
    let mut hasher = DefaultHasher::new();
    (postgres, build.len(), build.modified().ok()?).hash(&mut hasher);
    Some(target.join(format!("tmp/initdb-{:016x}.tar", hasher.finish())))
}

/// Moves the archive into place in one step, because other test programs may read it meanwhile.
fn keep(archive: &Path, kept: &Path) -> std::io::Result<()> {
    if let Some(folder) = kept.parent() {
        fs::create_dir_all(folder)?;
    }
    let unfinished = kept.with_extension(std::process::id().to_string());
    fs::copy(archive, &unfinished)?;
    fs::rename(unfinished, kept)
}

fn initdb(bin: &Path, data: &Path) -> Vec<String> {
    let program = text(&bin.join("initdb"));
    let data = text(data);
    words(&[
        &program,
        "-D",
        &data,
        "--username=postgres",
        "--auth=trust",
        "--encoding=UTF8",
        "--no-locale",
        "--no-sync",
        "--no-instructions",
    ])
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
