//! The page of benchmarks follows from a file of results, which `turno-bench --json` writes: one chart for each subject, and the
//! tables between markers in `docs/benchmarks.md` and `README.md`.

mod chart;
mod results;
mod tables;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use self::results::Results;

/// Results from which the page was made.
pub const RESULTS: &str = "docs/benchmarks/results.json";
/// Folder of the charts.
const CHARTS: &str = "docs/benchmarks";
/// Documents with marked tables.
const DOCUMENTS: [&str; 2] = ["docs/benchmarks.md", "README.md"];

/// Writes the charts, and rewrites the marked tables.
pub fn charts(root: &Path, file: &Path) -> Result<()> {
    let results = Results::read(file)?;
    let folder = root.join(CHARTS);
    fs::create_dir_all(&folder)?;
    let charts = chart::all(&results)?;
    for name in drawn(&folder)? {
        if !charts.contains_key(&name) {
            fs::remove_file(folder.join(&name))?;
        }
    }
    for (name, chart) in &charts {
        let file = folder.join(name);
        fs::write(&file, chart).with_context(|| format!("could not write {}", file.display()))?;
    }
    for document in DOCUMENTS {
        let file = root.join(document);
        let text = fs::read_to_string(&file).with_context(|| format!("no {document}"))?;
        let text = tables::rewrite(&text, &results).with_context(|| document.to_owned())?;
        fs::write(&file, text).with_context(|| format!("could not write {document}"))?;
    }
    println!("{} charts in {CHARTS}", charts.len());
    Ok(())
}

/// Returns an error if a chart or a table is not what the results give.
pub fn check(root: &Path) -> Result<()> {
    let results = Results::read(&root.join(RESULTS))?;
    let wrong = |what: &str| {
        format!("{what} does not follow from {RESULTS}: run `cargo xtask bench charts {RESULTS}`")
    };
    let folder = root.join(CHARTS);
    let charts = chart::all(&results)?;
    let drawn: BTreeMap<String, String> = drawn(&folder)?
        .into_iter()
        .map(|name| {
            let text = fs::read_to_string(folder.join(&name))?;
            Ok((name, text))
        })
        .collect::<Result<_>>()?;
    for name in charts.keys().chain(drawn.keys()) {
        ensure!(charts.get(name) == drawn.get(name), wrong(name));
    }
    for document in DOCUMENTS {
        let text = fs::read_to_string(root.join(document)).with_context(|| document.to_owned())?;
        let right = tables::rewrite(&text, &results).with_context(|| document.to_owned())?;
        ensure!(text == right, wrong(document));
    }
    Ok(())
}

/// Names of the charts in a folder.
fn drawn(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("no {}", folder.display()))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.ends_with(".svg") {
            names.push(name);
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::path::PathBuf;

    use super::*;

    fn root() -> &'static Path {
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
    }

    #[test]
    fn the_page_follows_from_the_results() {
        check(root()).unwrap();
    }

    /// A copy of the documents and results, in which a test changes something.
    fn copy(name: &str) -> PathBuf {
        let folder = env::temp_dir().join(format!("turno-bench-{name}-{}", std::process::id()));
        fs::create_dir_all(folder.join(CHARTS)).unwrap();
        for document in DOCUMENTS {
            fs::copy(root().join(document), folder.join(document)).unwrap();
        }
        for entry in fs::read_dir(root().join(CHARTS)).unwrap() {
            let file = entry.unwrap().path();
            let to = folder.join(CHARTS).join(file.file_name().unwrap());
            fs::copy(&file, to).unwrap();
        }
        folder
    }

    #[test]
    fn a_table_or_chart_that_differs_from_the_results_is_found() {
        let folder = copy("differs");
        check(&folder).unwrap();
        for document in DOCUMENTS {
            let file = folder.join(document);
            let text = fs::read_to_string(&file).unwrap();
            fs::write(&file, text.replacen(" × ", " times ", 1)).unwrap();
            let error = format!("{:#}", check(&folder).unwrap_err());
            assert!(error.contains(document), "{error}");
            fs::write(&file, text).unwrap();
        }
        let stale = folder.join(CHARTS).join("stale.svg");
        fs::write(&stale, "<svg/>").unwrap();
        let error = format!("{:#}", check(&folder).unwrap_err());
        assert!(error.contains("stale.svg"), "{error}");
        // Writing the page again repairs all of it.
        charts(&folder, &folder.join(RESULTS)).unwrap();
        check(&folder).unwrap();
        assert!(!stale.exists());
        fs::remove_dir_all(folder).unwrap();
    }
}
