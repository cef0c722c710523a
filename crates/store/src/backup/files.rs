//! The folder of a backup: made, checked, and removed where the backup was not completed.

use std::fs;
use std::io::Read;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::manifest::{BACKUP_REMEDY, DumpedFile, Manifest};
use crate::error::Error;

/// What PostgreSQL's program writes.
pub(super) const DUMP: &str = "dump";

/// How much is read at a time.
const PART_BYTES: usize = 1 << 20;

/// How long files of a program that was ended may still appear.
const REMOVE_PATIENCE: Duration = Duration::from_secs(5);

/// Makes the folder of a new backup, for its owner alone, or takes one that is empty.
///
/// # Errors
/// There is something in it, or it can't be made.
pub fn prepare_folder(folder: &Path) -> Result<(), Error> {
    let io = Error::io("make the folder", folder, BACKUP_REMEDY);
    match fs::read_dir(folder) {
        Ok(mut files) => match files.next() {
            None => Ok(()),
            Some(_) => Err(Error::Place(format!(
                "{} is not empty, and a backup has a folder of its own: name one that is not there yet",
                folder.display()
            ))),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(io)
        }
        Err(error) => Err(io(error)),
    }
}

/// Removes what an incomplete backup left. The folder itself stays.
pub(super) fn remove_incomplete(folder: &Path) {
    let until = Instant::now() + REMOVE_PATIENCE;
    let dump = folder.join(DUMP);
    // The program that wrote it was ended, and may be in a last write.
    while dump.exists() && fs::remove_dir_all(&dump).is_err() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(50));
    }
    let _ = fs::remove_file(folder.join("manifest.json.part"));
}

/// The files of a dump with their checksums.
pub(super) fn list(folder: &Path) -> Result<Vec<DumpedFile>, Error> {
    let dump = folder.join(DUMP);
    let read = |error| Error::io("read", &dump, BACKUP_REMEDY)(error);
    let mut files = Vec::new();
    for entry in fs::read_dir(&dump).map_err(read)? {
        let entry = entry.map_err(read)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let (bytes, crc32c) = checksum(&entry.path())?;
        files.push(DumpedFile { name, bytes, crc32c });
    }
    files.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(files)
}

/// What is wrong with the files of a backup; none where they are as its manifest says.
///
/// # Errors
/// A file can't be read.
pub fn check_files(folder: &Path, manifest: &Manifest) -> Result<Vec<String>, Error> {
    let mut wrong = Vec::new();
    for file in &manifest.files {
        let path = folder.join(DUMP).join(&file.name);
        if !path.is_file() {
            wrong.push(format!("{DUMP}/{} is missing", file.name));
            continue;
        }
        let (bytes, crc32c) = checksum(&path)?;
        if bytes != file.bytes {
            wrong.push(format!("{DUMP}/{} has {bytes} bytes, and had {}", file.name, file.bytes));
        } else if crc32c != file.crc32c {
            wrong.push(format!("{DUMP}/{} was changed: its checksum differs", file.name));
        }
    }
    Ok(wrong)
}

fn checksum(path: &PathBuf) -> Result<(u64, u32), Error> {
    let mut part = vec![0; PART_BYTES];
    let (mut bytes, mut crc) = (0, 0);
    let mut read = || {
        let mut file = fs::File::open(path)?;
        loop {
            match file.read(&mut part)? {
                0 => return Ok(()),
                some => {
                    crc = crc32c::crc32c_append(crc, &part[..some]);
                    bytes += some as u64;
                }
            }
        }
    };
    read().map_err(Error::io("read", path, BACKUP_REMEDY))?;
    Ok((bytes, crc))
}
