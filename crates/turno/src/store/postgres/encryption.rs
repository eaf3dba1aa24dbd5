//! What `turno doctor` says of the encryption of the connection.

use tokio_postgres::config::{Config, Host, SslMode};

use super::PostgresStore;
use crate::error::Result;
use crate::store::Finding;

const SUBJECT: &str = "encryption";
const ADVICE: &str = "set sslmode=verify-full and sslrootcert";

pub(super) async fn finding(store: &PostgresStore) -> Result<Finding> {
    let route = &store.calls.route;
    if !route.is_direct() {
        // The server sees its connection to the pooler, and not this one.
        return Ok(match route.target() {
            Some(target) => to_pooler(target.hosts()),
            None => Finding::ok(SUBJECT, "as the application configured its connection pool"),
        });
    }
    let row = store.calls.row(query!(diagnose_encryption), &[]).await?;
    Ok(if row.get("encrypted") {
        let text = |column| row.get::<_, Option<String>>(column).unwrap_or_default();
        Finding::ok(
            SUBJECT,
            format!("{} with {}", text("version"), text("cipher")),
        )
    } else if row.get("local") {
        Finding::ok(SUBJECT, "none, and the connection stays on this machine")
    } else {
        Finding::warning(
            SUBJECT,
            format!(
                "the connection to another machine is not encrypted: passwords of old methods and all data can be read on the way; {ADVICE}"
            ),
        )
    })
}

fn to_pooler(hosts: &[Config]) -> Finding {
    let is_safe = |host: &Config| host.get_ssl_mode() == SslMode::Require || is_local(host);
    if hosts.iter().all(is_safe) {
        Finding::ok(
            SUBJECT,
            "the connection to the pooler is encrypted or stays on this machine; what lies behind the pooler cannot be seen from here",
        )
    } else {
        Finding::warning(
            SUBJECT,
            format!(
                "the connection to a pooler on another machine may be without encryption, because sslmode does not demand it; {ADVICE}"
            ),
        )
    }
}

/// Whether a host is this machine, by its name.
fn is_local(config: &Config) -> bool {
    let by_address = config
        .get_hostaddrs()
        .iter()
        .map(|address| address.is_loopback());
    let by_name = config.get_hosts().iter().map(|host| match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            let address = name.parse::<std::net::IpAddr>();
            name == "localhost" || address.is_ok_and(|address| address.is_loopback())
        }
    });
    by_address.chain(by_name).next().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::postgres::{Environment, Target};

    #[test]
    fn a_pooler_elsewhere_needs_encryption() {
        for (url, is_safe) in [
            ("postgres://localhost/app", true),
            ("postgres://127.0.0.1,[::1]/app?sslmode=disable", true),
            ("postgres:///app?host=/run/pg", true),
            ("postgres://db/app", false),
            ("postgres://db/app?sslmode=require", true),
            ("postgres://db/app?hostaddr=127.0.0.1", true),
            ("postgres://localhost,db/app", false),
        ] {
            let target = Target::parse_with(url, &Environment::default()).unwrap();
            let finding = format!("{:?}", to_pooler(target.hosts()));
            assert_eq!(finding.contains(ADVICE), !is_safe, "{url}: {finding}");
        }
    }
}
