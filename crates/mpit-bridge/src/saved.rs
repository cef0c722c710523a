//! What the receiver knows of ranks, in a small file that the next agent reads: one message of protocol buffers.
//!
//! Written beside and moved into place, so that it is whole or the one before. Not synced: after a crash of the
//! machine no rank of it runs, and what the file did not report the server concludes when no report follows.

use std::path::Path;
use throughline_sample::Message;
use throughline_sample::wire::{Job, JobRank};

/// Largest file that is read: 4,096 ranks of 1 KiB each, four times over.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// The file.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Saved {
    /// Boot in which the ranks ran.
    #[prost(string, tag = "1")]
    pub boot_id: String,
    /// UTC nanoseconds at which they were known to run.
    #[prost(int64, tag = "2")]
    pub time: i64,
    /// The ranks.
    #[prost(message, repeated, tag = "3")]
    pub ranks: Vec<SavedRank>,
}

/// One rank.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct SavedRank {
    /// Its job as first reported.
    #[prost(message, optional, tag = "1")]
    pub job: Option<Job>,
    /// The rank as last reported.
    #[prost(message, optional, tag = "2")]
    pub rank: Option<JobRank>,
    /// Start of its process, clock ticks since boot.
    #[prost(uint64, optional, tag = "3")]
    pub start_ticks: Option<u64>,
    /// When its MPI_Init ended, as it said.
    #[prost(int64, tag = "4")]
    pub epoch: i64,
}

impl Saved {
    /// Reads the file; nothing where there is none.
    pub fn read(path: &Path) -> std::io::Result<Self> {
        match std::fs::metadata(path) {
            Ok(data) if data.len() > FILE_BYTES_MAX => {
                return Err(std::io::Error::other(format!(
                    "has {} bytes, more than any of ours",
                    data.len()
                )));
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            _ => {}
        }
        Ok(Self::decode(std::fs::read(path)?.as_slice())?)
    }

    /// Replaces the file.
    pub fn write(&self, path: &Path) -> std::io::Result<()> {
        let mut beside = path.as_os_str().to_owned();
        beside.push(".new");
        std::fs::write(&beside, self.encode_to_vec())?;
        std::fs::rename(&beside, path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_and_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mpi-ranks");
        assert_eq!(Saved::read(&path).unwrap(), Saved::default());
        let rank = SavedRank {
            rank: Some(JobRank { pid: 7, ..JobRank::default() }),
            epoch: 5,
            ..SavedRank::default()
        };
        let saved = Saved { boot_id: "b".into(), time: 9, ranks: vec![rank] };
        saved.write(&path).unwrap();
        saved.write(&path).unwrap();
        assert_eq!(Saved::read(&path).unwrap(), saved);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        std::fs::write(&path, [255; 40]).unwrap();
        assert!(Saved::read(&path).is_err(), "damaged");
        assert!(saved.write(&folder.path().join("no/mpi-ranks")).is_err());
    }
}
