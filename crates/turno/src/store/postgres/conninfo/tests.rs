//! What a URL, a service file, the environment and a password file make of each other.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use tempfile::TempDir;

use super::*;

/// A home folder with some files in it, readable by their owner only.
fn home(files: &[(&str, &str)]) -> TempDir {
    let home = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let file = home.path().join(name);
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    }
    home
}

fn environment(home: &TempDir, variables: &[(&str, &str)]) -> Environment {
    let home = home.path().to_str().unwrap();
    let home = [("HOME", home)].into_iter();
    home.chain(variables.iter().copied()).collect()
}

fn parse(url: &str, variables: &[(&str, &str)]) -> Result<Target> {
    Target::parse_with(url, &environment(&home(&[]), variables))
}

#[track_caller]
fn refused(url: &str, variables: &[(&str, &str)]) -> String {
    let error = parse(url, variables).expect_err(url);
    assert_eq!(error.field(), Some("store"), "{error}");
    error.to_string()
}

fn tcp(target: &Target) -> Vec<(String, u16)> {
    let config = target.config();
    let hosts = config.get_hosts().iter().map(|host| match host {
        Host::Tcp(name) => name.clone(),
        Host::Unix(folder) => folder.display().to_string(),
    });
    hosts.zip(config.get_ports().iter().copied()).collect()
}

#[test]
fn everything_can_come_from_the_environment() {
    let variables = [
        ("PGHOST", "db.example.com"),
        ("PGPORT", "6543"),
        ("PGUSER", "ana"),
        ("PGDATABASE", "app"),
        ("PGPASSWORD", "s3cret"),
        ("PGAPPNAME", "billing"),
        ("PGOPTIONS", "-c geqo=off"),
        ("PGCONNECT_TIMEOUT", "7"),
        ("PGTARGETSESSIONATTRS", "read-write"),
        ("PGCHANNELBINDING", "require"),
        ("PGSSLMODE", "require"),
    ];
    for url in ["postgres://", "postgresql://", "postgres:"] {
        let target = parse(url, &variables).unwrap();
        let config = target.config();
        assert_eq!(tcp(&target), [("db.example.com".to_owned(), 6543)]);
        assert_eq!(config.get_user(), Some("ana"));
        assert_eq!(config.get_dbname(), Some("app"));
        assert_eq!(config.get_password(), Some(&b"s3cret"[..]));
        assert_eq!(config.get_application_name(), Some("billing"));
        assert_eq!(config.get_options(), Some("-c geqo=off"));
        let timeout = Duration::from_secs(7);
        assert_eq!(config.get_connect_timeout(), Some(&timeout));
        let target = config.get_target_session_attrs();
        assert_eq!(target, TargetSessionAttrs::ReadWrite);
        assert_eq!(config.get_channel_binding(), ChannelBinding::Require);
        assert_eq!(config.get_ssl_mode(), SslMode::Require);
    }
}

#[test]
fn the_url_wins_over_the_service_file_and_that_over_the_environment() {
    let home = home(&[(
        ".pg_service.conf",
        "# comment\n[other]\nhost=wrong\n\n[app]\nhost=of-the-service\nuser=of-the-service\nport=7000\n[app]\nhost=second\n",
    )]);
    let variables = [
        ("PGHOST", "of-the-environment"),
        ("PGUSER", "of-the-environment"),
        ("PGDATABASE", "of-the-environment"),
        ("PGSERVICE", "other"),
    ];
    let environment = environment(&home, &variables);
    let target = Target::parse_with("postgres://of-the-url@/?service=app", &environment).unwrap();
    assert_eq!(target.config().get_user(), Some("of-the-url"));
    assert_eq!(tcp(&target), [("of-the-service".to_owned(), 7000)]);
    assert_eq!(target.config().get_dbname(), Some("of-the-environment"));
    let target = Target::parse_with("postgres://", &environment).unwrap();
    assert_eq!(tcp(&target), [("wrong".to_owned(), 5432)]);
}

#[test]
fn a_service_that_is_missing_or_wrong_is_named() {
    let home = home(&[
        (
            ".pg_service.conf",
            "[bad]\ncolour=s3cret\n[worse]\nnonsense\n",
        ),
        ("mine.conf", "[app]\nhost=db\n"),
    ]);
    let with = |url: &str, variables: &[(&str, &str)]| {
        Target::parse_with(url, &environment(&home, variables))
    };
    let error = with("service=none", &[]).unwrap_err().to_string();
    assert!(
        error.contains("\"none\"") && error.contains("PGSERVICEFILE"),
        "{error}"
    );
    let error = with("service=bad", &[]).unwrap_err().to_string();
    assert!(
        error.contains("\"colour\"") && error.contains("line 2"),
        "{error}"
    );
    assert!(!error.contains("s3cret"), "{error}");
    let error = with("service=worse", &[]).unwrap_err().to_string();
    assert!(error.contains("line 4"), "{error}");
    let file = home.path().join("mine.conf");
    let variables = [("PGSERVICEFILE", file.to_str().unwrap())];
    let target = with("service=app", &variables).unwrap();
    assert_eq!(tcp(&target), [("db".to_owned(), 5432)]);
}

#[test]
fn a_password_file_is_used_if_only_its_owner_can_read_it() {
    let home = home(&[(".pgpass", "db:5432:app:ana:s3cret\n*:*:*:eva:other\n")]);
    let environment = environment(&home, &[]);
    let password = |url: &str| {
        let target = Target::parse_with(url, &environment).unwrap();
        let password = target.config().get_password();
        password.map(|password| String::from_utf8(password.to_vec()).unwrap())
    };
    assert_eq!(password("postgres://ana@db/app").as_deref(), Some("s3cret"));
    assert_eq!(password("postgres://ana@db/other"), None);
    assert_eq!(
        password("postgres://ana:own@db/app").as_deref(),
        Some("own")
    );
    // Each host has its own; the database's name defaults to the user's.
    let url = "postgres://ana@db,elsewhere/app";
    let hosts = Target::parse_with(url, &environment).unwrap();
    let found: Vec<_> = hosts
        .hosts()
        .iter()
        .map(|host| host.get_password())
        .collect();
    assert_eq!(found, [Some(&b"s3cret"[..]), None]);

    let file = home.path().join(".pgpass");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    assert_eq!(password("postgres://ana@db/app"), None);
    let elsewhere = home.path().join("elsewhere");
    fs::write(&elsewhere, "*:*:*:*:elsewhere").unwrap();
    fs::set_permissions(&elsewhere, fs::Permissions::from_mode(0o600)).unwrap();
    let url = format!("host=db user=ana passfile={}", elsewhere.display());
    assert_eq!(password(&url).as_deref(), Some("elsewhere"));
}

#[test]
fn several_hosts_have_a_port_each_or_one_for_all() {
    for url in [
        "postgres://ana@a:1,b:2/app",
        "postgres://ana@/app?host=a,b&port=1,2",
        "host=a,b port=1,2 user=ana",
    ] {
        let target = parse(url, &[]).unwrap();
        let expected = [("a".to_owned(), 1), ("b".to_owned(), 2)];
        assert_eq!(tcp(&target), expected, "{url}");
        assert_eq!(target.hosts().len(), 2);
        assert!(
            target
                .hosts()
                .iter()
                .all(|host| host.get_hosts().len() == 1)
        );
    }
    let target = parse("host=a,b port=7", &[]).unwrap();
    assert_eq!(tcp(&target), [("a".to_owned(), 7), ("b".to_owned(), 7)]);
    let target = parse("hostaddr=192.0.2.1", &[]).unwrap();
    assert_eq!(tcp(&target), [("192.0.2.1".to_owned(), 5432)]);
}

#[test]
fn a_socket_of_this_machine_is_not_encrypted() {
    let target = parse("postgres://ana@%2Frun%2Fpg,db/app?sslmode=require", &[]).unwrap();
    let modes: Vec<_> = target.hosts().iter().map(Config::get_ssl_mode).collect();
    assert_eq!(modes, [SslMode::Disable, SslMode::Require]);
    assert_eq!(target.config().get_ssl_mode(), SslMode::Require);
}

#[test]
fn times_and_keepalives_are_as_in_libpq() {
    let url = "host=db tcp_user_timeout=1500 keepalives=0 keepalives_idle=9 keepalives_interval=3 keepalives_count=4 connect_timeout=0";
    let target = parse(url, &[]).unwrap();
    let config = target.config();
    let timeout = Duration::from_millis(1500);
    assert_eq!(config.get_tcp_user_timeout(), Some(&timeout));
    assert!(!config.get_keepalives());
    assert_eq!(config.get_keepalives_idle(), Duration::from_secs(9));
    let interval = Duration::from_secs(3);
    assert_eq!(config.get_keepalives_interval(), Some(interval));
    assert_eq!(config.get_keepalives_retries(), Some(4));
    assert_eq!(config.get_connect_timeout(), None);
}

#[test]
fn invalid_values_name_their_parameter_and_are_not_shown() {
    for (url, says) in [
        ("postgres://db?sslmode=s3cret", "verify-full"),
        ("postgres://db?sslmode=allow", "prefer"),
        ("postgres://ana:s3/cret@db/app", "port (or PGPORT)"),
        ("host=db port=s3cret", "port (or PGPORT)"),
        ("host=db port=0", "65535"),
        ("host=a,b port=1,2,3", "as many"),
        ("host=db connect_timeout=s3cret", "PGCONNECT_TIMEOUT"),
        ("host=db hostaddr=s3cret", "IP address"),
        ("host=db target_session_attrs=read-only", "read-write"),
        ("host=db channel_binding=s3cret", "require"),
        ("host=db client_encoding=LATIN1", "UTF8"),
        ("host=db gssencmode=require", "GSSAPI"),
        ("host=db sslnegotiation=direct", "sslmode=require"),
        ("host=db sslrootcert=system sslmode=require", "verify-full"),
        (
            "host=db sslmode=verify-ca",
            "sslrootcert=system|set sslrootcert",
        ),
        ("host=db sslmode=require sslrootcert=/nowhere", "/nowhere"),
        ("host=db sslcert=/nowhere", "sslkey"),
    ] {
        let message = refused(url, &[]);
        let says = says.split('|').any(|says| message.contains(says));
        assert!(says, "{url}: {message}");
        assert!(!message.contains("s3"), "{url}: {message}");
    }
    assert!(refused("postgres://", &[("PGSSLMODE", "s3cret")]).contains("PGSSLMODE"));
}

#[test]
fn the_authorities_of_the_system_are_fully_verified() {
    let target = parse("postgres://db?sslrootcert=system", &[]).unwrap();
    assert_eq!(target.config().get_ssl_mode(), SslMode::Require);
}

#[test]
fn nothing_shows_the_password() {
    let target = parse("postgres://ana:s3cret@db/app", &[]).unwrap();
    assert!(!format!("{target:?}").contains("s3cret"));
    let environment = Environment::from_iter([("PGPASSWORD", "s3cret")]);
    assert!(!format!("{environment:?}").contains("s3cret"));
}

#[test]
fn connection_strings_are_distinguished_from_other_stores() {
    for text in ["host=db", "dbname = app", "service=app"] {
        assert!(is_connection_string(text), "{text}");
    }
    for text in [
        "sqlite:a=b",
        "postgres://db?host=a",
        "colour=blue",
        "app.db",
    ] {
        assert!(!is_connection_string(text), "{text}");
    }
}
