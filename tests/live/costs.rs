//! What a process costs, by what the kernel says of it.

use std::fs;

use crate::process::{Process, run};

/// The most memory it has held since [`forget_peak`], in bytes.
pub fn peak(process: &Process) -> u64 {
    let status = fs::read_to_string(file(process, "status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() * 1024
}

/// From now on the peak is that of what comes.
pub fn forget_peak(process: &Process) {
    fs::write(file(process, "clear_refs"), "5").unwrap();
}

pub fn open_connections(process: &Process) -> usize {
    let open = fs::read_dir(file(process, "fd")).unwrap();
    // One may be closed while they are looked at.
    let targets = open.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    targets.filter(|target| target.to_string_lossy().starts_with("socket:")).count()
}

fn file(process: &Process, name: &str) -> String {
    format!("/proc/{}/{name}", process.id())
}

/// For tests with many connections, and the processes they start: where a shell's soft limit is low the hard one is not.
pub fn allow_open_files(count: usize) {
    let limit = fs::read_to_string("/proc/self/limits").unwrap();
    let line = limit.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    let soft: usize = line.split_whitespace().next().unwrap().parse().unwrap_or(usize::MAX);
    if soft < count {
        run("prlimit", &["--pid", &std::process::id().to_string(), &format!("--nofile={count}:")]);
    }
}
