//! How long a CPU quota kept ranks from running. The kernel counts it by control group and processor, not by thread: a rank's part is at
//! least what its group was throttled, divided among the ranks in it, and at most the time in which it waited for a processor.

use crate::member::RankKey;
use crate::scheduling::text;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// A control group with a quota: of the rank, or above it.
#[derive(Debug)]
struct QuotaGroup {
    /// Its file of counts.
    stat: PathBuf,
    /// Nanoseconds, when the rank was first looked at.
    first: u64,
}

/// What is known of the ranks' groups.
#[derive(Debug, Default)]
pub(crate) struct Throttling(HashMap<RankKey, Vec<QuotaGroup>>);

impl Throttling {
    /// The least that a rank was throttled since it was first looked at, nanoseconds; `None` where none of its groups has a quota.
    pub fn part(&mut self, proc: &Path, sys: &Path, key: &RankKey) -> Option<u64> {
        self.0.entry(key.clone()).or_insert_with(|| quota_groups(proc, sys, key.pid));
        let parts = self.0[key].iter().filter_map(|group| {
            let since = throttled(&group.stat)?.saturating_sub(group.first);
            let is_in = |of: &&Vec<QuotaGroup>| of.iter().any(|one| one.stat == group.stat);
            Some(since / (self.0.values().filter(is_in).count() as u64).max(1))
        });
        parts.max()
    }

    /// The rank has ended.
    pub fn end(&mut self, key: &RankKey) {
        self.0.remove(key);
    }
}

/// Those that have a quota now; one that is set later is not seen.
fn quota_groups(proc: &Path, sys: &Path, pid: u32) -> Vec<QuotaGroup> {
    let lines = text(proc.join(pid.to_string()).join("cgroup")).unwrap_or_default();
    let group = |folder: &Path| {
        let stat = folder.join("cpu.stat");
        has_quota(folder).then(|| throttled(&stat)).flatten().map(|first| QuotaGroup { stat, first })
    };
    let all = lines.lines().filter_map(|line| folder_of(sys, line)).flat_map(|(root, path)| {
        let above = Path::new(path.trim_start_matches('/')).ancestors().map(|part| root.join(part));
        above.collect::<Vec<_>>()
    });
    all.filter_map(|folder| group(&folder)).collect()
}

/// The hierarchy that counts processor time, and the path in it, of a line `number:controllers:path` of `/proc/PID/cgroup`.
fn folder_of<'a>(sys: &Path, line: &'a str) -> Option<(PathBuf, &'a str)> {
    let mut parts = line.splitn(3, ':');
    let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
    let root = sys.join("fs/cgroup");
    if controllers.is_empty() {
        return Some((root, path));
    }
    controllers.split(',').any(|one| one == "cpu").then(|| (root.join(controllers), path))
}

/// By `cpu.max` of version 2, or `cpu.cfs_quota_us` of version 1.
fn has_quota(folder: &Path) -> bool {
    let first = |name: &str| text(folder.join(name))?.split_whitespace().next()?.parse::<i64>().ok();
    first("cpu.max").or_else(|| first("cpu.cfs_quota_us")).is_some_and(|quota| quota > 0)
}

/// `throttled_usec` of version 2, or `throttled_time` of version 1, in nanoseconds: the sum over processors.
fn throttled(stat: &Path) -> Option<u64> {
    let counts = text(stat.to_path_buf())?;
    let count = |name: &str| {
        counts.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse::<u64>().ok())
    };
    count("throttled_usec").map(|count| count.saturating_mul(1000)).or_else(|| count("throttled_time"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(pid: u32) -> RankKey {
        RankKey { pid, start_ticks: None, epoch: 3 }
    }

    fn write(file: PathBuf, text: &str) {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }

    #[test]
    fn a_groups_time_is_divided_among_its_ranks() {
        let (proc, sys) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let group = sys.path().join("fs/cgroup/pods/one");
        write(group.join("cpu.max"), "50000 100000\n");
        write(group.join("task_0/cpu.max"), "max 100000\n");
        for pid in [7, 8] {
            write(proc.path().join(pid.to_string()).join("cgroup"), "0::/pods/one/task_0\n");
        }
        write(proc.path().join("9/cgroup"), "4:cpu,cpuacct:/batch\n2:memory:/\n");
        write(sys.path().join("fs/cgroup/cpu,cpuacct/batch/cpu.cfs_quota_us"), "20000\n");
        let count = |usec: u64| {
            write(group.join("cpu.stat"), &format!("usage_usec 9\nnr_throttled 5\nthrottled_usec {usec}\n"));
            let batch = sys.path().join("fs/cgroup/cpu,cpuacct/batch/cpu.stat");
            write(batch, &format!("nr_periods 4\nthrottled_time {}\n", usec * 7));
        };
        count(1_000);
        let mut all = Throttling::default();
        for pid in [7, 8, 9] {
            assert_eq!(all.part(proc.path(), sys.path(), &key(pid)), Some(0), "since it is known");
        }
        count(3_000);
        assert_eq!(all.part(proc.path(), sys.path(), &key(7)), Some(1_000_000));
        assert_eq!(all.part(proc.path(), sys.path(), &key(9)), Some(14_000));
        all.end(&key(8));
        assert_eq!(all.part(proc.path(), sys.path(), &key(7)), Some(2_000_000));
    }

    #[test]
    fn without_a_quota_nothing_is_throttled() {
        let (proc, sys) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        write(proc.path().join("7/cgroup"), "0::/one\nnonsense\n");
        write(sys.path().join("fs/cgroup/one/cpu.max"), "max 100000\n");
        write(sys.path().join("fs/cgroup/one/cpu.stat"), "throttled_usec 12\n");
        assert_eq!(Throttling::default().part(proc.path(), sys.path(), &key(7)), None);
        assert_eq!(Throttling::default().part(proc.path(), sys.path(), &key(8)), None);
    }
}
