//! A bounded, crash-safe log of records on disk. Knows bytes, not SQL.
//!
//! A daemon appends entries, a reader ships them, an acknowledgement removes them. Appending takes a mutex
//! for a moment and never waits for a disk; a thread writes and syncs what was appended, so that an entry is
//! safe from a power loss [`Config::sync_interval`] plus the time of one sync later (under 1 s on a disk that
//! syncs in 0.5 s). An entry that is acknowledged before its turn is never written at all.
//!
//! # Identity
//! (spool id, sequence) names an entry for ever; the store drops what it has received before. Sequences of a folder only
//! rise, with gaps. The meta file promises that none below `reserved_until` will be given by a later run, and
//! no reader gets a sequence that is not promised on disk. A run that ended cleanly gives the rest of its
//! promise back; after a crash the next run starts beyond it, even where every entry after the last sync is
//! lost. Where the meta file is damaged, missing or cannot be written, or belongs to another
//! [`Config::owner`] (a copied disk image), the run takes a new spool id. Entries of earlier runs keep
//! theirs: each segment names its own.
//!
//! # Files
//! All numbers are little-endian, all checksums CRC-32C.
//!
//! | name | content |
//! | --- | --- |
//! | `lock` | empty; held with flock(2) by the one process that uses the folder |
//! | `meta` | two slots of 512 bytes at 0 and 4096, written in turn and synced; the good one with the higher generation holds: magic `TLSPMET1`, generation u64, spool id 16 bytes, reserved_until u64, acked u64, owner checksum u32, zeros, checksum u32 at 508. A run begins with a new file, made as `meta.new` |
//! | `tail` | which entries the newest segment had after its last sync, so that a loss there is counted; written without a sync of its own, ignored where it is damaged: magic `TLSPTAL1`, spool id 16 bytes, index u64, last sequence u64, entries u64, length u64, zeros, checksum u32 at 60 |
//! | `%016x.seg` | a segment: header, then entries; named by its index, which only rises |
//! | `%016x.bad` | a damaged segment, kept for a person to look at; at most [`QUARANTINE_FILES_MAX`] |
//!
//! Segment header, 64 bytes: magic `TLSPOOL1`, spool id 16 bytes, index u64, flags u8 (1: thinned), zeros,
//! checksum u32 of the first 60 bytes. Entry: length of the payload u32, checksum u32, sequence u64, time of
//! appending i64 (UTC nanoseconds), class u8 (0 precious, 1 cumulative), zero u8, stream u16, zero u32, then
//! the payload. The checksum covers all of it but itself and starts from a salt made of spool id and index,
//! so that a stale block of another segment is never taken for an entry.
//!
//! A segment may repeat sequences of an earlier one (after a failed sync, or a crash while thinning); a
//! reader passes over what it has already met.
//!
//! # Failures
//! - **Damage**: the entries around a damaged spot are found by their checksums and delivered. At the start they are
//!   copied to a new segment and the damaged file is renamed; found while reading, the spot is passed over and the file
//!   renamed once the rest is acknowledged. Lost entries are counted by the sequences around the spot; at a segment's
//!   end by the next segment's first, and for the newest segment by the file `tail`. Nothing is read twice in the hope
//!   that it gets better, except that a read error is tried three times.
//! - **Full**: beyond [`Config::disk_bytes_max`] the oldest segment that is not thinned yet is rewritten
//!   without every second cumulative entry of each stream; when all are thinned, the oldest is dropped.
//! - **Disk full, failing or slow**: entries stay in memory up to [`Config::memory_bytes_max`], where the
//!   same rule holds: thin, then drop the oldest. After a failed write or sync the segment is closed and the
//!   entries go into a new one.
//! - **No disk** ([`Spool::in_memory`]): the same with the memory bound alone.
//!
//! Everything thinned, dropped, refused or damaged is counted in [`Stats`].

mod flush;
mod format;
mod free_space;
mod handle;
mod inspect;
mod losses;
mod names;
mod read;
mod recover;
mod salvage;
#[cfg(feature = "simulated-disk")]
pub mod simulated;
mod state;
mod storage;

use std::path::PathBuf;
use std::time::Duration;

pub use flush::FlushError;
pub use format::{Class, Entry};
pub use handle::Spool;
pub use inspect::inspect;
pub use read::{ReadError, Reader};
pub use storage::{FileStorage, Storage, StorageFile, read_file_at};

/// Largest payload of an entry. Below the 4 MiB that gRPC implementations take for a message by default.
pub const ENTRY_BYTES_MAX: usize = 2 << 20;
/// What an entry may have above [`ENTRY_BYTES_MAX`] in a spool whose entries are those of another one in an envelope.
pub const ENVELOPE_BYTES_MAX: usize = 1024;
/// Largest entry with its header.
const ENTRY_TOTAL_MAX: usize = ENTRY_BYTES_MAX + ENVELOPE_BYTES_MAX + format::ENTRY_HEADER_BYTES;
/// Damaged files kept; enough to see what a disk does, too few to fill it.
pub const QUARANTINE_FILES_MAX: usize = 4;
/// Segments in a folder; above, it counts as full. Each costs about 100 bytes of memory and a directory entry.
const SEGMENTS_MAX: usize = 4096;
/// Sequences promised ahead. At 100 entries a second this is 500 days, so that the promise is renewed at
/// starts only; 2 million crashes stay below 2^53, where JSON readers begin to round.
const RESERVE_SEQUENCES: u64 = 1 << 32;
/// Segments of an earlier run may be larger than this run would make them; larger than this is no segment.
const FOREIGN_SEGMENT_BYTES_MAX: u64 = 64 << 20;
/// Upper limit of [`Config::sync_interval`]: leaves half of the promised second to the sync itself.
pub const SYNC_INTERVAL_MAX: Duration = Duration::from_millis(500);

/// Bounds and identity of a spool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Entries in memory that are neither written nor acknowledged, payload and overhead.
    pub memory_bytes_max: usize,
    /// All segments together, with the place that rewriting one needs.
    pub disk_bytes_max: u64,
    /// A segment is closed when it has reached this; also bounds a payload.
    pub segment_bytes_max: u64,
    /// Time between an append and the write and sync that carries it, at most [`SYNC_INTERVAL_MAX`].
    pub sync_interval: Duration,
    /// Whose spool this is (the node's name): a folder that was copied to another owner gets a new id.
    pub owner: String,
    /// Whether entries are those of another spool in an envelope: they may have [`ENVELOPE_BYTES_MAX`] more.
    pub has_envelopes: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            memory_bytes_max: 16 << 20,
            disk_bytes_max: 256 << 20,
            segment_bytes_max: 4 << 20,
            sync_interval: Duration::from_millis(200),
            owner: String::new(),
            has_envelopes: false,
        }
    }
}

impl Config {
    fn check(&self) -> Result<(), Error> {
        let wrong = |key, why| Err(Error::Config { key, why });
        if self.segment_bytes_max < 256 || self.segment_bytes_max > FOREIGN_SEGMENT_BYTES_MAX / 4 {
            return wrong("segment_bytes_max", "must be from 256 to 16777216");
        }
        if self.memory_bytes_max < 2 * self.entry_bytes_max() {
            return wrong(
                "memory_bytes_max",
                "must hold two of the largest entries (2 MiB or one segment each)",
            );
        }
        if self.disk_bytes_max < 4 * self.segment_bytes_max {
            return wrong("disk_bytes_max", "must hold four segments");
        }
        if self.sync_interval > SYNC_INTERVAL_MAX {
            return wrong("sync_interval", "must be at most 500 ms");
        }
        Ok(())
    }

    /// Largest payload that can be appended.
    pub fn entry_bytes_max(&self) -> usize {
        let envelope = if self.has_envelopes { ENVELOPE_BYTES_MAX } else { 0 };
        usize::try_from(self.segment_bytes_max).unwrap_or(ENTRY_BYTES_MAX).min(ENTRY_BYTES_MAX + envelope)
    }
}

/// Why a spool could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another process has the folder.
    #[error("the spool {dir} is in use by another process: stop it, or give this one another state folder", dir = dir.display())]
    Locked {
        /// The folder.
        dir: PathBuf,
    },
    /// The folder cannot be used.
    #[error("cannot {operation} the spool folder {dir}: {source}", dir = dir.display())]
    Folder {
        /// What was tried.
        operation: &'static str,
        /// The folder.
        dir: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The folder cannot be read.
    #[error("cannot list the spool folder: {source}")]
    List {
        /// The cause.
        source: std::io::Error,
    },
    /// A bound is out of range.
    #[error("spool setting {key} {why}")]
    Config {
        /// The field of [`Config`].
        key: &'static str,
        /// What it must be.
        why: &'static str,
    },
}

/// An entry that is no entry: empty, or too large.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an entry of {bytes} bytes is refused: 1 to {bytes_max} are possible")]
pub struct AppendError {
    /// Its payload.
    pub bytes: usize,
    /// The limit.
    pub bytes_max: usize,
}

/// Counts of a spool since it was opened, and its present fill.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stats {
    /// Entries taken.
    pub appended_entries: u64,
    /// Their payload.
    pub appended_bytes: u64,
    /// Entries refused as empty or too large.
    pub refused_entries: u64,
    /// Entries removed because they were acknowledged.
    pub acked_entries: u64,
    /// Acknowledgements of sequences that no reader ever got; they were cut to the highest that one got.
    pub wrong_acks: u64,
    /// Entries written and synced.
    pub written_entries: u64,
    /// Their payload.
    pub written_bytes: u64,
    /// Flushes that took longer than [`SYNC_INTERVAL_MAX`]: the disk is slower than the promised second.
    pub slow_flushes: u64,
    /// Cumulative entries left out of a full memory queue.
    pub thinned_memory_entries: u64,
    /// Cumulative entries left out of a full folder.
    pub thinned_disk_entries: u64,
    /// Entries dropped from a full memory queue.
    pub dropped_memory_entries: u64,
    /// Entries dropped with the oldest segment of a full folder.
    pub dropped_disk_entries: u64,
    /// Segments found damaged: set aside, what is good of them is still delivered.
    pub damaged_segments: u64,
    /// Entries lost with them, by the sequences around the damaged spots. What was appended after the last sync before
    /// an unclean end is not known and not counted.
    pub damaged_entries: u64,
    /// Damaged spots that held an unknown number of entries, each counted as one: the end of the newest segment, where the file
    /// `tail` does not say how many it had.
    pub uncounted_spots: u64,
    /// Bytes of the damaged spots.
    pub damaged_bytes: u64,
    /// Writes that failed because the disk or a quota was full.
    pub no_space_errors: u64,
    /// Writes, syncs, renames and removals that failed otherwise.
    pub write_errors: u64,
    /// Reads that failed.
    pub read_errors: u64,
    /// The meta file was damaged or could not be read or written.
    pub meta_errors: u64,
    /// Entries not acknowledged yet, as far as known (exact unless segments were thinned).
    pub backlog_entries: u64,
    /// Bytes in memory.
    pub memory_bytes: u64,
    /// Bytes of all segments.
    pub disk_bytes: u64,
    /// Segments.
    pub segments: u64,
    /// The last sequence given.
    pub last_sequence: u64,
    /// The last sequence acknowledged.
    pub acked_sequence: u64,
    /// When the oldest entry not acknowledged was appended (of its segment the first), UTC nanoseconds.
    pub oldest_ns: Option<i64>,
}
