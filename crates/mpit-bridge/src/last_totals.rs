//! Files in which ranks that end leave their totals, for an agent that was away: the folder beside the socket.
//!
//! Everybody may make files in it, so nothing in it is believed but who owns a file. Nobody else can list it, read others'
//! files (they have the agent's group) or remove them (it is sticky). What a file says is read as what comes by the
//! socket is, on the account of its owner. A file of another owner, name, kind or size than a shim makes is removed.

use crate::frame::FRAME_BYTES;
use nix::fcntl::OFlag;
use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{Read, Take};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Where a frame has its length.
const LENGTH_AT: std::ops::Range<usize> = 8..12;

/// Largest file, as the shim makes it.
pub(crate) const FILE_BYTES_MAX: u64 = 1 << 20;
/// Most files looked at in one round, of all users: as many as ranks may be connected.
const FILES_OF_ROUND: usize = 4096;
/// Most files of one user in a round: those of the largest node. What is beyond is removed unread.
const FILES_OF_USER: usize = 1024;
/// The folder: all write and enter, the agent lists, and only a file's owner or it removes a file. Setgid gives files the
/// agent's group, by which it reads them: it has no right to read others' files, and nobody else is in that group.
const MODE: u32 = 0o3733;
/// Where system services have their sockets: memory that all of them share.
const RUN: &str = "/run";

/// Which rank a file is of. Unique on a node: no two ranks of a user begin in the same nanosecond with the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FileName {
    /// When its MPI_Init ended, as it says.
    pub epoch: i64,
    /// Its rank.
    pub rank: u32,
}

impl FileName {
    fn parse(text: &str) -> Option<Self> {
        let (epoch, rank) = text.split_once('-')?;
        let name = Self { epoch: epoch.parse().ok()?, rank: rank.parse().ok()? };
        (name.text() == text).then_some(name)
    }

    fn text(self) -> String {
        format!("{}-{}", self.epoch, self.rank)
    }
}

/// A file that lies there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TotalsFile {
    pub name: FileName,
    /// Who made it.
    pub uid: u32,
}

/// The frames of a file. One at a time: files are a user's to make, and memory is not.
#[derive(Debug)]
pub(crate) struct TotalsFrames(Take<File>);

impl TotalsFrames {
    /// The next frame; a cut-off one as it is, which will be refused. `None` at the end.
    pub fn next(&mut self) -> std::io::Result<Option<Vec<u8>>> {
        let mut frame = Vec::new();
        (&mut self.0).take(LENGTH_AT.end as u64).read_to_end(&mut frame)?;
        let length = frame.get(LENGTH_AT).and_then(|field| field.try_into().ok()).map(u32::from_le_bytes);
        // One byte more than a frame has is too many.
        let length = length.map_or(0, |length| length as usize).min(FRAME_BYTES + 1);
        let rest = length.saturating_sub(frame.len()) as u64;
        (&mut self.0).take(rest).read_to_end(&mut frame)?;
        Ok((!frame.is_empty()).then_some(frame))
    }
}

/// The folder; none where it can't be had.
#[derive(Clone, Debug, Default)]
pub(crate) struct Folder(Option<PathBuf>);

impl Folder {
    /// The folder of a socket, made where it is missing. In the memory of `/run` it has to be a mount of its own, which
    /// bounds what users can fill (`deploy/systemd`).
    pub fn of(socket: &Path) -> Self {
        let mut path = socket.as_os_str().to_owned();
        path.push(".last");
        let path = PathBuf::from(path);
        match prepare(&path) {
            Ok(true) => Self(Some(path)),
            Ok(false) => {
                tracing::info!(path = %path.display(), "no file system of its own is mounted there: ranks that end while no agent runs leave no totals");
                Self(None)
            }
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "ranks that end while no agent runs can leave no totals");
                Self(None)
            }
        }
    }

    /// Whether this rank of this user has left something.
    pub fn has(&self, name: FileName, uid: u32) -> bool {
        self.open(name, uid).is_ok_and(|file| file.is_some())
    }

    /// What this rank of this user has left.
    ///
    /// # Errors
    /// It is none that a shim makes, or can't be read; then it is removed.
    pub fn read(&self, name: FileName, uid: u32) -> std::io::Result<Option<TotalsFrames>> {
        let Some(file) = self.open(name, uid)? else { return Ok(None) };
        if file.metadata()?.len() > FILE_BYTES_MAX {
            self.remove(name, uid);
            return Err(std::io::Error::other("larger than any of ours"));
        }
        Ok(Some(TotalsFrames(file.take(FILE_BYTES_MAX))))
    }

    /// Removes what this rank of this user has left, unread.
    pub fn remove(&self, name: FileName, uid: u32) {
        if self.has(name, uid) {
            self.unlink(&name.text());
        }
    }

    /// Files that have lain there for so long, and how many were removed because no shim made them or their user has too
    /// many.
    pub fn list(&self, age: Duration) -> (Vec<TotalsFile>, u64) {
        let Some(folder) = &self.0 else { return Default::default() };
        let Ok(entries) = std::fs::read_dir(folder) else { return Default::default() };
        let (mut listed, mut refused) = (Vec::new(), 0);
        let mut of_users = std::collections::HashMap::<u32, usize>::new();
        for entry in entries.flatten().take(FILES_OF_ROUND) {
            let Ok(data) = entry.metadata() else { continue };
            let since = data.modified().map(|made| SystemTime::now().duration_since(made));
            // One of the future may lie there for good otherwise.
            if matches!(since, Ok(Ok(since)) if since < age) {
                continue;
            }
            let name = entry.file_name().to_str().and_then(FileName::parse).filter(|_| data.is_file());
            let count = of_users.entry(data.uid()).or_default();
            *count += 1;
            match name.filter(|_| *count <= FILES_OF_USER && data.len() <= FILE_BYTES_MAX) {
                Some(name) => listed.push(TotalsFile { name, uid: data.uid() }),
                None => refused += u64::from(self.unlink(&entry.file_name().to_string_lossy())),
            }
        }
        (listed, refused)
    }

    fn open(&self, name: FileName, uid: u32) -> std::io::Result<Option<File>> {
        let Some(folder) = &self.0 else { return Ok(None) };
        let flags = (OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC).bits();
        let opened = OpenOptions::new().read(true).custom_flags(flags).open(folder.join(name.text()));
        let file = match opened {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let data = file.metadata()?;
        Ok((data.is_file() && data.uid() == uid).then_some(file))
    }

    /// A folder of a user's with something in it stays.
    fn unlink(&self, name: &str) -> bool {
        let Some(folder) = &self.0 else { return false };
        let path = folder.join(name);
        std::fs::remove_file(&path).or_else(|_| std::fs::remove_dir(&path)).is_ok()
    }
}

/// Makes the folder what it has to be; false where it would be in memory that others need.
fn prepare(path: &Path) -> std::io::Result<bool> {
    let device = |path: &Path| std::fs::metadata(path).map(|data| data.dev());
    let is_new = match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => true,
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => false,
        Err(error) => return Err(error),
    };
    if !std::fs::symlink_metadata(path)?.is_dir() {
        return Err(std::io::ErrorKind::NotADirectory.into());
    }
    if path.starts_with(RUN) && device(Path::new(RUN)).ok() == device(path).ok() {
        if is_new {
            std::fs::remove_dir(path)?;
        }
        return Ok(false);
    }
    // The unit's mount has the mode from root. The unit's RestrictSUIDSGID forbids to set it, even where it is set.
    let mode = std::fs::symlink_metadata(path)?.mode() & 0o7777;
    if mode != MODE {
        std::fs::set_permissions(path, Permissions::from_mode(MODE)).map_err(|error| {
            std::io::Error::other(format!(
                "its mode is {mode:o} and can't be made {MODE:o} ({error}): mount it with mode={MODE:o}"
            ))
        })?;
    }
    // One of another user may have the mode, too.
    std::fs::read_dir(path)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> u32 {
        nix::unistd::geteuid().as_raw()
    }

    #[test]
    fn a_file_is_read_and_removed_only_for_its_owner() {
        let place = tempfile::tempdir().unwrap();
        let socket = place.path().join("mpi.sock");
        let folder = Folder::of(&socket);
        let path = place.path().join("mpi.sock.last");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777, MODE);
        let name = FileName { epoch: 7, rank: 3 };
        assert!(folder.read(name, own()).unwrap().is_none());
        std::fs::write(path.join("7-3"), "totals").unwrap();
        assert!(folder.has(name, own()) && !folder.has(name, own() + 1));
        assert!(folder.read(name, own() + 1).unwrap().is_none(), "another user's");
        folder.remove(name, own() + 1);
        let mut left = folder.read(name, own()).unwrap().unwrap();
        assert_eq!(left.next().unwrap(), Some(b"totals".to_vec()));
        assert_eq!(left.next().unwrap(), None);
        folder.remove(name, own());
        assert!(!folder.has(name, own()));
        // The next agent finds the folder as it is.
        assert!(Folder::of(&socket).0.is_some());
    }

    /// Setting the mode is forbidden below RestrictSUIDSGID, where the folder is a mount that has it.
    #[test]
    fn a_folder_with_the_mode_is_left_as_it_is() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("s.last");
        std::fs::create_dir(&path).unwrap();
        let changed = || std::fs::metadata(&path).map(|data| (data.ctime(), data.ctime_nsec())).unwrap();
        let next_tick = || std::thread::sleep(Duration::from_millis(30));
        for (mode, is_set) in [(0o755, true), (0o1733, true), (MODE, false)] {
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let before = changed();
            next_tick();
            assert!(Folder::of(&place.path().join("s")).0.is_some(), "{mode:o}");
            assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o7777, MODE);
            assert_eq!(changed() != before, is_set, "{mode:o}");
        }
    }

    #[test]
    fn a_file_is_split_into_frames_whatever_it_holds() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("file");
        let frame = |length: u32| {
            let mut bytes = vec![0; 8];
            bytes.extend(length.to_le_bytes());
            bytes.resize(length.clamp(12, 40) as usize, 7);
            bytes
        };
        let of = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            let mut left = TotalsFrames(File::open(&path).unwrap().take(FILE_BYTES_MAX));
            std::iter::from_fn(|| left.next().unwrap()).map(|frame| frame.len()).collect::<Vec<_>>()
        };
        assert_eq!(of(&[]), [0; 0]);
        assert_eq!(of(&[frame(20), frame(12)].concat()), [20, 12]);
        assert_eq!(of(&[1, 2, 3]), [3], "no header");
        assert_eq!(of(&frame(4000)), [40], "cut off");
        assert_eq!(of(&frame(0)), [12], "a length of nothing goes on");
        let long = [frame(u32::MAX), vec![0; FRAME_BYTES]].concat();
        assert_eq!(of(&long)[0], FRAME_BYTES + 1, "no more than what is surely too long");
    }

    #[test]
    fn what_no_shim_makes_is_removed_unread() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::of(&place.path().join("s"));
        let path = place.path().join("s.last");
        std::fs::write(path.join("1-0"), "").unwrap();
        std::fs::write(path.join("01-0"), "").unwrap();
        std::fs::write(path.join("../secret"), "kept").unwrap();
        std::os::unix::fs::symlink("../secret", path.join("2-0")).unwrap();
        nix::unistd::mkfifo(&path.join("3-0"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        std::fs::create_dir(path.join("4-0")).unwrap();
        File::create(path.join("5-0")).unwrap().set_len(FILE_BYTES_MAX + 1).unwrap();
        for epoch in [2, 3, 4] {
            assert!(!folder.has(FileName { epoch, rank: 0 }, own()), "{epoch}");
        }
        assert_eq!(folder.list(Duration::from_secs(60)), (Vec::new(), 0), "all of them are new");
        assert!(folder.read(FileName { epoch: 5, rank: 0 }, own()).is_err());
        let first = TotalsFile { name: FileName { epoch: 1, rank: 0 }, uid: own() };
        assert_eq!(folder.list(Duration::ZERO), (vec![first], 4));
        assert_eq!(std::fs::read(place.path().join("secret")).unwrap(), b"kept");
        for rank in 0..=FILES_OF_USER {
            std::fs::write(path.join(format!("9-{rank}")), "").unwrap();
        }
        let (listed, refused) = folder.list(Duration::ZERO);
        assert_eq!((listed.len(), refused), (FILES_OF_USER, 2));
    }

    #[test]
    fn the_memory_that_services_share_is_not_given_to_users() {
        let Ok(place) = tempfile::tempdir_in(RUN) else {
            throughline_test_support::skip!("{RUN} cannot be written; run the tests as root");
        };
        assert!(Folder::of(&place.path().join("s")).0.is_none());
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
    }
}
