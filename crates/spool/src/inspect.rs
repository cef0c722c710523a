//! Reading the folder of a spool that a process may be using: for people, never to deliver from it.
//!
//! Takes no lock and changes nothing. What is written at the same moment may be missing.

use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Read, Result};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use bytes::Bytes;

use crate::format::{Entry, META_SLOT_STRIDE, Meta, SegmentHeader};
use crate::salvage::salvage;
use crate::{FOREIGN_SEGMENT_BYTES_MAX, SEGMENTS_MAX};

/// Passes each entry that was not acknowledged to `each`, in the order of the sequences, one segment in memory at a time.
/// A folder that isn't there holds none.
///
/// # Errors
/// The folder or a file can't be read.
pub fn inspect(folder: &Path, mut each: impl FnMut(Entry)) -> Result<()> {
    let named = |error: Error| Error::new(error.kind(), format!("{}: {error}", folder.display()));
    let mut segments = Vec::new();
    let listed = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        listed => listed.map_err(named)?,
    };
    for file in listed.take(2 * SEGMENTS_MAX) {
        let path = file.map_err(named)?.path();
        if path.extension().is_some_and(|extension| extension == "seg") {
            segments.push(path);
        }
    }
    // A thinned segment has a higher number than those behind it: their entries say the order.
    let mut ordered = Vec::new();
    for path in segments {
        if let Some((bytes, header)) = segment(&path)?
            && let Some(first) = salvage(&bytes, header.salt()).0.first()
        {
            ordered.push((first.sequence, path));
        }
    }
    ordered.sort();
    let mut last = acked(&folder.join("meta"));
    for (_, path) in ordered {
        let Some((bytes, header)) = segment(&path)? else { continue };
        for place in salvage(&bytes, header.salt()).0 {
            if place.sequence > last {
                last = place.sequence;
                each(Entry {
                    spool_id: header.spool_id,
                    sequence: place.sequence,
                    class: place.class,
                    appended_ns: place.appended_ns,
                    payload: bytes.slice(place.payload),
                });
            }
        }
    }
    Ok(())
}

/// A segment's bytes and header; `None` where it was removed meanwhile or is none.
fn segment(path: &Path) -> Result<Option<(Bytes, SegmentHeader)>> {
    let bytes = match read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        read => Bytes::from(read?),
    };
    Ok(SegmentHeader::decode(&bytes).map(|header| (bytes, header)))
}

/// The last acknowledged sequence that is noted; 0 where none is.
fn acked(path: &Path) -> u64 {
    let bytes = read(path).unwrap_or_default();
    let second = usize::try_from(META_SLOT_STRIDE).unwrap_or(usize::MAX);
    let slots = [0, second].into_iter().filter_map(|at| Meta::decode(bytes.get(at..)?));
    slots.max_by_key(|meta| meta.generation).map_or(0, |meta| meta.acked)
}

fn read(path: &Path) -> Result<Vec<u8>> {
    let named = |error: Error| Error::new(error.kind(), format!("{}: {error}", path.display()));
    // A link is not followed, and a pipe is not waited for: the spool made neither.
    let flags = (nix::fcntl::OFlag::O_NOFOLLOW | nix::fcntl::OFlag::O_NONBLOCK).bits();
    let file: File = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(named)?;
    let mut bytes = Vec::new();
    file.take(FOREIGN_SEGMENT_BYTES_MAX).read_to_end(&mut bytes).map_err(named)?;
    Ok(bytes)
}
