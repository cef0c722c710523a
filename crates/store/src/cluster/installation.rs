//! Finds PostgreSQL programs whose installation has TimescaleDB. Runs `postgres --version`, nothing else.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use throughline_prefix::{Prefix, Set};

use super::folder::ServerUser;
use crate::edition;
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

/// The folder of `pg_dump` and `pg_restore` for a server of that major version, and theirs: the same where it is here, else a newer one.
pub(crate) fn find_client_programs(explicit: Option<&Path>, server: u32) -> Result<(PathBuf, u32), Error> {
    let prefix = Prefix::locate().ok();
    let of_path = std::env::var_os("PATH").unwrap_or_default();
    let of_path = std::env::split_paths(&of_path).filter(|_| explicit.is_none());
    let places = candidates(explicit, prefix.as_ref()).into_iter().map(|(bin, _)| bin).chain(of_path);
    let (mut found, mut passed_over) = (Vec::new(), Vec::new());
    for bin in places.filter(|bin| bin.join("pg_dump").is_file() && bin.join("pg_restore").is_file()) {
        match major_version(&bin.join("pg_dump"), None) {
            Ok(major) if major >= server => found.push((major, bin)),
            Ok(major) => passed_over.push(format!("{} has {major}", bin.display())),
            Err(reason) => passed_over.push(format!("{}: {reason}", bin.display())),
        }
    }
    found.into_iter().min_by_key(|(major, _)| *major).map(|(major, bin)| (bin, major)).ok_or_else(|| {
        let found = if passed_over.is_empty() { "nothing installed".to_owned() } else { passed_over.join("; ") };
        Error::Edition(format!(
            "no pg_dump and pg_restore for PostgreSQL {server} found ({found}); install PostgreSQL's client programs {server}, or name \
             their folder with --pg-bin"
        ))
    })
}

/// What is in a folder of programs, or why it does not serve.
fn examine(bin: &Path, origin: &str, user: Option<&ServerUser>) -> Result<Installation, String> {
    for program in ["postgres", "initdb", "pg_ctl"] {
        if !bin.join(program).is_file() {
            return Err(format!("no {program}"));
        }
    }
    let major = major_version(&bin.join("postgres"), user)?;
    let shares = share_folders(bin, major, user);
    let controls = shares.iter().map(|share| share.join("extension/timescaledb.control"));
    let Some(control) = controls.into_iter().find(|control| control.is_file()) else {
        return Err("no TimescaleDB".to_owned());
    };
    if let Some(version) = version_of_control(&control)
        && !edition::is_new_enough(&version)
        && has_full_edition(bin, &version, user)
    {
        return Err(edition::too_old(&version));
    }
    Ok(Installation { bin: bin.to_owned(), major, origin: origin.to_owned() })
}

/// The version that an extension's control file has for new databases.
fn version_of_control(control: &Path) -> Option<String> {
    let text = fs::read_to_string(control).ok()?;
    let value = text.lines().find_map(|line| line.trim().strip_prefix("default_version")?.split('\'').nth(1));
    value.map(str::to_owned)
}

/// Whether the library of that version's full edition is there, where libraries are by pg_config or by the usual layouts.
fn has_full_edition(bin: &Path, version: &str, user: Option<&ServerUser>) -> bool {
    let mut folders = Vec::new();
    if let Ok(output) = as_user(&bin.join("pg_config"), user).arg("--pkglibdir").output()
        && output.status.success()
    {
        folders.push(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()));
    }
    let bin = fs::canonicalize(bin).unwrap_or_else(|_| bin.to_owned());
    folders.extend(["../lib", "../lib/postgresql"].map(|folder| bin.join(folder)));
    folders.iter().any(|folder| folder.join(format!("timescaledb-tsl-{version}.so")).is_file())
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
    fn an_old_full_edition_is_passed_over_and_an_old_apache_edition_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let bin = fake(folder.path(), 17, true);
        let control = folder.path().join("share/extension/timescaledb.control");
        fs::write(control, "comment = 'x'\ndefault_version = '2.19.3'\n").unwrap();
        assert!(find(Some(&bin), None, None, Path::new("/d"), None).is_ok());
        fs::create_dir_all(folder.path().join("lib")).unwrap();
        fs::write(folder.path().join("lib/timescaledb-tsl-2.19.3.so"), "").unwrap();
        let error = find(Some(&bin), None, None, Path::new("/d"), None).unwrap_err().to_string();
        assert!(error.contains("2.19.3, full edition") && error.contains("install 2.20.1"), "{error}");
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
