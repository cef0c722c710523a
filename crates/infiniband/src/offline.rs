//! A fabric read from files: what `ibnetdiscover`, `dump_fts` and their family printed when somebody saved it.
//!
//! Which file is which is found by content, never by name; `.gz` is unpacked. All files of the folder are read
//! into [`facts`] and become one [`Topology`], as a live discovery would have given, without what the formats do
//! not hold. A file that was cut short is an error. Nothing here queries a fabric.

mod cache;
mod counters;
mod database;
mod dumped;
mod error;
mod facts;
mod ibnetdiscover;
mod kind;
mod lines;
mod linkinfo;
mod links;
mod listing;
mod membership;
mod perfquery;
mod queryerrors;
mod report;
pub mod save;
mod tables;

pub use counters::{SavedSweeps, Snapshot};
pub use error::OfflineError;
pub use kind::Kind;
pub use lines::{MAX_FILE_BYTES, MAX_LINE_BYTES};

use crate::mad::NodeKind;
use crate::multicast::Groups;
use crate::topology::Topology;
pub use facts::MulticastFacts;

use facts::Facts;
use flate2::bufread::MultiGzDecoder;
use lines::Lines;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// Most files of one folder: a support case has dozens, a day of counters each minute 1,440.
pub const MAX_FILES: usize = 10_000;
/// At most so many unknown speeds are named by a warning each.
const NAMED_SPEEDS: usize = 8;
/// Bytes from which a format is recognised.
const SNIFFED_BYTES: usize = 64 * 1024;

/// What the files of a folder hold.
#[derive(Debug, Default)]
pub struct Saved {
    /// Nodes, ports and cables, with forwarding tables where they were saved.
    pub topology: Topology,
    /// Switches without a forwarding table in the files.
    pub switches_without_table: usize,
    /// Multicast tables by switch: multicast LIDs with a bit for each output port. Empty where none were saved.
    pub multicast: MulticastFacts,
    /// Multicast groups and, where they were saved, their members.
    pub groups: Option<Groups>,
    /// Counters, oldest first.
    pub snapshots: Vec<Snapshot>,
    /// Files read, with the kind of each.
    pub files: Vec<(String, Kind)>,
    /// What was odd: files of no known format, files that disagree.
    pub warnings: Vec<String>,
}

impl Saved {
    /// Takes over what was gathered.
    fn take(&mut self, mut facts: Facts) -> Result<(), String> {
        facts.settle()?;
        self.snapshots = counters::gather(std::mem::take(&mut facts.snapshots));
        if facts.stand_ins > 0 {
            let count = facts.stand_ins;
            self.warnings.push(format!(
                "no file has the node GUIDs of {count} adapters, so the GUIDs of their ports stand for them; save \
                 them with plain `ibnetdiscover`"
            ));
        }
        if facts.disagreements > 0 {
            let ends = facts.disagreements;
            self.warnings.push(format!("files disagree on {ends} ends of cables: are they all of one time?"));
        }
        // The first few: a damaged file may name any.
        for (speed, ends) in facts.unknown_speeds().into_iter().take(NAMED_SPEEDS) {
            self.warnings.push(format!(
                "{ends} ends of cables run at '{speed}', a speed that is not known here: read without a speed"
            ));
        }
        let (groups, strangers) = std::mem::take(&mut facts.membership).groups();
        self.groups = groups;
        if strangers > 0 {
            self.warnings.push(format!(
                "{strangers} members are of groups that no file has, and are left out; save the groups with \
                 `saquery -g`"
            ));
        }
        self.multicast = std::mem::take(&mut facts.multicast);
        let (switches, with_table) = facts.tables();
        let (topology, left_out) = facts.assemble();
        if topology.cables().next().is_none() {
            self.warnings.push("the topology has no cable: is the file whole?".to_owned());
        }
        if left_out > 0 {
            self.warnings.push(format!("{left_out} switches have tables and are in no topology: left out"));
        }
        self.switches_without_table = switches - with_table;
        self.topology = topology;
        Ok(())
    }

    /// Switches of the topology.
    #[must_use]
    pub fn switches(&self) -> usize {
        self.topology.nodes.iter().filter(|node| node.kind == NodeKind::Switch).count()
    }

    /// Whether a file of this kind was there.
    #[must_use]
    pub fn has(&self, kind: Kind) -> bool {
        self.files.iter().any(|(_, other)| *other == kind)
    }
}

/// Reads all files of a folder (or a single file); folders in it are left alone.
///
/// # Errors
/// [`OfflineError`]: nothing there to read, no topology, a file that is cut short or not what it seems.
pub fn read(folder: &Path) -> Result<Saved, OfflineError> {
    let mut saved = Saved::default();
    let mut known = Vec::new();
    let mut unknown = Vec::new();
    for path in list(folder)? {
        let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let mut reader = open(&path)?;
        match kind::of(peek(&path, reader.as_mut())?) {
            Some(kind) => known.push((kind, path, name)),
            None => unknown.push(name),
        }
    }
    if !known.iter().any(|(kind, ..)| kind.is_topology()) {
        return Err(OfflineError::NoTopology { folder: folder.to_owned(), unknown });
    }
    // In the order of `Kind`: those that say most are believed first.
    known.sort();
    let mut facts = Facts::default();
    let shown = folder.to_string_lossy();
    for (kind, path, name) in known {
        let mut reader = open(&path)?;
        facts.time = changed(&path);
        read_one(kind, &path.to_string_lossy(), reader.as_mut(), &mut facts)?;
        saved.files.push((name, kind));
    }
    saved
        .warnings
        .extend(unknown.iter().map(|name| format!("{name} is of no known format and was left out")));
    saved.take(facts).map_err(|reason| OfflineError::File { file: shown.into_owned(), reason })?;
    Ok(saved)
}

/// Reads one file of a known format from memory.
///
/// # Errors
/// [`OfflineError`], as [`read`].
pub fn read_bytes(kind: Kind, bytes: &[u8]) -> Result<Saved, OfflineError> {
    let mut facts = Facts::default();
    let mut reader = unpacked(bytes).map_err(|cause| OfflineError::Io { path: "bytes".into(), cause })?;
    read_one(kind, "bytes", reader.as_mut(), &mut facts)?;
    let mut saved = Saved { files: vec![("bytes".to_owned(), kind)], ..Saved::default() };
    saved.take(facts).map_err(|reason| OfflineError::File { file: "bytes".to_owned(), reason })?;
    Ok(saved)
}

/// The format of a file with this content, unpacked first where it is gzip.
#[must_use]
pub fn kind_of(bytes: &[u8]) -> Option<Kind> {
    let mut reader = unpacked(bytes).ok()?;
    kind::of(reader.fill_buf().ok()?)
}

/// Reads one file's content. The way in for fuzzing, too.
fn read_one(kind: Kind, file: &str, reader: &mut dyn BufRead, facts: &mut Facts) -> Result<(), OfflineError> {
    if kind == Kind::Cache {
        let mut bytes = Vec::new();
        let read = reader.take(cache::MAX_BYTES as u64 + 1).read_to_end(&mut bytes);
        read.map_err(|cause| OfflineError::Io { path: file.into(), cause })?;
        let wrong = |reason| OfflineError::File { file: file.to_owned(), reason };
        if bytes.len() > cache::MAX_BYTES {
            return Err(wrong(format!("larger than {} bytes", cache::MAX_BYTES)));
        }
        return cache::read(&bytes, facts).map_err(wrong);
    }
    let mut lines = Lines::new(file, reader);
    match kind {
        // Binary: read above.
        Kind::Cache => Ok(()),
        Kind::Perfquery => facts.counters(file, |snapshot| perfquery::read(&mut lines, snapshot)),
        Kind::QueryErrors => facts.counters(file, |snapshot| queryerrors::read(&mut lines, snapshot)),
        Kind::Database => database::read(&mut lines, facts),
        Kind::Listing => listing::read(&mut lines, facts),
        Kind::Dumped => dumped::read(&mut lines, facts),
        Kind::Report => report::read(&mut lines, facts),
        Kind::LinkInfo => linkinfo::read(&mut lines, facts),
        Kind::Ibnetdiscover => ibnetdiscover::read(&mut lines, facts),
        Kind::Groups => membership::read(&mut lines, &mut facts.membership),
        Kind::Tables => tables::read(&mut lines, facts),
    }
}

/// The files of a folder, by name.
fn list(folder: &Path) -> Result<Vec<PathBuf>, OfflineError> {
    let io = |cause| OfflineError::Io { path: folder.to_owned(), cause };
    if std::fs::metadata(folder).map_err(io)?.is_file() {
        return Ok(vec![folder.to_owned()]);
    }
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(io)? {
        let path = entry.map_err(io)?.path();
        // Links to files count as files; what can't be looked at is found out on opening it.
        if path.is_dir() {
            continue;
        }
        if paths.len() == MAX_FILES {
            return Err(OfflineError::TooMany { folder: folder.to_owned(), limit: MAX_FILES });
        }
        paths.push(path);
    }
    paths.sort();
    Ok(paths)
}

/// When a file was last changed, UTC nanoseconds; 0 where the system does not say.
fn changed(path: &Path) -> i64 {
    let changed = std::fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
    let since = changed.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    since.and_then(|since| i64::try_from(since.as_nanos()).ok()).unwrap_or(0)
}

/// First two bytes of gzip (RFC 1952, 2.3.1).
const GZIP: [u8; 2] = [0x1F, 0x8B];

/// Opens a file, unpacking it where it is gzip.
fn open(path: &Path) -> Result<Box<dyn BufRead>, OfflineError> {
    let io = |cause| OfflineError::Io { path: path.to_owned(), cause };
    let file = File::open(path).map_err(io)?;
    if !file.metadata().map_err(io)?.is_file() {
        let reason = "neither a file nor a folder".to_owned();
        return Err(OfflineError::File { file: path.display().to_string(), reason });
    }
    unpacked(file).map_err(io)
}

/// What a reader holds, unpacked where it is gzip.
fn unpacked<'a>(source: impl Read + 'a) -> std::io::Result<Box<dyn BufRead + 'a>> {
    let mut reader = BufReader::with_capacity(SNIFFED_BYTES, source);
    if reader.fill_buf()?.starts_with(&GZIP) {
        return Ok(Box::new(BufReader::with_capacity(SNIFFED_BYTES, MultiGzDecoder::new(reader))));
    }
    Ok(Box::new(reader))
}

/// The beginning of a file.
fn peek<'a>(path: &Path, reader: &'a mut dyn BufRead) -> Result<&'a [u8], OfflineError> {
    reader.fill_buf().map_err(|cause| OfflineError::Io { path: path.to_owned(), cause })
}

#[cfg(test)]
mod tests;
