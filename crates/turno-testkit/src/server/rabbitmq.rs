//! A private RabbitMQ broker.

use std::env;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::supervised::Supervised;
use super::{PrivateServer, programs};
use crate::port;

const CONFIG: &str = "rabbitmq.conf";
const PLUGINS: &str = "enabled_plugins";

/// Share of the memory above which the broker blocks publishers: RabbitMQ's default, needed to restore it.
const MEMORY_SHARE: &str = "0.4";

/// Timeout of one check of the broker.
const LOOK_TIMEOUT: Duration = Duration::from_secs(1);

/// First bytes that an AMQP 0-9-1 client sends.
const GREETING: &[u8] = b"AMQP\0\0\x09\x01";

/// Length of a frame's header: type, channel and length.
const FRAME_HEADER: usize = 7;

/// First bytes of `connection.start`: class 10, method 10.
const CONNECTION_START: [u8; 4] = [0, 10, 0, 10];

/// A private RabbitMQ broker on 127.0.0.1, without plugins. Its user is `guest`, with the password `guest`.
///
/// ```no_run
/// # use turno_testkit::server::RabbitMq;
/// let broker = RabbitMq::start_with("max_message_size = 65536\n")?;
/// let url = broker.url();
/// broker.kill_9()?;
/// broker.restart()?;
/// // What was confirmed is there again at `url`.
/// # Ok::<(), anyhow::Error>(())
/// ```
#[derive(Debug)]
pub struct RabbitMq {
    node: Node,
    server: PrivateServer,
}

impl RabbitMq {
    /// Starts a broker.
    ///
    /// # Errors
    ///
    /// Returns an error if RabbitMQ is not installed (the message says what to install) or does not start (the message has the
    /// end of its log).
    pub fn start() -> Result<Self> {
        Self::start_with("")
    }

    /// Starts a broker with these lines (as in `rabbitmq.conf`) after the default ones.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start), and for a line that is invalid for RabbitMQ.
    pub fn start_with(lines: &str) -> Result<Self> {
        let scripts = programs::rabbitmq()?;
        // Stopped by a kill, because its data are deleted with the folder.
        let server = Supervised::new("rabbitmq", "KILL", None)?;
        let mut node = Node::new(scripts, server.folder())?;
        server.write(PLUGINS, "[].\n")?;
        let id = node.id.clone();
        let server = PrivateServer::start(
            server,
            |server, port| {
                server.write(CONFIG, config(port, lines))?;
                node.port = port::free().context("there is no free local port")?;
                Ok(node.command())
            },
            move |_, port| is_ready(port, &id),
        )?;
        Ok(Self { node, server })
    }

    /// Returns the broker's URL, `amqp://guest:guest@127.0.0.1:PORT/%2f`.
    pub fn url(&self) -> String {
        format!("amqp://guest:guest@127.0.0.1:{}/%2f", self.port())
    }

    /// Triggers the broker's memory alarm: it stops reading from connections that publish. A client that supports it gets
    /// `connection.blocked` at its next publication. A restart also ends the alarm.
    ///
    /// # Errors
    ///
    /// As [`ctl`](Self::ctl).
    pub fn block_publishers(&self) -> Result<()> {
        self.limit_memory("0")
    }

    /// Ends the alarm of [`block_publishers`](Self::block_publishers).
    ///
    /// # Errors
    ///
    /// As [`ctl`](Self::ctl).
    pub fn unblock_publishers(&self) -> Result<()> {
        self.limit_memory(MEMORY_SHARE)
    }

    fn limit_memory(&self, share: &str) -> Result<()> {
        self.ctl(&["set_vm_memory_high_watermark", share]).map(drop)
    }

    /// Runs `rabbitmqctl` on this broker and returns its output, for example of `["list_queues", "name", "messages"]`.
    ///
    /// # Errors
    ///
    /// Returns an error if it fails, as it does while the broker is down; the message has its output.
    pub fn ctl(&self, arguments: &[&str]) -> Result<String> {
        let output = self
            .node
            .ctl()
            .args(arguments)
            .output()
            .context("could not run rabbitmqctl")?;
        let printed = String::from_utf8_lossy(&output.stdout);
        ensure!(
            output.status.success(),
            "`rabbitmqctl {}` ended with {} (is the broker stopped?): {printed}{}",
            arguments.join(" "),
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(printed.into_owned())
    }
}

impl Deref for RabbitMq {
    type Target = PrivateServer;

    fn deref(&self) -> &PrivateServer {
        &self.server
    }
}

/// The broker as an Erlang node: a name and a port.
///
/// Nodes usually find each other's ports through a daemon (epmd), which the first one starts and which outlives them all. Here
/// the port is passed to all programs instead, and there is no daemon.
#[derive(Debug)]
struct Node {
    scripts: PathBuf,
    folder: PathBuf,
    id: String,
    port: u16,
}

impl Node {
    fn new(scripts: PathBuf, folder: &Path) -> Result<Self> {
        // The folder's name, which is unique.
        let id = folder
            .file_name()
            .and_then(|name| name.to_str())
            .context("the watchdog's folder has a plain name")?;
        Ok(Self {
            scripts,
            folder: folder.to_owned(),
            id: id.to_owned(),
            port: 0,
        })
    }

    fn name(&self) -> String {
        format!("{}@localhost", self.id)
    }

    fn command(&self) -> Vec<String> {
        let mut words = vec!["env".to_owned(), "-i".to_owned()];
        words.extend(
            self.environment()
                .into_iter()
                .map(|(name, value)| format!("{name}={value}")),
        );
        words.push(text(&self.scripts.join("rabbitmq-server")));
        let port = self.port.to_string();
        words.extend(
            [
                "-noinput",
                "-sname",
                &self.name(),
                "-erl_epmd_port",
                &port,
                "-kernel",
                "inet_dist_use_interface",
                "{127,0,0,1}",
                // Enough for a test, and faster to start than one scheduler per processor.
                "+S",
                "2:2",
                // Idle schedulers sleep at once: the processors have other work.
                "+sbwt",
                "none",
                "+sbwtdcpu",
                "none",
                "+sbwtdio",
                "none",
            ]
            .map(str::to_owned),
        );
        words
    }

    fn ctl(&self) -> Command {
        let mut command = Command::new(self.scripts.join("rabbitmqctl"));
        command
            .env_clear()
            .envs(self.environment())
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .args(["--node", &self.name(), "--quiet"]);
        command
    }

    /// Complete environment of the broker and `rabbitmqctl`. The user's own settings and the machine's must not apply.
    fn environment(&self) -> Vec<(&'static str, String)> {
        let file = |name: &str| text(&self.folder.join(name));
        let path = env::var_os("PATH").unwrap_or_default();
        vec![
            ("PATH", path.to_string_lossy().into_owned()),
            ("LC_ALL", "C.UTF-8".to_owned()),
            // The cookie, which authenticates `rabbitmqctl`, is in the home folder.
            ("HOME", text(&self.folder)),
            ("RABBITMQ_NODENAME", self.name()),
            ("RABBITMQ_CONFIG_FILE", file(CONFIG)),
            ("RABBITMQ_ENABLED_PLUGINS_FILE", file(PLUGINS)),
            ("RABBITMQ_MNESIA_BASE", file("data")),
            ("RABBITMQ_LOG_BASE", file("logs")),
            ("RABBITMQ_LOGS", "-".to_owned()),
            ("RABBITMQ_PID_FILE", file("pid")),
            // Files that do not exist, instead of the machine's.
            ("RABBITMQ_CONF_ENV_FILE", file("no-env.conf")),
            ("RABBITMQ_CONFIG_FILES", file("no-conf.d")),
            ("RABBITMQ_ADVANCED_CONFIG_FILE", file("no-advanced.config")),
            // The script execs the broker instead of waiting for it, so that signals reach it.
            ("RABBITMQ_ALLOW_INPUT", "yes".to_owned()),
            // Do not bind schedulers: several brokers would all use the first processors.
            ("RABBITMQ_SCHEDULER_BIND_TYPE", "u".to_owned()),
            // `rabbitmqctl` is a node too, and would listen on the same port.
            (
                "RABBITMQ_CTL_ERL_ARGS",
                format!("-erl_epmd_port {} -dist_listen false", self.port),
            ),
            // For other programs that the broker runs: it checks the daemon once a minute, and must not start one. There is no
            // daemon at that port.
            ("ERL_FLAGS", "-start_epmd false".to_owned()),
            ("ERL_EPMD_PORT", "1".to_owned()),
            // No crash dump: it would be a large file that is never read.
            ("ERL_CRASH_DUMP_SECONDS", "0".to_owned()),
        ]
    }
}

fn config(port: u16, lines: &str) -> String {
    format!(
        "listeners.tcp.1 = 127.0.0.1:{port}\n\
         vm_memory_high_watermark.relative = {MEMORY_SHARE}\n\
         disk_free_limit.absolute = 1MB\n\
         {lines}\n"
    )
}

/// Checks that the response has the broker's own name: on the port, another server might respond. The host part of the name is
/// the machine's.
fn is_ready(port: u16, id: &str) -> bool {
    let own = format!("{id}@");
    first_frame(port).is_ok_and(|content| {
        content.starts_with(&CONNECTION_START)
            && content
                .windows(own.len())
                .any(|window| window == own.as_bytes())
    })
}

fn first_frame(port: u16) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(LOOK_TIMEOUT))?;
    stream.write_all(GREETING)?;
    let mut header = [0; FRAME_HEADER];
    stream.read_exact(&mut header)?;
    let [_, _, _, length @ ..] = header;
    let mut content = Vec::new();
    stream
        .take(u32::from_be_bytes(length).into())
        .read_to_end(&mut content)?;
    Ok(content)
}

fn text(path: &Path) -> String {
    path.display().to_string()
}
