//! Addresses of sinks: AMQP, NATS and webhooks.

use turno::sink::{SinkOptions, from_url};

/// A password that is in no other text.
const PASSWORD: &str = "s3cr3t-Xq7Z";
const SCHEMES: [&str; 6] = ["amqp", "amqps", "nats", "tls", "http", "https"];

/// What must hold for any bytes: the first one selects the scheme and where the password is, the others are the rest of the address.
pub fn check(bytes: &[u8]) {
    let [choice, rest @ ..] = bytes else {
        return;
    };
    let Ok(rest) = std::str::from_utf8(rest) else {
        return;
    };
    let scheme = SCHEMES[usize::from(*choice) % SCHEMES.len()];
    let addresses = [
        rest.to_owned(),
        format!("{scheme}://{rest}"),
        format!("{scheme}://user:{PASSWORD}@{rest}"),
    ];
    // Where these end the user and the password, what follows is no secret.
    let is_user = !rest.contains(['/', '?', '#', '@', '\\']);
    let as_user = is_user.then(|| format!("{scheme}://{rest}:{PASSWORD}@host"));
    for address in addresses.into_iter().chain(as_user) {
        let shown = match from_url(&address, &SinkOptions::default()) {
            Ok(sink) => sink.name().to_owned(),
            Err(error) => format!("{error} {error:?}"),
        };
        assert!(!shown.contains(PASSWORD), "{address:?}: {shown}");
    }
}
