//! State of processes that are not our own children, from `/proc`.

use std::fs;

use rustix::process::Pid;

/// Returns whether the process is running. A zombie is not: it runs nothing and holds nothing, and in a container it may never
/// be reaped.
pub(crate) fn is_running(pid: Pid) -> bool {
    stat(pid.as_raw_nonzero().get()).is_some_and(|stat| !matches!(stat.state, 'Z' | 'X'))
}

/// Returns whether SIGSTOP has taken effect.
pub(crate) fn is_stopped(pid: Pid) -> bool {
    stat(pid.as_raw_nonzero().get()).is_some_and(|stat| stat.state == 'T')
}

/// Returns the direct children of a process.
pub(crate) fn children(parent: Pid) -> Vec<Pid> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| stat(*pid).is_some_and(|stat| stat.parent == parent.as_raw_nonzero().get()))
        .filter_map(Pid::from_raw)
        .collect()
}

struct Stat {
    state: char,
    parent: i32,
}

fn stat(pid: i32) -> Option<Stat> {
    let line = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in parentheses, which may itself contain spaces and parentheses.
    let (_, rest) = line.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    Some(Stat {
        state: fields.next()?.chars().next()?,
        parent: fields.next()?.parse().ok()?,
    })
}
