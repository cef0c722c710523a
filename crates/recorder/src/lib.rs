//! The last hour of a daemon's records in full resolution: a packed ring of segments on disk.
//!
//! The database receives what questions about a whole site need; what is finer stays here and is read when somebody asks
//! ([`Recorder::records`], [`read_folder`]). Appending encodes into memory and waits for nothing: a full buffer drops what comes
//! and counts it. A thread packs and writes each [`FLUSH_INTERVAL`], so that a process that is killed loses at most that.
//!
//! # Files
//! All numbers are little-endian, all checksums CRC-32C.
//!
//! | name | content |
//! | --- | --- |
//! | `lock` | empty; held with flock(2) by the one process that writes |
//! | `%016x.rec` | a segment: header, then blocks; named by its index, which only rises |
//!
//! Segment header, 32 bytes: magic `TLREC001`, index u64, time of its making i64 (UTC nanoseconds), zeros, checksum u32 at 28.
//! Block header, 48 bytes: length of the payload u32, length unpacked u32, records u32, checksum of the payload u32, least and
//! largest time of its records and time of writing i64 each (UTC nanoseconds), zero u32, checksum of the header u32. Both
//! checksums start from the segment's index, so that a stale block of another segment is never taken for one of this.
//!
//! The payloads of a segment are one zstd stream, flushed at the end of each block: a block refers to those before it, which
//! makes successive readings of the same things small, and is read with them. Unpacked, a block is a `throughline.v1.Batch`
//! without a sender.
//!
//! # Failures
//! - **Killed**: the segment ends with a whole block or a torn one; a torn one is passed over and counted. The next run begins
//!   a segment of its own.
//! - **Power loss**: what the kernel had not written, usually half a minute. A segment is synced when it is closed.
//! - **Damage**: the rest of that segment is lost, at most [`SEGMENTS_PER_SPAN`]th of the span, and counted.
//! - **Disk full or failing**: the oldest segment is given up for the new block. Where that does not help the block is dropped
//!   and counted, and a new segment is begun with the next one.

mod filter;
mod format;
mod handle;
mod memory;
mod read;
mod ring;

use std::time::Duration;

pub use filter::{Filter, Kind, records};
pub use handle::Recorder;
pub use memory::MemoryStorage;
pub use read::{ReadError, Records, read_folder};

/// From one write to the next: what a process that is killed loses at most.
pub const FLUSH_INTERVAL: Duration = Duration::from_millis(500);
/// Encoded records that wait for the next write; more are dropped. A node of 512 busy ranks sends some 3 MB a second.
pub const QUEUE_BYTES_MAX: usize = 8 << 20;
/// Segments that a full ring consists of: as finely is the oldest forgotten, and so much a damaged spot can cost.
pub const SEGMENTS_PER_SPAN: u32 = 60;

/// Bounds of a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Records written longer ago are removed.
    pub age_max: Duration,
    /// All segments together; beyond, the oldest are removed.
    pub bytes_max: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self { age_max: Duration::from_secs(3600), bytes_max: 512 << 20 }
    }
}

/// Least [`Config::bytes_max`]: a second of a busy node in each segment.
pub const BYTES_MAX_LEAST: u64 = 4 << 20;
/// Least [`Config::age_max`].
pub const AGE_MAX_LEAST: Duration = Duration::from_secs(60);

impl Config {
    fn check(&self) -> Result<(), Error> {
        if self.bytes_max < BYTES_MAX_LEAST {
            return Err(Error::Config { key: "bytes_max", why: "must be at least 4194304" });
        }
        if self.age_max < AGE_MAX_LEAST {
            return Err(Error::Config { key: "retention_seconds", why: "must be at least 60" });
        }
        Ok(())
    }
}

/// Why a recorder could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The folder can't be used.
    #[error(transparent)]
    Folder(#[from] throughline_spool::Error),
    /// It can't be read.
    #[error("cannot read the recorder's folder: {0}")]
    Read(std::io::Error),
    /// The thread that writes can't be started.
    #[error("cannot start the recorder's thread: {0}")]
    Thread(std::io::Error),
    /// A bound is out of range.
    #[error("recorder setting {key} {why}")]
    Config {
        /// The key.
        key: &'static str,
        /// What it must be.
        why: &'static str,
    },
}

/// Counts of a recorder since it was opened, and its present fill.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stats {
    /// Records taken.
    pub records: u64,
    /// Their encoded size.
    pub record_bytes: u64,
    /// Records dropped: the buffer was full, or the disk took nothing.
    pub dropped_records: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Writes that failed because the disk or a quota was full.
    pub no_space_errors: u64,
    /// Writes, syncs and removals that failed otherwise.
    pub write_errors: u64,
    /// Torn or damaged spots found when the folder was opened; each costs the rest of its segment.
    pub damaged_blocks: u64,
    /// Bytes of these.
    pub damaged_bytes: u64,
    /// Bytes of all segments.
    pub disk_bytes: u64,
    /// Segments.
    pub segments: u64,
    /// When the oldest block that is there was written, UTC nanoseconds.
    pub oldest_ns: Option<i64>,
    /// When the newest one was written.
    pub newest_ns: Option<i64>,
}
