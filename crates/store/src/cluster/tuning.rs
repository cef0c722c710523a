//! PostgreSQL's settings for what Throughline does to it, each with its reason: rows are appended without end by few COPYs,
//! are read seldom and by time, and go by whole chunks. `deploy/postgresql/throughline.conf` has the same for a server that
//! somebody operates; a test compares.

use std::fs;
use std::path::Path;

use tokio_postgres::Client;

use crate::error::Error;

/// Shared buffers: a 16th of the machine's memory between these bounds. The compute belongs to others on a
/// small machine, and the page cache serves the rest on a large one.
const SHARED_BUFFERS_MEGABYTES: std::ops::RangeInclusive<u64> = 64..=4096;

/// A query over a day of 1 h chunks of several tables locks each of them and its index.
const LOCKS_PER_TRANSACTION: u32 = 512;

/// TimescaleDB's own 16 and 3 that start them, and PostgreSQL's 8 for parallel queries.
const WORKERS: u32 = 27;

/// The log between two checkpoints, at most: of a site's 10,000 rows a second it holds a checkpoint's 15 minutes.
pub(crate) const WAL_MEGABYTES: u64 = 8192;

/// The same on the smallest disk: less would make a checkpoint of each few seconds.
const WAL_MEGABYTES_MIN: u64 = 1024;

/// The part of the disk that the log may take where [`WAL_MEGABYTES`] is more.
const WAL_PART_OF_DISK: u64 = 8;

/// Steps of the log's size, so that it does not change with each start.
const WAL_STEP_MEGABYTES: u64 = 512;

/// What the machine has for the database.
#[derive(Clone, Copy, Debug)]
pub(super) struct Machine {
    /// Memory, bytes; 0 where it is not known.
    pub memory_bytes: u64,
    /// What the database's disk has free, and the log that is there, bytes; 0 where it is not known.
    pub disk_bytes: u64,
    /// Whether this PostgreSQL was built with LZ4.
    pub has_lz4: bool,
}

impl Machine {
    /// This machine, for a cluster with this data folder.
    pub fn measure(data: &Path, has_lz4: bool) -> Self {
        let free = nix::sys::statvfs::statvfs(data).map_or(0, |disk| {
            // The types of the fields differ between machines.
            #[allow(clippy::unnecessary_cast, clippy::useless_conversion)]
            let free = disk.blocks_available() as u64 * disk.fragment_size() as u64;
            free
        });
        Self { memory_bytes: memory_bytes(), disk_bytes: free + bytes_in(&data.join("pg_wal")), has_lz4 }
    }

    fn shared_buffers_megabytes(&self) -> u64 {
        let megabytes = (self.memory_bytes / 16) >> 20;
        megabytes.clamp(*SHARED_BUFFERS_MEGABYTES.start(), *SHARED_BUFFERS_MEGABYTES.end())
    }

    fn wal_megabytes(&self) -> u64 {
        let part = (self.disk_bytes >> 20) / WAL_PART_OF_DISK / WAL_STEP_MEGABYTES * WAL_STEP_MEGABYTES;
        part.clamp(WAL_MEGABYTES_MIN, WAL_MEGABYTES)
    }
}

/// A setting of postgresql.conf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Setting {
    pub name: &'static str,
    pub value: String,
    pub reason: &'static str,
}

/// The settings for a machine.
pub(super) fn settings(machine: &Machine) -> Vec<Setting> {
    let setting = |name, value: String, reason| Setting { name, value, reason };
    vec![
        setting(
            "max_wal_size",
            format!("{}MB", machine.wal_megabytes()),
            "after each checkpoint the first change of a page writes the whole page to the log: few checkpoints",
        ),
        setting(
            "checkpoint_timeout",
            "15min".to_owned(),
            "the same; after a crash at most so much is replayed",
        ),
        setting(
            "wal_compression",
            if machine.has_lz4 { "lz4" } else { "on" }.to_owned(),
            "of those whole pages; pglz (on) takes several times the processor of lz4",
        ),
        setting("wal_buffers", "16MB".to_owned(), "the log of a COPY between two writes of it"),
        setting(
            "shared_buffers",
            format!("{}MB", machine.shared_buffers_megabytes()),
            "the chunks that are written now and their indexes; the page cache serves older ones",
        ),
        setting(
            "max_locks_per_transaction",
            LOCKS_PER_TRANSACTION.to_string(),
            "a query over a day locks each chunk and its index",
        ),
        setting(
            "max_worker_processes",
            WORKERS.to_string(),
            "the job on TimescaleDB's full edition takes one while it runs, beside parallel queries",
        ),
        setting(
            "work_mem",
            "32MB".to_owned(),
            "sorts and hashes of a query over an hour of a site stay in memory",
        ),
        setting("maintenance_work_mem", "128MB".to_owned(), "vacuum of a chunk of an hour in one pass"),
        setting("jit", "off".to_owned(), "these queries are short, and compiling one takes longer than it"),
    ]
}

/// A setting of a server that Throughline would choose otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingRemark {
    /// Its name.
    pub name: &'static str,
    /// As the server has it.
    pub present: String,
    /// As it should be.
    pub recommended: String,
    /// Why.
    pub reason: &'static str,
}

/// The settings that are right on any machine that is large enough, and where a smaller value is worse.
const REVIEWED: [&str; 4] =
    ["max_wal_size", "checkpoint_timeout", "wal_compression", "max_locks_per_transaction"];

/// Which settings of a running server differ from what a large machine should have.
///
/// # Errors
/// The database is away or refuses.
pub async fn review_settings(client: &Client) -> Result<Vec<SettingRemark>, Error> {
    let large = Machine { memory_bytes: u64::MAX, disk_bytes: u64::MAX, has_lz4: true };
    let mut remarks = Vec::new();
    for Setting { name, value, reason } in settings(&large) {
        if !REVIEWED.contains(&name) {
            continue;
        }
        let row = client.query_one("SELECT current_setting($1)", &[&name]).await;
        let present: String = row.map_err(Error::sql("reading the server's settings"))?.get(0);
        let is_as_good = match (amount(&present), amount(&value)) {
            (Some(present), Some(wanted)) => present >= wanted,
            // zstd is as good as lz4.
            _ => present == value || present == "zstd",
        };
        if !is_as_good {
            remarks.push(SettingRemark { name, present, recommended: value, reason });
        }
    }
    Ok(remarks)
}

/// A setting's number in bytes or seconds; `None` for a word.
fn amount(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit {
        "" | "B" | "s" => 1,
        "kB" => 1 << 10,
        "MB" => 1 << 20,
        "GB" => 1 << 30,
        "TB" => 1 << 40,
        "min" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

fn memory_bytes() -> u64 {
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kibibytes = memory
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:")?.split_whitespace().next()?.parse::<u64>().ok())
        .unwrap_or(0);
    kibibytes * 1024
}

/// Bytes of the files in a folder; 0 where it can't be read.
fn bytes_in(folder: &Path) -> u64 {
    let files = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    files.filter_map(|file| file.metadata().ok()).filter(fs::Metadata::is_file).map(|file| file.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIGABYTE: u64 = 1 << 30;

    fn value(machine: Machine, name: &str) -> String {
        settings(&machine).into_iter().find(|setting| setting.name == name).unwrap().value
    }

    #[test]
    fn the_log_takes_an_eighth_of_the_disk_between_its_bounds() {
        let wal = |disk_bytes| value(Machine { memory_bytes: 0, disk_bytes, has_lz4: true }, "max_wal_size");
        assert_eq!(wal(0), "1024MB");
        assert_eq!(wal(10 * GIGABYTE), "1024MB");
        assert_eq!(wal(52 * GIGABYTE), "6656MB");
        assert_eq!(wal(64 * GIGABYTE), "8192MB");
        assert_eq!(wal(4000 * GIGABYTE), "8192MB");
    }

    #[test]
    fn lz4_is_used_where_it_is_there() {
        let machine = Machine { memory_bytes: 24 * GIGABYTE, disk_bytes: 0, has_lz4: true };
        assert_eq!(value(machine, "wal_compression"), "lz4");
        assert_eq!(value(Machine { has_lz4: false, ..machine }, "wal_compression"), "on");
        assert_eq!(value(machine, "shared_buffers"), "1536MB");
    }

    #[test]
    fn amounts_are_compared_whatever_their_unit() {
        assert_eq!(amount("8192MB"), amount("8GB"));
        assert_eq!(amount("15min"), Some(900));
        assert!(amount("1h") > amount("15min"));
        assert_eq!(amount("pglz"), None);
    }

    #[test]
    fn the_file_for_operated_servers_has_the_same() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/postgresql/throughline.conf");
        let text = fs::read_to_string(path).unwrap();
        let large = Machine { memory_bytes: 64 * GIGABYTE, disk_bytes: 1000 * GIGABYTE, has_lz4: true };
        for Setting { name, value, .. } in settings(&large) {
            assert!(text.lines().any(|line| line == format!("{name} = {value}")), "{name} = {value}");
        }
    }
}
