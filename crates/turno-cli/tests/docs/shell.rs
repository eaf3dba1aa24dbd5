//! Blocks in `sh`: one command after the other.
//!
//! A command may be followed by `# STATUS JSON`: the status of the response to `curl`, and a part of that response.

use std::process::{Command, Stdio};

use serde_json::Value;
use turno_testkit::{Process, eventually};

use crate::common::{Done, LONG, TURNO};
use crate::page::Page;

/// Commands that run until they are stopped, and print their address.
const SERVERS: [&str; 2] = ["turno serve", "turno gate"];
/// Address of the server in the pages.
pub const ADDRESS: &str = "127.0.0.1:7117";

/// A command, and its expected result.
#[derive(Debug, PartialEq)]
struct Step {
    command: String,
    answer: Option<(String, Option<Value>)>,
}

/// Returns the commands of a block. One may continue after a backslash, or up to the end of its here-document.
fn commands(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let comment = line.strip_prefix("# ").map(|comment| {
            let (status, body) = comment.split_once(' ').unwrap_or((comment, ""));
            (status, body)
        });
        match comment {
            Some((status, body)) if status.len() == 3 && status.parse::<u16>().is_ok() => {
                let body = (!body.is_empty()).then(|| {
                    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}"))
                });
                let last = steps.last_mut().expect("a command before its answer");
                last.answer = Some((status.to_owned(), body));
            }
            Some(_) => {}
            None if line.trim().is_empty() => {}
            None => {
                let mut command = line.to_owned();
                let end = line.split_once("<<").map(|(_, end)| end.trim_matches('\''));
                while command.ends_with('\\')
                    || end.is_some_and(|end| !command.ends_with(&format!("\n{end}")))
                {
                    command.push('\n');
                    command.push_str(lines.next().expect("a command has an end"));
                }
                steps.push(Step {
                    command,
                    answer: None,
                });
            }
        }
    }
    steps
}

/// Runs a block, and returns its output.
pub fn run(page: &mut Page, text: &str) -> String {
    let mut printed = String::new();
    for steps in commands(text) {
        printed.push_str(&run_step(page, &steps));
    }
    printed
}

fn run_step(page: &mut Page, step: &Step) -> String {
    if step.command.starts_with("cargo xtask test ") {
        // This is the command that runs this test.
        return String::new();
    }
    // A reader of the README has no installed `turno` yet.
    let command = step.command.replace("cargo run --release -- ", "turno ");
    let mut command = page.known.meant(&command);
    if SERVERS.iter().any(|server| command.starts_with(server)) && !command.contains("--check") {
        return start(page, &command);
    }
    if command.contains(ADDRESS) {
        // A page about the server need not repeat how it is started.
        start(page, "turno serve");
        command = page.known.meant(&command);
    }
    if let Some((name, _)) = command
        .strip_prefix("export ")
        .and_then(|rest| rest.split_once('='))
    {
        let done = bash(page, &format!("{command}\nprintf %s \"${name}\"")).expect(0);
        page.variables.insert(name.to_owned(), done.out);
        return String::new();
    }
    if command.starts_with("curl -N ") {
        // It never ends, so its first output is sufficient.
        let mut curl = shell(page, &format!("exec {command}"));
        let stream = Process::spawn(curl.stderr(Stdio::null())).unwrap();
        let event = stream.lines().expect_line("event: ", LONG);
        return format!("event: {event}\n");
    }
    let Some((status, expected)) = &step.answer else {
        return bash(page, &command).expect(code(&command)).out;
    };
    let asked = format!("{command} -sS -w '\\n%{{http_code}}'");
    let answer = || {
        let done = bash(page, &asked).expect(0);
        let (body, actual) = done.out.rsplit_once('\n').unwrap();
        (body.to_owned(), actual.to_owned())
    };
    let (body, actual) = if status == "401" {
        // A running server finds the first token within seconds.
        eventually(LONG, &command, || {
            Some(answer()).filter(|(_, actual)| actual == status)
        })
    } else {
        answer()
    };
    assert_eq!(actual, *status, "{command}: {body}");
    if let Some(expected) = expected {
        let body: Value = serde_json::from_str(&body).unwrap();
        page.known.json(expected, &body);
    }
    body
}

/// Returns the expected exit code of a command: that of its comment, or 0.
fn code(command: &str) -> i32 {
    let steps = command.rsplit_once("exit code ").map(|(_, code)| code);
    let digits = steps.map(|code| code.split(|letter: char| !letter.is_ascii_digit()));
    let code = digits.and_then(|mut digits| digits.next()?.parse().ok());
    code.unwrap_or(0)
}

/// Starts a server on a port of its own choice: a port that was free a moment ago may be in use.
fn start(page: &mut Page, command: &str) -> String {
    let (command, steps) = match command.split_once(" --listen ") {
        Some((before, after)) => {
            let (address, after) = after.split_once(' ').unwrap_or((after, ""));
            (format!("{before} {after}"), address.to_owned())
        }
        None => (command.to_owned(), ADDRESS.to_owned()),
    };
    let command = command.split('#').next().unwrap().trim().to_owned();
    let mut exec = shell(page, &format!("exec {command} --listen 127.0.0.1:0"));
    let process = Process::spawn(exec.stderr(Stdio::null())).unwrap();
    let said_where = process.lines().expect_line("listening on http://", LONG);
    let address = said_where.split(' ').next().unwrap();
    page.known.remember(&steps, address);
    page.servers.push(process);
    format!("listening on http://{address}\n")
}

fn bash(page: &Page, command: &str) -> Done {
    Done::of(shell(page, command).output().unwrap())
}

/// Returns a shell that finds `turno`.
fn shell(page: &Page, command: &str) -> Command {
    let turno = std::path::Path::new(TURNO).parent().unwrap();
    let path = std::env::var("PATH").unwrap();
    let mut bash = page.fixture.program("bash");
    bash.args(["-c", command])
        .env("PATH", format!("{}:{path}", turno.display()))
        .env("LC_ALL", "C.UTF-8")
        .envs(&page.variables);
    bash
}

#[test]
fn a_comment_says_how_a_command_ends() {
    assert_eq!(code("turno doctor"), 0);
    assert_eq!(
        code("turno once a -- b   # refused, exit code 75: in flight"),
        75
    );
    assert_eq!(code("turno lock acquire a || echo \"exit code $?\""), 0);
}

#[test]
fn commands_are_distinguished_from_answers() {
    let steps = commands(
        "# first\ncurl a \\\n  b\n# 200 {\"a\": 1}\n\ncat > f <<'END'\nx\nEND\nturno doctor\n# 204\n",
    );
    let command = |command: &str, answer| Step {
        command: command.to_owned(),
        answer,
    };
    let body = serde_json::json!({"a": 1});
    assert_eq!(
        steps,
        [
            command("curl a \\\n  b", Some(("200".to_owned(), Some(body)))),
            command("cat > f <<'END'\nx\nEND", None),
            command("turno doctor", Some(("204".to_owned(), None))),
        ]
    );
}
