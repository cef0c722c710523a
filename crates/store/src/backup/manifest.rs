//! What a backup says of itself: `manifest.json` in its folder, written last.

use std::fs;
use std::io::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::edition::Edition;
use crate::error::Error;
use crate::migrate::schema_version;

/// What to do where a file of a backup can't be used.
pub(super) const BACKUP_REMEDY: &str =
    "check its owner, its mode and the free space, or name a folder on another disk";

/// The file.
const NAME: &str = "manifest.json";

/// The form of manifests that this build writes and reads.
const FORMAT: u32 = 1;

/// A backup.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The form of this file.
    pub format: u32,
    /// The program that made it.
    pub throughline: String,
    /// When its snapshot was taken, RFC 3339.
    pub taken_at: String,
    /// When it was complete, RFC 3339.
    pub completed_at: String,
    /// PostgreSQL's version.
    pub postgresql: String,
    /// TimescaleDB's version.
    pub timescaledb: String,
    /// TimescaleDB's edition.
    pub edition: Edition,
    /// Version of our schema.
    pub schema: i32,
    /// Bytes of the database on disk.
    pub database_bytes: u64,
    /// The role that owns our tables.
    pub owner: String,
    /// All roles that own something or have rights.
    pub roles: Vec<String>,
    /// Bytes of the dump.
    pub dump_bytes: u64,
    /// Its files.
    pub files: Vec<DumpedFile>,
    /// What is in the tables.
    pub tables: Vec<TableContent>,
}

/// A file of the dump.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DumpedFile {
    /// Its name.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// Checksum of its bytes, CRC-32C.
    pub crc32c: u32,
}

/// Rows of a table, by the hour.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableContent {
    /// The table.
    pub table: String,
    /// All its rows.
    pub rows: u64,
    /// By the hour of their time.
    pub hours: Vec<HourContent>,
}

/// Rows of an hour: its begin in seconds since 1970, how many, and the sum of their hashes. A table without a time has one, without begin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HourContent(pub Option<i64>, pub u64, pub String);

impl Manifest {
    /// The form that this build writes.
    pub(super) const fn format() -> u32 {
        FORMAT
    }

    /// All rows of the database.
    pub fn rows(&self) -> u64 {
        self.tables.iter().map(|table| table.rows).sum()
    }

    /// Reads that of a folder.
    ///
    /// # Errors
    /// The folder is no backup, or one that this build can't read.
    pub fn read(folder: &Path) -> Result<Self, Error> {
        let path = folder.join(NAME);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(Error::Place(format!(
                    "{} is no backup: it has no {NAME}, which is written last. The backup was stopped before it was complete, \
                     or this is another folder; name one that `throughline db backup` has made",
                    folder.display()
                )));
            }
            Err(error) => return Err(Error::io("read", &path, BACKUP_REMEDY)(error)),
        };
        let damaged =
            |why: String| Error::Backup(format!("{} is damaged: {why}; take another backup", path.display()));
        let json: serde_json::Value =
            serde_json::from_str(&text).map_err(|error| damaged(error.to_string()))?;
        if json["format"].as_u64().is_some_and(|format| format > FORMAT.into()) {
            return Err(Error::Backup(format!(
                "the backup in {} was made by a newer throughline ({}); use that one",
                folder.display(),
                json["throughline"].as_str().unwrap_or("of unknown version")
            )));
        }
        serde_json::from_value(json).map_err(|error| damaged(error.to_string()))
    }

    /// Writes it into its folder, so that it is there as a whole or not.
    pub(super) fn write(&self, folder: &Path) -> Result<(), Error> {
        let (path, new) = (folder.join(NAME), folder.join(format!("{NAME}.part")));
        let text = serde_json::to_string(self)
            .map_err(|error| Error::Backup(format!("writing the manifest: {error}")))?;
        let write = || {
            let mut file = fs::File::create(&new)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&new, &path)
        };
        write().map_err(Error::io("write", &path, BACKUP_REMEDY))?;
        sync_folder(folder)
    }

    /// Whether this build and an installation can restore it.
    pub(super) fn check(&self, folder: &Path, edition: Edition, major: u32) -> Result<(), Error> {
        let refused = |why: String| Err(Error::Backup(format!("the backup in {}: {why}", folder.display())));
        if self.schema > schema_version() {
            return refused(format!(
                "its schema has version {}, and this throughline knows {}; restore with throughline {} or a newer one",
                self.schema,
                schema_version(),
                self.throughline
            ));
        }
        let of_dump = self.postgresql.split('.').next().and_then(|major| major.parse().ok()).unwrap_or(0);
        if of_dump > major {
            return refused(format!(
                "it is of PostgreSQL {}, and here is {major}; restore with PostgreSQL {of_dump} or a newer one (--pg-bin)",
                self.postgresql
            ));
        }
        if self.edition == Edition::Full && edition == Edition::Apache {
            return refused(format!(
                "it is of TimescaleDB's full edition, whose columns the Apache edition can't read; restore with the full \
                 edition {} (--pg-bin)",
                self.timescaledb
            ));
        }
        Ok(())
    }
}

/// Makes names of files in a folder last.
pub(super) fn sync_folder(folder: &Path) -> Result<(), Error> {
    let sync = fs::File::open(folder).and_then(|folder| folder.sync_all());
    sync.map_err(Error::io("sync", folder, BACKUP_REMEDY))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        Manifest {
            format: FORMAT,
            throughline: "0.1.0".to_owned(),
            taken_at: "2026-09-21T14:13:20Z".to_owned(),
            completed_at: "2026-09-21T14:13:50Z".to_owned(),
            postgresql: "17.5 (Debian)".to_owned(),
            timescaledb: "2.22.1".to_owned(),
            edition: Edition::Full,
            schema: schema_version(),
            database_bytes: 9,
            owner: "throughline".to_owned(),
            roles: Vec::new(),
            dump_bytes: 3,
            files: vec![DumpedFile { name: "toc.dat".to_owned(), bytes: 3, crc32c: 7 }],
            tables: vec![TableContent {
                table: "run".to_owned(),
                rows: 2,
                hours: vec![HourContent(None, 2, "-5".to_owned())],
            }],
        }
    }

    #[test]
    fn it_is_read_as_it_was_written_and_damage_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let error = Manifest::read(folder.path()).unwrap_err().to_string();
        assert!(error.contains("is no backup") && error.contains("written last"), "{error}");
        manifest().write(folder.path()).unwrap();
        assert_eq!(Manifest::read(folder.path()).unwrap(), manifest());
        let path = folder.path().join(NAME);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, &text[..text.len() / 2]).unwrap();
        let error = Manifest::read(folder.path()).unwrap_err().to_string();
        assert!(error.contains("is damaged") && error.contains("take another backup"), "{error}");
        fs::write(&path, text.replace("\"format\":1", "\"format\":2")).unwrap();
        assert!(Manifest::read(folder.path()).unwrap_err().to_string().contains("newer throughline (0.1.0)"));
    }

    #[test]
    fn what_cannot_be_restored_is_refused_with_the_way_out() {
        let refused = |of: &Manifest, edition, major| {
            of.check(Path::new("/b"), edition, major).map_err(|error| error.to_string())
        };
        assert_eq!(refused(&manifest(), Edition::Full, 17), Ok(()));
        assert!(refused(&manifest(), Edition::Apache, 17).unwrap_err().contains("the full edition 2.22.1"));
        assert!(refused(&manifest(), Edition::Full, 16).unwrap_err().contains("PostgreSQL 17 or a newer"));
        let newer = Manifest { schema: schema_version() + 1, ..manifest() };
        assert!(refused(&newer, Edition::Full, 17).unwrap_err().contains("restore with throughline 0.1.0"));
        let apache = Manifest { edition: Edition::Apache, ..manifest() };
        assert_eq!(refused(&apache, Edition::Full, 18), Ok(()));
    }
}
