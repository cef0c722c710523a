//! What a node knows of Slurm's jobs without asking Slurm, and without a word of the user: the number of a run from slurmstepd's
//! title, and the cluster's name from slurm.conf.
//!
//! Facts of Slurm 22.05, 25.11 and 26.05, observed on clusters of these releases: control groups are named by the job's number
//! (`job_123`), since 26.05 by its SLUID (`s1N9M8EM2AVH00`), which names one run of one job: a requeue gets another one under the
//! same number. Each step's slurmstepd is a process of root in the group `slurm` beside the tasks' `user`, and its command line is
//! `slurmstepd: [123.0]`, with the number of the array task or of the component of a heterogeneous job.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use throughline_sample::job_key::cluster_name;

use crate::cgroup;
use crate::process::{self, Roots};

/// Most steps of a run that are looked at for a slurmstepd: one is enough, and a job may have thousands.
const STEPS_MAX: usize = 16;
/// Most processes looked at in a group that has slurmstepd alone.
const PROCESSES_MAX: usize = 16;
/// Most bytes read of a file of the kernel's and of slurm.conf. The latter names a large site's nodes, and its cluster before them.
const KERNEL_BYTES_MAX: u64 = 64 << 10;
const CONF_BYTES_MAX: u64 = 4 << 20;
/// Files that slurm.conf may include, looked at for the cluster's name.
const INCLUDES_MAX: usize = 16;

/// Where slurm.conf lies: as packages have it, and where slurmd puts it that got it from the controller.
pub const CONF_PLACES: [&str; 4] = [
    "/etc/slurm/slurm.conf",
    "/run/slurm/conf/slurm.conf",
    "/var/spool/slurmd/conf-cache/slurm.conf",
    "/etc/slurm-llnl/slurm.conf",
];

/// The number of a job in the title of its slurmstepd: `slurmstepd: [45.0]`, `slurmstepd-wlm: [45.extern]`.
fn number_in_title(command: &str) -> Option<u64> {
    let (program, rest) = command.split_once(": [")?;
    let program = program.rsplit('/').next()?;
    let (number, _) = rest.split_once('.')?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    program.starts_with("slurmstepd").then(|| number.parse().ok()).flatten().filter(|_| is_number)
}

/// The number of a run that a control group names by its SLUID, from a slurmstepd in it; `None` where none can be read.
///
/// `cgroup_file` is the text of `/proc/PID/cgroup` of one of its tasks. The group `slurm` of a step is root's, as is the process: what
/// a user's processes call themselves changes nothing.
#[must_use]
pub fn number_of_run(roots: &Roots, cgroup_file: &str, sluid: &str) -> Option<u64> {
    let group = cgroup::paths(cgroup_file).find_map(|path| cgroup::group_of_run(path, sluid))?;
    // Beside version 1 the second version is mounted in a folder.
    let bases = [roots.cgroup.join(group), roots.cgroup.join("unified").join(group)];
    let steps = bases.iter().filter_map(|base| std::fs::read_dir(base).ok()).flatten().flatten();
    let steps = steps.map(|step| step.path()).filter(|step| is_step(step)).take(STEPS_MAX);
    steps.filter_map(|step| text(&step.join("slurm/cgroup.procs"))).find_map(|list| {
        let mut pids = list.lines().filter_map(|line| line.parse::<u32>().ok()).take(PROCESSES_MAX);
        pids.find_map(|pid| number_of_stepd(roots, pid, sluid))
    })
}

fn is_step(folder: &Path) -> bool {
    folder.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("step_"))
}

/// The number in a process's title, if it is root's and in the group of that run: its id may have been given to another process.
fn number_of_stepd(roots: &Roots, pid: u32, sluid: &str) -> Option<u64> {
    let found = process::read(&roots.proc, pid).ok()?;
    let is_in_run = cgroup::paths(&found.cgroup).any(|path| cgroup::group_of_run(path, sluid).is_some());
    let command = text(&roots.proc.join(pid.to_string()).join("cmdline"))?;
    // The real user: a slurmstepd has another effective one for moments, and a program that is setuid root has the user's.
    number_in_title(&command).filter(|_| found.uid == 0 && is_in_run)
}

fn text(file: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    File::open(file).ok()?.take(KERNEL_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The name of this node's cluster, from the first slurm.conf that is there and has one; `None` where none can be read.
#[must_use]
pub fn cluster_of_node<'a>(places: impl IntoIterator<Item = &'a Path>) -> Option<String> {
    places.into_iter().find_map(|file| {
        let mut includes = Vec::new();
        let own = cluster_in(file, &mut includes);
        own.or_else(|| includes.iter().take(INCLUDES_MAX).find_map(|file| cluster_in(file, &mut Vec::new())))
    })
}

/// `ClusterName=demo` in any case, alone in its line or beside others; what is included may have it.
fn cluster_in(file: &Path, includes: &mut Vec<PathBuf>) -> Option<String> {
    let lines = BufReader::new(File::open(file).ok()?.take(CONF_BYTES_MAX)).split(b'\n');
    for line in lines.map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line);
        // Blanks around an equals sign mean nothing.
        let parts: Vec<&str> = line.split('#').next().unwrap_or_default().split('=').map(str::trim).collect();
        let line = parts.join("=");
        let mut words = line.split_whitespace();
        if let Some(value) = line.split_whitespace().find_map(|word| value_of(word, "clustername")) {
            return cluster_name(value.trim_matches('"'));
        }
        if words.next().is_some_and(|word| word.eq_ignore_ascii_case("include"))
            && let Some(name) = words.next()
        {
            includes.push(file.parent().unwrap_or(Path::new("/")).join(name));
        }
    }
    None
}

fn value_of<'a>(word: &'a str, key: &str) -> Option<&'a str> {
    let (name, value) = word.split_once('=')?;
    name.eq_ignore_ascii_case(key).then_some(value)
}

#[cfg(test)]
mod tests;
