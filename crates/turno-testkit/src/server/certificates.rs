//! Certificates for TLS tests, created with the `openssl` program.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

const NEW_KEY: [&str; 5] = [
    "-newkey",
    "ec",
    "-pkeyopt",
    "ec_paramgen_curve:prime256v1",
    "-nodes",
];

/// A certificate and its key, in PEM.
#[derive(Debug, Clone)]
pub struct Certificate {
    /// File of the certificate.
    pub certificate: PathBuf,
    /// File of its private key, readable only by the owner.
    pub key: PathBuf,
}

/// Subject of a certificate.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// Common name: the role, for a client.
    pub common_name: &'a str,
    /// Alternative names, such as `DNS:localhost`; may be empty.
    pub names: &'a str,
    /// Validity in days. A negative number creates an expired certificate.
    pub days: i32,
}

impl Certificate {
    /// Creates an authority. Its certificate is valid for two days.
    ///
    /// # Errors
    ///
    /// Returns an error if `openssl` is not installed or fails; the message has its output.
    pub fn authority(folder: &Path, name: &str) -> Result<Self> {
        Self::self_signed(folder, name, &["-addext", "keyUsage=critical,keyCertSign"])
    }

    /// Creates a self-signed certificate for `localhost`, as in PostgreSQL's manual.
    ///
    /// # Errors
    ///
    /// As [`authority`](Self::authority).
    pub fn self_signed_localhost(folder: &Path, name: &str) -> Result<Self> {
        Self::self_signed(folder, name, &["-addext", "subjectAltName=DNS:localhost"])
    }

    fn self_signed(folder: &Path, name: &str, options: &[&str]) -> Result<Self> {
        let files = Self::files(folder, name);
        let mut command = Command::new("openssl");
        command
            .args(["req", "-x509", "-days", "2"])
            .args(NEW_KEY)
            .args(["-subj", &format!("/CN={name}")])
            .args(options)
            .arg("-out")
            .arg(&files.certificate)
            .arg("-keyout")
            .arg(&files.key);
        run(&mut command)?;
        files.protected()
    }

    /// Issues a certificate signed by this authority.
    ///
    /// # Errors
    ///
    /// As [`authority`](Self::authority).
    pub fn issue(&self, folder: &Path, name: &str, subject: Subject<'_>) -> Result<Self> {
        let files = Self::files(folder, name);
        let request = folder.join(format!("{name}.csr"));
        let mut command = Command::new("openssl");
        command
            .args(["req", "-new"])
            .args(NEW_KEY)
            .args(["-subj", &format!("/CN={}", subject.common_name)])
            .args(["-addext", "basicConstraints=critical,CA:FALSE"]);
        if !subject.names.is_empty() {
            command.args(["-addext", &format!("subjectAltName={}", subject.names)]);
        }
        command
            .arg("-out")
            .arg(&request)
            .arg("-keyout")
            .arg(&files.key);
        run(&mut command)?;
        let mut command = Command::new("openssl");
        command
            .args(["x509", "-req", "-copy_extensions", "copy"])
            .args(["-days", &subject.days.to_string()])
            .arg("-in")
            .arg(&request)
            .arg("-CA")
            .arg(&self.certificate)
            .arg("-CAkey")
            .arg(&self.key)
            .arg("-out")
            .arg(&files.certificate);
        run(&mut command)?;
        files.protected()
    }

    fn files(folder: &Path, name: &str) -> Self {
        Certificate {
            certificate: folder.join(format!("{name}.crt")),
            key: folder.join(format!("{name}.key")),
        }
    }

    fn protected(self) -> Result<Self> {
        fs::set_permissions(&self.key, fs::Permissions::from_mode(0o600))?;
        Ok(self)
    }
}

fn run(command: &mut Command) -> Result<()> {
    let output = command
        .output()
        .context("`openssl` does not run: install it with `apt-get install openssl`")?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}
