//! Devices that can't be used, by a double of libibumad; and commands that are stopped.

use crate::simulated::{CRAWLER, SMALL, start};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// A libibumad with one port whose device file may not be opened, or that is an Ethernet one.
const DOUBLE: &str = r#"
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* As in infiniband/umad.h, which need not be installed. */
#define UMAD_CA_NAME_LEN 20
typedef struct {
    char ca_name[UMAD_CA_NAME_LEN];
    int portnum;
    unsigned base_lid, lmc, sm_lid, sm_sl, state, phys_state, rate;
    uint32_t capmask;
    uint64_t gid_prefix, port_guid;
    unsigned pkeys_size;
    uint16_t *pkeys;
    char link_layer[UMAD_CA_NAME_LEN];
} umad_port_t;
int umad_init(void) { return 0; }
int umad_get_cas_names(char names[][UMAD_CA_NAME_LEN], int max) { return max > 0 ? (strcpy(names[0], "mlx5_0"), 1) : 0; }
int umad_get_port(const char *ca, int number, umad_port_t *port) {
    (void)ca; (void)number;
    memset(port, 0, sizeof(*port));
    strcpy(port->ca_name, "mlx5_0");
    port->portnum = 1;
    strcpy(port->link_layer, LINK_LAYER);
    return 0;
}
int umad_release_port(umad_port_t *port) { (void)port; return 0; }
int umad_open_port(const char *ca, int number) { (void)ca; (void)number; errno = EACCES; return -EIO; }
int umad_close_port(int port) { (void)port; return 0; }
size_t umad_size(void) { return 64; }
int umad_register(int p, int c, int v, uint8_t r, long m[16 / sizeof(long)]) { (void)p; (void)c; (void)v; (void)r; (void)m; return -EPERM; }
int umad_unregister(int p, int a) { (void)p; (void)a; return 0; }
int umad_send(int p, int a, void *u, int l, int t, int r) { (void)p; (void)a; (void)u; (void)l; (void)t; (void)r; return -EIO; }
int umad_recv(int p, void *u, int *l, int t) { (void)p; (void)u; (void)l; (void)t; return -EIO; }
"#;

fn double(folder: &Path, link_layer: &str) -> std::path::PathBuf {
    let (source, library) = (folder.join("double.c"), folder.join(format!("{link_layer}.so")));
    std::fs::write(&source, DOUBLE).unwrap();
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let mut command = Command::new(compiler);
    command.args(["-shared", "-fPIC", "-Wall", "-Werror"]).arg(format!("-DLINK_LAYER=\"{link_layer}\""));
    assert!(command.arg("-o").arg(&library).arg(&source).status().unwrap().success());
    library
}

#[test]
fn a_device_that_can_not_be_used_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    for (link_layer, status, words) in [
        ("InfiniBand", 77, ["no permission", "/dev/infiniband/umad*"]),
        ("Ethernet", 69, ["Ethernet", "InfiniBand"]),
    ] {
        let library = double(folder.path(), link_layer);
        for command in ["discover", "sweep", "run"] {
            let mut crawler = Command::new(CRAWLER);
            crawler.arg(command).current_dir(folder.path()).env("THROUGHLINE_LIBIBUMAD", &library);
            let output = crawler.output().unwrap();
            let said = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(status), "{command}: {said}");
            assert!(words.iter().all(|word| said.contains(word)) && said.lines().count() == 1, "{said}");
        }
    }
}

#[test]
fn a_sweep_without_end_ends_in_order() {
    let simulated = start(&SMALL.to_net().unwrap());
    let mut command = simulated.fabric.client(CRAWLER, None).unwrap();
    let folder = command.get_current_dir().unwrap().to_owned();
    command.args(["sweep", "--json", "--interval", "0.05"]).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // Two sweeps of 80 ports.
    assert_eq!(lines.by_ref().take(160).filter(|line| line.is_ok()).count(), 160);
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGTERM).unwrap();
    let rest: Vec<String> = lines.map(|line| line.unwrap()).collect();
    assert!(rest.iter().all(|line| line.starts_with('{') && line.ends_with('}')), "whole lines to the end");
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), 0, "exit handlers have run");

    // A reader that has had enough is no error.
    let mut command = simulated.fabric.client(CRAWLER, None).unwrap();
    command.args(["sweep", "--json", "--interval", "0.01"]).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    reader.read_line(&mut String::new()).unwrap();
    drop(reader);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_command_that_is_stuck_below_ends_by_a_signal() {
    let simulated = start(&SMALL.to_net().unwrap());
    let mut command = simulated.fabric.client(CRAWLER, None).unwrap();
    // A simulator that is not there: libumad2sim waits for it for ever.
    command.arg("discover").env("IBSIM_SOCKNAME", format!("nobody-{}", std::process::id()));
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
    // Once it takes signals over, it has a second thread.
    let tasks = format!("/proc/{pid}/task");
    while std::fs::read_dir(&tasks).unwrap().count() < 2 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    kill(pid, Signal::SIGTERM).unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(Signal::SIGTERM as i32));
}
