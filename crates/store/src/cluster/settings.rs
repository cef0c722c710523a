//! The cluster's configuration files, written anew at every start. A site's own settings go to `local.conf`
//! in the data folder, which is read last and never touched.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::ADMIN_ROLE;
use super::folder::{self, ServerUser, data_folder, socket_folder};
use crate::Error;
use crate::database::{READ_ROLE, WRITE_ROLE};

/// Shared buffers: a 16th of the machine's memory between these bounds. The compute belongs to others on a
/// small machine, and the page cache serves the rest on a large one.
const SHARED_BUFFERS_MEGABYTES: std::ops::RangeInclusive<u64> = 64..=4096;

/// A query over a day of 1 h chunks of several tables locks each of them and its index.
const LOCKS_PER_TRANSACTION: u32 = 512;

/// Writes `postgresql.conf`, `pg_hba.conf` and `pg_ident.conf`.
pub(super) fn write(folder: &Path, user: &ServerUser, throw_away: bool) -> Result<(), Error> {
    let data = data_folder(folder);
    let socket = socket_folder(folder);
    for (name, text) in [
        ("postgresql.conf", postgresql_conf(&socket, shared_buffers_megabytes(), throw_away)),
        ("pg_hba.conf", "local all all peer map=throughline\n".to_owned()),
        ("pg_ident.conf", ident_conf(&user.name)),
    ] {
        let path = data.join(name);
        folder::replace(&path, &text)?;
    }
    Ok(())
}

fn postgresql_conf(socket: &Path, shared_buffers: u64, throw_away: bool) -> String {
    let socket = socket.display().to_string().replace('\'', "''");
    let mut text = format!(
        "# Written at every start. Own settings go to local.conf beside this file.\n\
         listen_addresses = ''\n\
         unix_socket_directories = '{socket}'\n\
         unix_socket_permissions = 0777  # the folder is closed, and the login is by the peer's user\n\
         port = {port}\n\
         shared_preload_libraries = 'timescaledb'\n\
         timescaledb.telemetry_level = off\n\
         jit = off  # the prefix has no LLVM, and these queries are short\n\
         max_connections = 100\n\
         max_locks_per_transaction = {LOCKS_PER_TRANSACTION}\n\
         shared_buffers = {shared_buffers}MB\n\
         work_mem = 32MB\n\
         maintenance_work_mem = 128MB\n\
         max_wal_size = 2GB\n\
         checkpoint_timeout = 15min\n\
         wal_compression = on\n\
         timezone = 'GMT'  # the only zone that needs no files\n\
         log_timezone = 'GMT'\n\
         lc_messages = 'C'\n\
         log_line_prefix = '%m [%p] %q%u@%d '\n\
         log_checkpoints = off\n",
        port = folder::SOCKET_NUMBER,
    );
    if throw_away {
        // Files of a test: gone with it. No background workers, so that a template can be copied at any time.
        text.push_str(
            "fsync = off\nsynchronous_commit = off\nfull_page_writes = off\n\
             timescaledb.max_background_workers = 0\nautovacuum = off\n",
        );
    } else {
        // One file per weekday, overwritten a week later: bounded without anybody's care.
        text.push_str(
            "logging_collector = on\nlog_directory = 'log'\nlog_filename = 'postgresql-%a.log'\n\
             log_rotation_age = 1d\nlog_truncate_on_rotation = on\n",
        );
    }
    text.push_str("include_if_exists = 'local.conf'\n");
    text
}

/// Who may log in as which role: the server's user and root as any. A site adds readers here by `local.conf`
/// with an `ident_file` of its own.
fn ident_conf(server_user: &str) -> String {
    let mut text = String::from("# MAP  OPERATING-SYSTEM-USER  ROLE\n");
    let users = if server_user == "root" { vec!["root"] } else { vec!["root", server_user] };
    for user in users {
        for role in [ADMIN_ROLE, WRITE_ROLE, READ_ROLE] {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "throughline \"{user}\" {role}");
        }
    }
    text
}

fn shared_buffers_megabytes() -> u64 {
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kibibytes = memory
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:")?.split_whitespace().next()?.parse::<u64>().ok())
        .unwrap_or(0);
    (kibibytes / 1024 / 16).clamp(*SHARED_BUFFERS_MEGABYTES.start(), *SHARED_BUFFERS_MEGABYTES.end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_socket_is_served_and_data_is_synced() {
        let text = postgresql_conf(Path::new("/s/it's"), 128, false);
        assert!(text.contains("listen_addresses = ''\n"), "{text}");
        assert!(text.contains("unix_socket_directories = '/s/it''s'\n"), "{text}");
        assert!(!text.contains("fsync"), "{text}");
    }

    #[test]
    fn root_and_the_servers_user_may_take_each_role() {
        let text = ident_conf("postgres");
        assert_eq!(text.lines().filter(|line| line.starts_with("throughline ")).count(), 6);
        assert!(text.contains("throughline \"root\" throughline_read\n"), "{text}");
    }
}
