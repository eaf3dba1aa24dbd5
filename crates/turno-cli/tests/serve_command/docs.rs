//! The commands of docs/serve.md and of the README do what is said there.
//!
//! In a block in `sh`, a command may be followed by `# STATUS JSON`: the status that it is answered with, and a part of the
//! answer. What the example has in places where the answer differs (ids, tokens, times) stands for the real thing from
//! there on.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;
use turno_testkit::eventually;

use crate::common::{Done, Kind, LONG, Place, TURNO};
use crate::http::Server;

/// Where the examples say that the server is.
const ADDRESS: &str = "127.0.0.1:7117";

/// One command, and what is said of its answer.
#[derive(Debug)]
struct Example {
    command: String,
    expected: Option<(String, Option<Value>)>,
}

/// The commands of all blocks in `sh`.
fn examples(text: &str) -> Vec<Example> {
    let mut examples: Vec<Example> = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        match line {
            "```sh" => inside = true,
            "```" => inside = false,
            _ if !inside || line.is_empty() => {}
            _ => match line.strip_prefix("# ") {
                Some(said) => {
                    let (status, body) = said.split_once(' ').unwrap_or((said, ""));
                    let body = (!body.is_empty()).then(|| {
                        serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}"))
                    });
                    let last = examples.last_mut().expect("a command before its answer");
                    last.expected = Some((status.to_owned(), body));
                }
                None => examples.push(Example {
                    command: line.to_owned(),
                    expected: None,
                }),
            },
        }
    }
    examples
}

/// A shell in which one command is said after the other.
struct Shell<'a> {
    place: &'a Place,
    server: Option<Server>,
    variables: BTreeMap<String, String>,
    /// What stands for what.
    known: Vec<(String, String)>,
}

impl<'a> Shell<'a> {
    fn new(place: &'a Place) -> Self {
        Shell {
            place,
            server: None,
            variables: BTreeMap::new(),
            known: Vec::new(),
        }
    }

    fn say(&mut self, example: &Example) {
        let mut command = example.command.clone();
        if command == "turno serve" {
            let server = Server::start(self.place, &[]);
            self.known = vec![(ADDRESS.to_owned(), server.address.clone())];
            self.server = Some(server);
            return;
        }
        for (said, meant) in &self.known {
            command = command.replace(said, meant);
        }
        if let Some((name, _)) = command
            .strip_prefix("export ")
            .and_then(|rest| rest.split_once('='))
        {
            let done = self.bash(&format!("{command}; printf %s \"${name}\""));
            self.variables.insert(name.to_owned(), done.expect(0).out);
            return;
        }
        let Some((status, expected)) = &example.expected else {
            self.bash(&command).expect(0);
            return;
        };
        let asked = format!("{command} -sS -w '\\n%{{http_code}}'");
        let answer = || {
            let done = self.bash(&asked).expect(0);
            let (body, told) = done.out.rsplit_once('\n').unwrap();
            (body.to_owned(), told.to_owned())
        };
        let (body, told) = if status == "401" {
            // A server that runs hears of the first token within seconds.
            eventually(LONG, &command, || {
                Some(answer()).filter(|(_, told)| told == status)
            })
        } else {
            answer()
        };
        assert_eq!(told, *status, "{command}: {body}");
        if let Some(expected) = expected {
            let body: Value = serde_json::from_str(&body).unwrap();
            self.compare(&command, expected, &body);
        }
    }

    fn bash(&self, command: &str) -> Done {
        let mut bash: Command = self.place.program("bash");
        let turno = std::path::Path::new(TURNO).parent().unwrap();
        let path = std::env::var("PATH").unwrap();
        bash.args(["-c", command])
            .env("PATH", format!("{}:{path}", turno.display()))
            .env("LC_ALL", "C.UTF-8")
            .envs(&self.variables);
        Done::of(bash.output().unwrap())
    }

    /// What the example says has to be there, and be alike; what differs is remembered.
    fn compare(&mut self, command: &str, expected: &Value, told: &Value) {
        match (expected, told) {
            (Value::Object(expected), Value::Object(_)) => {
                for (name, expected) in expected {
                    let value = told.get(name);
                    let value = value.unwrap_or_else(|| panic!("{command}: no {name} in {told}"));
                    self.compare(command, expected, value);
                }
            }
            (Value::Array(expected), Value::Array(told)) => {
                assert_eq!(expected.len(), told.len(), "{command}: {told:?}");
                for (expected, told) in expected.iter().zip(told) {
                    self.compare(command, expected, told);
                }
            }
            (Value::String(expected), Value::String(told)) if expected != told => {
                assert!(
                    expected.contains(['@', ':', '-']),
                    "{command}: {told:?} and not {expected:?}"
                );
                self.remember(command, expected, told);
            }
            (Value::Number(expected), Value::Number(told)) if expected != told => {
                // A token, an id or how long: nobody knows.
                assert!(expected.as_i64() > Some(1000), "{command}: {told}");
                self.remember(command, &expected.to_string(), &told.to_string());
            }
            _ => assert_eq!(expected, told, "{command}"),
        }
    }

    /// One thing stands for one other.
    fn remember(&mut self, command: &str, expected: &str, told: &str) {
        match self.known.iter().find(|(said, _)| said == expected) {
            Some((_, meant)) => assert_eq!(meant, told, "{command}"),
            None => self.known.push((expected.to_owned(), told.to_owned())),
        }
    }
}

#[test]
fn the_page_of_the_server_does_what_it_says() {
    let place = Place::new(Kind::Sqlite);
    let mut shell = Shell::new(&place);
    let examples = examples(include_str!("../../../../docs/serve.md"));
    assert!(examples.len() > 20, "{examples:#?}");
    for example in &examples {
        shell.say(example);
    }
}

#[test]
fn the_readme_does_what_it_says() {
    let place = Place::new(Kind::Sqlite);
    let mut shell = Shell::new(&place);
    let serve = Example {
        command: "turno serve".to_owned(),
        expected: None,
    };
    shell.say(&serve);
    // Only what is asked of a server: the rest of the README is tested elsewhere.
    let text = include_str!("../../../../README.md");
    let curl: Vec<String> = text
        .lines()
        .scan(false, |is_curl, line| {
            *is_curl = line.starts_with("curl ") || (*is_curl && line.starts_with("# "));
            Some(is_curl.then(|| line.to_owned()))
        })
        .flatten()
        .collect();
    let examples = examples(&format!("```sh\n{}\n```", curl.join("\n")));
    assert!(examples.len() > 1, "{examples:#?}");
    for example in &examples {
        assert!(example.expected.is_some(), "{example:?}");
        shell.say(example);
    }
}

/// Each code of a problem is in the page's table, and no other is.
#[test]
fn the_page_names_every_code_with_its_status() {
    let words = include_str!("../../../turno-server/src/serve/words.rs");
    let page = include_str!("../../../../docs/serve.md");
    let mut lines = words
        .lines()
        .map(str::trim)
        .skip_while(|line| !line.contains("fn entry"));
    let mut codes = Vec::new();
    while let Some(line) = lines.next() {
        if !line.starts_with("Code::") || !line.contains("=> (") {
            continue;
        }
        let word = lines.next().unwrap().trim_matches(['"', ',']);
        codes.push(word);
    }
    assert!(codes.len() > 20, "{codes:?}");
    let rows: Vec<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once("` | "))
        .filter(|(_, rest)| rest.starts_with(['4', '5']))
        .map(|(code, _)| code)
        .collect();
    assert_eq!(rows, codes);
}
