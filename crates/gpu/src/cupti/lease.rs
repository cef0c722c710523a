//! Leases: files by which a job takes the GPUs' performance monitors for its own profiler.
//!
//! A Slurm prolog makes a file in the folder, named after the job, and the epilog removes it. While there is one, nothing
//! is sampled. Several jobs on a node have a file each.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// Most files looked at; a node has a few jobs.
const FILES_MAX: usize = 1024;

/// The folder of leases.
#[derive(Clone, Debug)]
pub struct Leases {
    /// The folder; that it is not there is as good as empty.
    pub folder: PathBuf,
    /// A lease older than this was abandoned, and no longer holds.
    pub longest: Duration,
}

/// One that holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Its file's name.
    pub name: String,
    /// Until it counts as abandoned.
    pub left: Duration,
}

impl Leases {
    /// A lease that holds, if there is one.
    #[must_use]
    pub fn taken(&self) -> Option<Lease> {
        let files = std::fs::read_dir(&self.folder).ok()?;
        let now = SystemTime::now();
        files.take(FILES_MAX).filter_map(Result::ok).find_map(|file| {
            let name = file.file_name().to_string_lossy().into_owned();
            let modified = file.metadata().ok().filter(|data| data.is_file())?.modified().ok()?;
            // One from the future, by a clock that was set since, holds.
            let age = now.duration_since(modified).unwrap_or_default();
            let left = self.longest.checked_sub(age).filter(|left| !left.is_zero())?;
            (!name.starts_with('.')).then_some(Lease { name, left })
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_a_lease_until_it_goes_or_is_abandoned() {
        let folder = tempfile::tempdir().unwrap();
        let leases = Leases { folder: folder.path().to_owned(), longest: Duration::from_secs(3600) };
        assert_eq!(leases.taken(), None);
        std::fs::write(folder.path().join(".hidden"), "").unwrap();
        std::fs::create_dir(folder.path().join("folder")).unwrap();
        assert_eq!(leases.taken(), None);
        let file = folder.path().join("4711");
        std::fs::write(&file, "").unwrap();
        let lease = leases.taken().unwrap();
        assert_eq!(lease.name, "4711");
        assert!(lease.left <= leases.longest && lease.left > leases.longest / 2);
        assert_eq!(Leases { longest: Duration::ZERO, ..leases.clone() }.taken(), None);
        std::fs::remove_file(file).unwrap();
        assert_eq!(leases.taken(), None);
        let nowhere = Leases { folder: "/nowhere/leases".into(), longest: Duration::MAX };
        assert_eq!(nowhere.taken(), None);
    }
}
