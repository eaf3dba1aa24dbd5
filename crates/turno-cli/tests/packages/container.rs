//! The Dockerfile, checked as far as possible without a container engine.

use std::process::Command;

use crate::common::{Fixture, Kind, LONG};
use crate::{path, read};

/// Returns an instruction of the Dockerfile.
fn instruction(name: &str) -> String {
    let text = read("Dockerfile").replace("\\\n", " ");
    let of_name = |line: &&str| line.split_whitespace().next() == Some(name);
    let line = text.lines().rfind(of_name);
    line.unwrap_or_else(|| panic!("{name} is not there"))[name.len()..]
        .trim()
        .to_owned()
}

/// Returns the result of the image's health check.
fn health_check(address: &str) -> bool {
    let said = instruction("HEALTHCHECK");
    let (_, command) = said.split_once("CMD ").unwrap();
    let words: Vec<String> = serde_json::from_str(command).unwrap();
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).env("TURNO_LISTEN", address);
    command.output().unwrap().status.success()
}

/// As in docs/install.md: the first token, then the server, on one volume, and on every address of the container.
#[test]
fn the_container_starts_after_the_first_token_and_its_health_is_seen() {
    let fixture = Fixture::new(Kind::Sqlite);
    let environment = instruction("ENV");
    let listen = environment
        .split_whitespace()
        .find_map(|word| word.strip_prefix("TURNO_LISTEN="))
        .unwrap();
    let (every, port) = listen.split_once(':').unwrap();
    assert_eq!(instruction("EXPOSE"), port);
    assert_eq!(
        instruction("VOLUME"),
        format!("[\"{}\"]", instruction("WORKDIR"))
    );
    // The folder represents the volume, and no option names the store.
    let turno = |words: &[&str]| {
        let mut command = fixture.command(words);
        command
            .env_remove("TURNO_STORE")
            .env("TURNO_LISTEN", format!("{every}:0"));
        command
    };
    let refused = turno(&["serve"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2), "there is no token yet");
    let mut create = turno(&["token", "create", "ana", "--role", "admin"]);
    assert!(create.output().unwrap().status.success());
    let server = turno_testkit::Process::spawn(&mut turno(&["serve"])).unwrap();
    let line = server.lines().next(LONG).unwrap();
    let (_, address) = line.rsplit_once('/').unwrap();
    assert!(health_check(address), "{line}");
    server.term();
    assert_eq!(server.wait_timeout(LONG).unwrap().code(), Some(0));
    assert!(!health_check(address), "the server has ended");
}

#[test]
fn what_is_built_in_the_container_is_let_into_it() {
    let ignore = read(".dockerignore");
    let let_in: Vec<&str> = ignore
        .lines()
        .filter_map(|line| line.strip_prefix('!'))
        .collect();
    let manifest: toml::Table = read("Cargo.toml").parse().unwrap();
    let members = manifest["workspace"]["members"].as_array().unwrap();
    for member in members {
        let folder = member.as_str().unwrap().split('/').next().unwrap();
        assert!(let_in.contains(&folder), "{folder} is kept out");
    }
    for name in let_in {
        path(name);
    }
    // The profile of the build exists, and its compiler is not older than the workspace requires.
    assert!(manifest["profile"].get("dist").is_some());
    let from = read("Dockerfile");
    let image = from.lines().find(|line| line.starts_with("FROM rust:"));
    let version = image.unwrap()["FROM rust:".len()..].split('-').next();
    let wanted = manifest["workspace"]["package"]["rust-version"].as_str();
    let minor = |version: &str| version.split('.').nth(1).unwrap().parse::<u32>().unwrap();
    assert!(minor(version.unwrap()) >= minor(wanted.unwrap()));
}
