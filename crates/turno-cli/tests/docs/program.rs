//! Blocks in Python, TypeScript and Java: those of one page are one program.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::block::Program;
use crate::common::{Done, Fixture};

/// PostgreSQL driver for Python, including its library, so that no compiler is needed.
const PYTHON_NEEDS: &str = "psycopg[binary]==3.2.13";
/// PostgreSQL driver for Java, from Debian's package `libpostgresql-jdbc-java`.
const JDBC: &str = "/usr/share/java/postgresql.jar";

/// Runs a program to its end, and returns its output.
pub fn run(fixture: &Fixture, language: Program, text: &str) -> String {
    let mut program = built(fixture, language, text);
    check_types(fixture, language);
    run_to_end(&mut program).expect(0).out
}

/// Checks types in TypeScript, whose runner strips them; the other languages need no further check.
pub fn check_types(fixture: &Fixture, language: Program) {
    if language == Program::TypeScript {
        let tsc = typescript().join("node_modules/.bin/tsc");
        run_to_end(fixture.program(tsc).args([
            "--noEmit",
            "--strict",
            "--skipLibCheck",
            "--target",
            "es2022",
            "--module",
            "nodenext",
            "--types",
            "node",
            "page.ts",
        ]))
        .expect(0);
    }
}

/// Writes and compiles a program. Returns the command that runs it.
pub fn built(fixture: &Fixture, language: Program, text: &str) -> Command {
    let write = |name: &str| fs::write(fixture.path(name), text).unwrap();
    match language {
        Program::Python => {
            write("page.py");
            let mut python = fixture.program(python().join("bin/python"));
            python.args(["-u", "page.py"]);
            python
        }
        Program::TypeScript => {
            write("page.ts");
            let packages = typescript().join("node_modules");
            std::os::unix::fs::symlink(&packages, fixture.path("node_modules")).unwrap();
            fs::write(fixture.path("package.json"), r#"{"type": "module"}"#).unwrap();
            let mut tsx = fixture.program(packages.join(".bin/tsx"));
            tsx.arg("page.ts");
            tsx
        }
        Program::Java => {
            write("Main.java");
            assert!(
                Path::new(JDBC).exists(),
                "{JDBC} is not there: run `apt-get install libpostgresql-jdbc-java`"
            );
            let mut javac = fixture.program("javac");
            javac.args(["-Xlint:all", "-encoding", "UTF-8", "-d", ".", "Main.java"]);
            run_to_end(&mut javac).expect(0);
            let mut path = OsString::from(".:");
            path.push(JDBC);
            let mut java = fixture.program("java");
            java.arg("-cp").arg(path).arg("Main");
            java
        }
    }
}

fn run_to_end(command: &mut Command) -> Done {
    let output = command.output();
    Done::of(output.unwrap_or_else(|error| panic!("{command:?}: {error}")))
}

/// Returns Python with the driver, in a folder that is cached with the build.
fn python() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        provide("docs-python", PYTHON_NEEDS, |folder| {
            let mut venv = Command::new("python3");
            run_to_end(venv.args(["-m", "venv", "--clear"]).arg(folder)).expect(0);
            let mut pip = Command::new(folder.join("bin/python"));
            pip.args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
            ]);
            run_to_end(pip.arg(PYTHON_NEEDS)).expect(0);
        })
    })
}

/// Returns the packages of the TypeScript example, which are all that a page needs.
fn typescript() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let package = include_str!("../../../../examples/notes/ts/package.json");
        let lock = include_str!("../../../../examples/notes/ts/package-lock.json");
        provide("docs-typescript", lock, |folder| {
            fs::create_dir_all(folder).unwrap();
            fs::write(folder.join("package.json"), package).unwrap();
            fs::write(folder.join("package-lock.json"), lock).unwrap();
            let mut npm = Command::new("npm");
            npm.args(["ci", "--no-audit", "--no-fund"])
                .current_dir(folder);
            run_to_end(&mut npm).expect(0);
        })
    })
}

/// Returns a folder in which `wanted` is installed; installs it if necessary. Concurrent test runs take turns.
fn provide(name: &str, wanted: &str, install: impl FnOnce(&Path)) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let turn = File::create(folder.with_extension("turn")).unwrap();
    turn.lock().unwrap();
    // Written last, so that an incomplete installation is repeated.
    let installed = folder.join(".installed");
    if !fs::read_to_string(&installed).is_ok_and(|there| there == wanted) {
        install(&folder);
        fs::write(installed, wanted).unwrap();
    }
    folder
}
