//! The cluster's configuration files, written anew at every start, so that a cluster has the settings of the program that runs it. A site's own settings go to `local.conf` in the data folder, which is read last and never touched.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::folder::{self, ServerUser, data_folder, socket_folder};
use super::tuning::{self, Machine, Setting};
use crate::database::{ADMIN_ROLE, QUERY_ROLE, READ_ROLE, WRITE_ROLE};
use crate::error::Error;

/// Writes `postgresql.conf`, `pg_hba.conf` and `pg_ident.conf`; whether one of them changed.
pub(super) fn write(
    folder: &Path,
    user: &ServerUser,
    machine: &Machine,
    throw_away: bool,
) -> Result<bool, Error> {
    let data = data_folder(folder);
    let socket = socket_folder(folder);
    let mut has_changed = false;
    for (name, text) in [
        ("postgresql.conf", postgresql_conf(&socket, machine, throw_away)),
        ("pg_hba.conf", "local all all peer map=throughline\n".to_owned()),
        ("pg_ident.conf", ident_conf(&user.name)),
    ] {
        let path = data.join(name);
        if fs::read_to_string(&path).is_ok_and(|present| present == text) {
            continue;
        }
        folder::replace(&path, &text)?;
        has_changed = true;
    }
    Ok(has_changed)
}

fn postgresql_conf(socket: &Path, machine: &Machine, throw_away: bool) -> String {
    let socket = socket.display().to_string().replace('\'', "''");
    let mut text = format!(
        "# Written at every start. Own settings go to local.conf beside this file.\n\
         listen_addresses = ''\n\
         unix_socket_directories = '{socket}'\n\
         unix_socket_permissions = 0777  # the folder is closed, and the login is by the peer's user\n\
         port = {port}\n\
         shared_preload_libraries = 'timescaledb'\n\
         timescaledb.telemetry_level = off\n\
         max_connections = 100\n\
         timezone = 'GMT'  # the only zone that needs no files\n\
         log_timezone = 'GMT'\n\
         lc_messages = 'C'\n\
         log_line_prefix = '%m [%p] %q%u@%d '\n\
         log_checkpoints = off\n",
        port = folder::SOCKET_NUMBER,
    );
    for Setting { name, value, reason } in tuning::settings(machine) {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{name} = {value}  # {reason}");
    }
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
        for role in [ADMIN_ROLE, WRITE_ROLE, QUERY_ROLE, READ_ROLE] {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "throughline \"{user}\" {role}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_socket_is_served_and_data_is_synced() {
        let machine = Machine { memory_bytes: 0, disk_bytes: 0, has_lz4: true };
        let text = postgresql_conf(Path::new("/s/it's"), &machine, false);
        assert!(text.contains("listen_addresses = ''\n"), "{text}");
        assert!(text.contains("unix_socket_directories = '/s/it''s'\n"), "{text}");
        assert!(!text.contains("fsync"), "{text}");
    }

    #[test]
    fn root_and_the_servers_user_may_take_each_role() {
        let text = ident_conf("postgres");
        assert_eq!(text.lines().filter(|line| line.starts_with("throughline ")).count(), 8);
        assert!(text.contains("throughline \"root\" throughline_read\n"), "{text}");
    }
}
