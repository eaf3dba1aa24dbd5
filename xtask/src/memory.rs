//! Keeps the data of the tests' servers in memory, if there is enough of it: creating a database writes some 10 MB in many
//! files, and the tests create over a thousand.

use std::fs;
use std::path::Path;

/// File system in memory of every Linux.
const FOLDER: &str = "/dev/shm";
/// Bytes that the folder must have free. The tests of one program need up to 5 GB, and two programs run at the same time.
const FREE_BYTES: u64 = 12 << 30;
/// KiB of memory that must be available, so that the programs have some left.
const AVAILABLE_KIB: u64 = 16 << 20;

/// Returns the folder in memory, if the machine has one that is large enough.
pub fn folder() -> Option<&'static Path> {
    let memory = fs::read_to_string("/proc/meminfo").ok()?;
    let free = rustix::fs::statvfs(FOLDER).ok()?;
    let is_enough = free.f_bavail.saturating_mul(free.f_frsize) >= FREE_BYTES
        && available_kib(&memory)? >= AVAILABLE_KIB;
    is_enough.then(|| Path::new(FOLDER))
}

/// Returns the KiB of available memory from the text of `/proc/meminfo`.
fn available_kib(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::available_kib;

    #[test]
    fn available_memory_is_read() {
        let text = "MemTotal:       24689884 kB\nMemAvailable:   20004012 kB\n";
        assert_eq!(available_kib(text), Some(20_004_012));
        assert_eq!(available_kib("MemTotal: 1 kB\n"), None);
    }
}
