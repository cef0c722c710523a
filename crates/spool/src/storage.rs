//! What the spool needs of a disk, as a trait, and the real folder.
//!
//! Knows nothing of segments or entries. The simulated disk of the tests is the other implementation.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};

use crate::Error;

/// A folder of files. Names carry no slash. A created, renamed or removed name is sure to survive a power
/// loss only after [`Storage::sync_dir`], written bytes only after [`StorageFile::sync_data`].
pub trait Storage: Send + Sync {
    /// Names of all files.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Creates an empty file for reading and writing; fails where the name exists.
    fn create(&self, name: &str) -> io::Result<Box<dyn StorageFile>>;
    /// Opens an existing file for reading and writing.
    fn open(&self, name: &str) -> io::Result<Box<dyn StorageFile>>;
    /// Renames a file, replacing what has the new name.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a name. Open files stay readable.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes all changes of names so far survive a power loss.
    fn sync_dir(&self) -> io::Result<()>;
}

/// An open file.
pub trait StorageFile: Send + Sync {
    /// Length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Whether the file has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Reads into `buffer` from `offset`; fewer bytes than requested only at the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes all of `bytes` at `offset`. After an error any part of them may be there.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Makes the bytes written so far survive a power loss. After an error they must be taken as lost, even
    /// where a later call succeeds: Linux marks the pages clean.
    fn sync_data(&self) -> io::Result<()>;
}

/// A real folder, locked for one process.
#[derive(Debug)]
pub struct FileStorage {
    dir: PathBuf,
    handle: File,
    _lock: Flock<File>,
}

/// A link in the folder is not followed, and a pipe is not waited for: the spool made neither.
const NO_LINKS: i32 = nix::fcntl::OFlag::O_NOFOLLOW.union(nix::fcntl::OFlag::O_NONBLOCK).bits();

/// Name of the file that carries the lock.
const LOCK_NAME: &str = "lock";

impl FileStorage {
    /// Makes the folder (mode 0700: entries name users and jobs) where it is missing, and locks it.
    pub fn open(dir: &Path) -> Result<Self, Error> {
        let io = |operation| {
            let dir = dir.to_owned();
            move |source| Error::Folder { operation, dir, source }
        };
        let missing: Vec<&Path> = dir.ancestors().take_while(|d| !d.exists()).collect();
        DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(io("create"))?;
        // A new folder's own name must survive a power loss, or all in it is lost.
        for parent in missing.iter().filter_map(|d| d.parent()) {
            let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
            File::open(parent).and_then(|d| d.sync_all()).map_err(io("sync the parent of"))?;
        }
        let lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(NO_LINKS)
            .open(dir.join(LOCK_NAME))
            .map_err(io("open the lock file of"))?;
        let lock = Flock::lock(lock, FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| match errno {
            nix::errno::Errno::EWOULDBLOCK => Error::Locked { dir: dir.to_owned() },
            other => Error::Folder { operation: "lock", dir: dir.to_owned(), source: other.into() },
        })?;
        let handle = File::open(dir).map_err(io("open"))?;
        Ok(Self { dir: dir.to_owned(), handle, _lock: lock })
    }
}

impl Storage for FileStorage {
    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.dir)? {
            let entry = entry?;
            if let (true, Ok(name)) = (entry.file_type()?.is_file(), entry.file_name().into_string()) {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn StorageFile>> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .custom_flags(NO_LINKS)
            .open(self.dir.join(name))?;
        Ok(Box::new(RealFile(file)))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn StorageFile>> {
        let options = OpenOptions::new().read(true).write(true).custom_flags(NO_LINKS).clone();
        let file = options.open(self.dir.join(name))?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(ErrorKind::InvalidInput, format!("{name} is no regular file")));
        }
        Ok(Box::new(RealFile(file)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.dir.join(from), self.dir.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.dir.join(name))
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.handle.sync_all()
    }
}

/// Fills a buffer from a place in a file; returns how many bytes there were, fewer only at its end.
///
/// # Errors
/// The file's.
pub fn read_file_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match file.read_at(&mut buffer[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

struct RealFile(File);

impl StorageFile for RealFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        read_file_at(&self.0, buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}

/// Reads a whole file of at most `bytes_max` bytes.
pub(crate) fn read_whole(file: &dyn StorageFile, bytes_max: u64) -> io::Result<Vec<u8>> {
    let len = file.len()?;
    if len > bytes_max {
        return Err(io::Error::new(
            ErrorKind::FileTooLarge,
            format!("{len} bytes, at most {bytes_max} expected"),
        ));
    }
    // Bounded by the caller's limit, a few MiB.
    let mut bytes = vec![0; usize::try_from(len).unwrap_or(usize::MAX)];
    let read = file.read_at(&mut bytes, 0)?;
    bytes.truncate(read);
    Ok(bytes)
}
