//! Finds PostgreSQL programs whose installation has TimescaleDB. Runs `postgres --version`, nothing else.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use throughline_prefix::{Prefix, Set};

use super::folder::ServerUser;
use crate::error::Error;

/// Environment variable that names the folder of PostgreSQL's programs.
const PG_BIN_VARIABLE: &str = "THROUGHLINE_PG_BIN";

/// Folders below which distributions keep one folder per major version: Debian's and PGDG's for RPM systems.
const DISTRIBUTION_PATTERNS: [(&str, &str, &str); 2] =
    [("/usr/lib/postgresql", "", "bin"), ("/usr", "pgsql-", "bin")];

/// The oldest PostgreSQL that is tried.
const OLDEST_MAJOR: u32 = 15;

/// One set of PostgreSQL programs with TimescaleDB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installation {
    /// The folder of the programs.
    pub bin: PathBuf,
    /// The major version, for instance 17.
    pub major: u32,
    /// Where it came from, for people.
    pub origin: String,
}

/// The installation to use; with `made_by`, one of that major version.
pub(super) fn find(
    explicit: Option<&Path>,
    prefix: Option<&Prefix>,
    made_by: Option<&str>,
    data: &Path,
    user: Option<&ServerUser>,
) -> Result<Installation, Error> {
    let mut passed_over = Vec::new();
    let mut found = Vec::new();
    for (bin, origin) in candidates(explicit, prefix) {
        match examine(&bin, &origin, user) {
            Ok(installation) if made_by.is_none_or(|major| major == installation.major.to_string()) => {
                return Ok(installation);
            }
            Ok(installation) => found.push(installation.major.to_string()),
            Err(reason) => passed_over.push(format!("{}: {reason}", bin.display())),
        }
    }
    if let (Some(made_by), false) = (made_by, found.is_empty()) {
        return Err(Error::WrongMajor {
            folder: data.to_owned(),
            found: made_by.to_owned(),
            available: found.join(", "),
        });
    }
    let searched =
        if passed_over.is_empty() { "nothing installed".to_owned() } else { passed_over.join("; ") };
    Err(Error::NoPostgres { searched })
}

/// Places to look at, best first. An explicit one is the only one.
fn candidates(explicit: Option<&Path>, prefix: Option<&Prefix>) -> Vec<(PathBuf, String)> {
    if let Some(bin) = explicit {
        return vec![(bin.to_owned(), "--pg-bin".to_owned())];
    }
    if let Some(bin) = std::env::var_os(PG_BIN_VARIABLE).filter(|value| !value.is_empty()) {
        return vec![(PathBuf::from(bin), PG_BIN_VARIABLE.to_owned())];
    }
    let mut places = Vec::new();
    for (parent, start, end) in DISTRIBUTION_PATTERNS {
        let mut versions: Vec<(u32, PathBuf)> = fs::read_dir(parent)
            .into_iter()
            .flatten()
            .filter_map(Result::ok)
            .filter_map(|entry| {
                let major = entry.file_name().to_str()?.strip_prefix(start)?.parse().ok()?;
                Some((major, entry.path().join(end)))
            })
            .filter(|(major, _)| *major >= OLDEST_MAJOR)
            .collect();
        versions.sort();
        places.extend(versions.into_iter().rev().map(|(_, bin)| (bin, "the distribution's".to_owned())));
    }
    if let Some(prefix) = prefix
        && prefix.is_ready(Set::Postgres)
    {
        places.push((prefix.postgres_bin(), "the prefix's".to_owned()));
    }
    places
}

/// What is in a folder of programs, or why it does not serve.
fn examine(bin: &Path, origin: &str, user: Option<&ServerUser>) -> Result<Installation, String> {
    for program in ["postgres", "initdb", "pg_ctl"] {
        if !bin.join(program).is_file() {
            return Err(format!("no {program}"));
        }
    }
    let major = major_version(&bin.join("postgres"), user)?;
    if !share_folders(bin, major, user)
        .iter()
        .any(|share| share.join("extension/timescaledb.control").is_file())
    {
        return Err("no TimescaleDB".to_owned());
    }
    Ok(Installation { bin: bin.to_owned(), major, origin: origin.to_owned() })
}

/// A program to be run as the server's user: the prefix may belong to that user, so root does not run what is in it.
fn as_user(program: &Path, user: Option<&ServerUser>) -> Command {
    let mut command = Command::new(program);
    if let Some(user) = user.filter(|user| user.differs) {
        command.uid(user.uid.as_raw()).gid(user.gid.as_raw()).current_dir("/");
    }
    command
}

/// `postgres (PostgreSQL) 17.12 (Debian 17.12-0+deb13u1)` → 17.
fn major_version(postgres: &Path, user: Option<&ServerUser>) -> Result<u32, String> {
    let output = as_user(postgres, user).arg("--version").output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.split_whitespace()
        .nth(2)
        .and_then(|version| version.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok())
        .ok_or_else(|| format!("postgres --version says '{}'", text.trim()))
}

/// Where the extension's control file may be, reported by pg_config where there is one (Debian has it in a
/// package of its own), else by the layouts of Debian and of a build from source.
fn share_folders(bin: &Path, major: u32, user: Option<&ServerUser>) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    if let Ok(output) = as_user(&bin.join("pg_config"), user).arg("--sharedir").output()
        && output.status.success()
    {
        folders.push(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()));
    }
    let bin = fs::canonicalize(bin).unwrap_or_else(|_| bin.to_owned());
    folders.push(bin.join(format!("../../../../share/postgresql/{major}")));
    folders.push(bin.join("../share/postgresql"));
    folders.push(bin.join("../share"));
    folders
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn fake(folder: &Path, major: u32, with_extension: bool) -> PathBuf {
        let bin = folder.join("bin");
        fs::create_dir_all(&bin).unwrap();
        for program in ["postgres", "initdb", "pg_ctl"] {
            let path = bin.join(program);
            fs::write(&path, format!("#!/bin/sh\necho 'postgres (PostgreSQL) {major}.3 (Debian)'\n"))
                .unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        if with_extension {
            fs::create_dir_all(folder.join("share/extension")).unwrap();
            fs::write(folder.join("share/extension/timescaledb.control"), "").unwrap();
        }
        bin
    }

    #[test]
    fn an_explicit_folder_is_used_when_it_has_the_extension() {
        let folder = tempfile::tempdir().unwrap();
        let bin = fake(folder.path(), 17, true);
        let found = find(Some(&bin), None, None, Path::new("/d"), None).unwrap();
        assert_eq!((found.major, found.bin), (17, bin));
    }

    #[test]
    fn without_the_extension_the_reason_and_the_remedy_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let bin = fake(folder.path(), 17, false);
        let error = find(Some(&bin), None, None, Path::new("/d"), None).unwrap_err().to_string();
        assert!(error.contains("no TimescaleDB") && error.contains("throughline db install"), "{error}");
    }

    #[test]
    fn files_of_another_major_version_are_not_touched() {
        let folder = tempfile::tempdir().unwrap();
        let bin = fake(folder.path(), 17, true);
        let error = find(Some(&bin), None, Some("16"), Path::new("/d"), None).unwrap_err();
        assert!(matches!(error, Error::WrongMajor { .. }), "{error}");
        assert!(find(Some(&bin), None, Some("17"), Path::new("/d"), None).is_ok());
    }
}
