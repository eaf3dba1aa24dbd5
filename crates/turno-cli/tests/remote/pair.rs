//! Two stores of one kind, one of them behind a server: both must give the same output for the same command.

use std::process::Command;

use turno_testkit::Process;

use crate::common::arguments::Arguments;
use crate::common::{Done, Fixture, Kind, LONG};
use crate::shown::normal;

/// Format of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Human,
    Json,
}

/// A store with a server on it.
pub struct Served {
    pub fixture: Fixture,
    pub url: String,
    pub server: Process,
}

impl Served {
    pub fn start(fixture: Fixture) -> Self {
        let server = fixture.start("serve --listen 127.0.0.1:0");
        let line = server
            .lines()
            .next(LONG)
            .expect("the server says where it listens");
        let url = line.trim_start_matches("listening on ").to_owned();
        Served {
            fixture,
            url,
            server,
        }
    }

    /// Returns `turno` through the server; the store is in its environment as well, which is allowed.
    pub fn command(&self, arguments: impl Arguments) -> Command {
        let mut command = self.fixture.command(arguments);
        command.env("TURNO_SERVER", &self.url);
        command
    }

    #[track_caller]
    pub fn turno(&self, arguments: impl Arguments) -> Done {
        Done::of(self.command(arguments).output().unwrap())
    }
}

/// Both stores, and the format of the output.
pub struct Pair {
    direct: Fixture,
    served: Served,
    form: Form,
    /// The last lease or claim that each printed.
    names: [String; 2],
}

/// Runs a script on both, in both formats.
pub fn on_both(kind: Kind, script: impl Fn(&mut Pair)) {
    for form in [Form::Human, Form::Json] {
        // The server has created its store; reading would not create one.
        let direct = Fixture::new(kind);
        direct.turno("migrate").expect(0);
        script(&mut Pair {
            direct,
            served: Served::start(Fixture::new(kind)),
            form,
            names: Default::default(),
        });
    }
}

impl Pair {
    /// Runs a command on the store and through the server, and expects the same of both. `{}` is replaced by the last printed
    /// lease or claim.
    #[track_caller]
    pub fn same(&mut self, code: i32, line: &str) {
        self.same_with(code, line, |command| command);
    }

    /// The same, after a change to the command.
    #[track_caller]
    pub fn same_with(
        &mut self,
        code: i32,
        line: &str,
        prepare: impl Fn(&mut Command) -> &mut Command,
    ) {
        let [direct, served] = [0, 1].map(|side| {
            let name = &self.names[side];
            let mut line = line.replace("{}", name);
            if self.form == Form::Json {
                line.insert_str(0, "--json ");
            }
            let mut command = match side {
                0 => self.direct.command(&line),
                _ => self.served.command(&line),
            };
            Done::of(prepare(&mut command).output().unwrap())
        });
        assert_eq!(direct.code, Some(code), "{line} on the store: {direct:#?}");
        assert_eq!(
            served.code,
            Some(code),
            "{line} through a server: {served:#?}"
        );
        let shown = |done: &Done, store: &str| (normal(&done.out, store), normal(&done.err, store));
        let of = shown(&direct, &self.direct.store);
        let through = shown(&served, &self.served.fixture.store);
        assert_eq!(through, of, "{line} through a server, and on the store");
        for (name, done) in self.names.iter_mut().zip([&direct, &served]) {
            if let Some(found) = named(&done.out) {
                *name = found.to_owned();
            }
        }
    }
}

/// Returns the first word that contains an @: a lease or a claim.
fn named(out: &str) -> Option<&str> {
    out.split(|c: char| c.is_whitespace() || c == '"')
        .find(|word| word.contains('@'))
}
