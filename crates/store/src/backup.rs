//! Backups of a database while everything runs: a dump by PostgreSQL's own programs, and a manifest that says what is in it.
//!
//! One snapshot serves both. The session that exports it holds a lock for all its time, by which upkeep and the database's job drop, thin
//! and pack nothing meanwhile ([`crate::backup_lock`]): a chunk that goes after the snapshot would be missing in the dump, and one that is rewritten would
//! differ from the manifest. The lock ends with the session. The manifest is written last: a folder without one is no backup.
//!
//! [`restore`] fills an empty database from it, and [`verify`] compares one with the manifest, by table and hour ([`content`]).

mod content;
mod dump;
mod files;
mod manifest;
mod programs;
mod restoring;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

pub use content::{Difference, HourDifference, Verified, verify};
pub use dump::{BackupMade, back_up};
pub use files::{check_files, prepare_folder};
pub use manifest::Manifest;
pub use programs::ClientPrograms;
pub use restoring::{Restored, restore, restore_cluster};

/// How far a backup, a restore or a comparison is; read by programs that show it meanwhile.
#[derive(Debug, Default)]
pub struct BackupProgress {
    step: Mutex<&'static str>,
    tables: [AtomicU64; 2],
    sums: [AtomicU64; 2],
}

impl BackupProgress {
    /// The same in words.
    pub fn text(&self) -> String {
        let mut text = self.step.lock().map(|step| (*step).to_owned()).unwrap_or_default();
        for ([done, all], of) in [(&self.tables, "tables and chunks"), (&self.sums, "tables summed")] {
            let (done, all) = (done.load(Ordering::Relaxed), all.load(Ordering::Relaxed));
            if all > 0 {
                text += &format!(", {done} of {all} {of}");
            }
        }
        text
    }

    fn begin(&self, step: &'static str) {
        if let Ok(mut now) = self.step.lock() {
            *now = step;
        }
        for count in self.tables.iter().chain(&self.sums) {
            count.store(0, Ordering::Relaxed);
        }
    }

    fn expect_tables(&self, all: u64) {
        self.tables[1].store(all, Ordering::Relaxed);
    }

    fn expect_sums(&self, all: u64) {
        self.sums[1].store(all, Ordering::Relaxed);
    }

    fn table_done(&self) {
        self.tables[0].fetch_add(1, Ordering::Relaxed);
    }

    fn sum_done(&self) {
        self.sums[0].fetch_add(1, Ordering::Relaxed);
    }
}
