//! A device that goes away and comes back: the crawler opens it again and goes on, with exact rows.

use crate::simulated::daemon::{Daemon, Double, until};
use crate::simulated::{CRAWLER, SMALL, start_with};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use throughline_simfabric::ibsim::SimOptions;
use throughline_simfabric::{Scenario, serve};

/// Each end of each cable of the small fabric.
const PORTS: usize = 2 * (SMALL.hosts + SMALL.leafs * SMALL.uplinks);

fn configuration(collector: std::net::SocketAddr) -> String {
    format!(
        "[http]\nlisten = '127.0.0.1:0'\n[delivery]\ncollector = 'http://{collector}'\n[sweep]\n\
         interval_seconds = 0.2\nomit_unchanged = false\n[discovery]\ninterval_seconds = 2.0\n\
         light_interval_seconds = 0.5\n[mad]\ntimeout_seconds = 0.05\nretries = 1\n"
    )
}

/// Sweeps that read every port.
fn whole_sweeps(double: &Double) -> usize {
    let batches = double.batches();
    let rows = batches.iter().flat_map(|batch| &batch.coverage);
    rows.filter(|row| row.read == PORTS as u64 && row.expected == row.read).count()
}

fn has(double: &Double, kind: &str) -> usize {
    double.events().iter().filter(|event| event.kind == kind).count()
}

/// A simulated fabric at a socket, until it is stopped.
struct Played {
    stop: UnixStream,
    thread: JoinHandle<()>,
}

impl Played {
    fn at(socket: &std::path::Path) -> Played {
        let (stop, reported) = UnixStream::pair().unwrap();
        let socket = socket.to_owned();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let scenario = Scenario::new(SMALL.to_net().unwrap());
            serve(&scenario, &socket, reported.as_fd(), || ready.send(()).map_err(std::io::Error::other))
                .unwrap();
        });
        is_ready.recv().unwrap();
        Played { stop, thread }
    }

    fn end(self) {
        drop(self.stop);
        self.thread.join().unwrap();
    }
}

#[test]
fn a_driver_that_is_loaded_anew_is_opened_again() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let (double, collector) = Double::start(&runtime);
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("fabric.sock");
    let fabric = Played::at(&socket);
    let mut command = Command::new(CRAWLER);
    command.current_dir(folder.path()).arg("--transport").arg(format!("sim:{}", socket.display()));
    let mut daemon = Daemon::spawn(command, &configuration(collector), PathBuf::from("state"));
    until("a whole sweep", || whole_sweeps(&double) > 0);
    assert_eq!(daemon.health(), (200, "ok\n".to_owned()));
    fabric.end();
    until("an event of the loss", || has(&double, "device.lost") == 1);
    let (status, text) = daemon.health();
    assert!(status == 503 && text.contains("device:"), "{status} {text}");
    let fabric = Played::at(&socket);
    let before = whole_sweeps(&double);
    until("whole sweeps again", || whole_sweeps(&double) > before + 1);
    until("an event of the return", || has(&double, "device.back") == 1);
    until("a healthy crawler", || daemon.health() == (200, "ok\n".to_owned()));
    let text = daemon.metrics();
    for part in ["mad", "discovery"] {
        assert!(text.contains(&format!("throughline_device_reopens_total{{source=\"{part}\"}}")), "{text}");
    }
    assert_eq!(has(&double, "node.gone"), 0, "nobody was taken for gone");
    assert_eq!(daemon.stop(), 0);
    fabric.end();
}

#[test]
fn a_simulator_that_is_started_again_is_attached_to_again() {
    let net = SMALL.to_net().unwrap();
    let options = SimOptions { manager_sweep_seconds: 0, ..SimOptions::default() };
    let mut simulated = start_with(&net, options.clone());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let (double, collector) = Double::start(&runtime);
    let mut daemon = Daemon::start(&simulated, &configuration(collector));
    until("a whole sweep", || whole_sweeps(&double) > 0);
    let pid = daemon.id();
    simulated
        .fabric
        .restart(&net, &options, || {
            until("an event of the loss", || has(&double, "device.lost") == 1);
            assert_eq!(daemon.health().0, 503);
        })
        .unwrap();
    let before = whole_sweeps(&double);
    until("whole sweeps again", || whole_sweeps(&double) > before + 1);
    assert_eq!(has(&double, "device.back"), 1);
    assert_eq!(daemon.id(), pid);
    assert_eq!(daemon.stop(), 0);
}

#[test]
fn a_simulator_of_another_network_namespace_is_no_reason_to_hang() {
    let simulated = start_with(&SMALL.to_net().unwrap(), SimOptions::default());
    // A name at which nobody listens is what another network namespace looks like from inside.
    let mut command = simulated.fabric.client(CRAWLER, None).unwrap();
    command.arg("discover").env("IBSIM_SOCKNAME", format!("nobody-{}", std::process::id()));
    let start = Instant::now();
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(start.elapsed() < Duration::from_secs(40), "{:?}", start.elapsed());
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(69), "{said}");
    assert!(said.contains("network namespace") && said.contains("IBSIM_SOCKNAME"), "{said}");
}
