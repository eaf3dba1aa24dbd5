//! The routes file of the gate.

use turno_server::gate::Upstream;
use turno_server::gate::config::RoutesFile;

/// What must hold for any bytes: a file that is accepted can be used, and an error names a place in the file.
pub fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let upstream: Upstream = "http://127.0.0.1:1".parse().expect("an address");
    match RoutesFile::parse(text) {
        Ok(file) => {
            assert!(!file.list().is_empty());
            file.routes(&upstream).expect("the routes were checked");
            for route in file.list() {
                assert!(route.path().starts_with('/'), "{:?}", route.path());
                let described = route.describe();
                assert!(!described.is_empty());
                let json = route.to_json().to_string();
                assert!(serde_json::from_str::<serde_json::Value>(&json).is_ok());
            }
        }
        Err(error) => {
            let message = error.to_string();
            let line = message
                .strip_prefix("line ")
                .and_then(|rest| rest.split_once(','));
            let line: usize = line.expect("a line").0.parse().expect("its number");
            assert!(
                (1..=text.lines().count() + 1).contains(&line),
                "{message} in {text:?}"
            );
        }
    }
}
