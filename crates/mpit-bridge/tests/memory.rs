//! What the receiver holds while users attack it and its reader stands still: a fixed bound, and given back afterwards.
//!
//! Alone in its program, as all memory of the process is counted.
#![allow(clippy::unwrap_used, missing_docs, dead_code)]

#[path = "all/client.rs"]
mod client;
#[path = "all/attacks/support.rs"]
mod support;

use client::Client;
use peak_alloc::PeakAlloc;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use support::{as_user, is_root, names, ops, pvars, trace};
use throughline_mpit_bridge::{Config, Limits, Receiver};
use tokio::sync::mpsc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// Bytes of the heap that the receiver may come to hold: with an agent's own some 20 MB it stays below 64 MB.
const BOUND: usize = 24 << 20;
/// What stays when all have gone: tables that grew.
const REST: usize = 4 << 20;
const USERS: u32 = 4;
const RANKS: u32 = 150;

/// As many ranks as the user gets, each with as many names as it can have, and frames of all kinds as fast as they are
/// taken. The frames are made once, as this program's memory is counted as well.
fn attack(socket: &Path, over: &AtomicBool, sent: &AtomicU64) {
    let frames = [
        (8, names(1..230, 255)),
        (3, ops(&[0], 900, 7, 7)),
        (5, pvars(&"v".repeat(120), 4500, 1.0, 0)),
        (16, trace(1000, 7, 0)),
        (3, ops(&[0; 600], 1, 8, 9)),
    ];
    let mut clients = Vec::new();
    for number in 0..RANKS {
        let Ok(mut client) = Client::connect(socket) else { continue };
        let launcher = format!("{} {number}", "x".repeat(900));
        if client.hello(number, RANKS, &launcher).is_ok() {
            client.set_nonblocking();
            clients.push(client);
        }
    }
    while !over.load(Ordering::Relaxed) {
        for client in &mut clients {
            for (kind, body) in &frames {
                let taken = client.frame(*kind, body).is_ok();
                sent.fetch_add(u64::from(taken), Ordering::Relaxed);
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attack_03_memory_is_bounded_and_given_back() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let socket = folder.path().join("mpi.sock");
    let limits = Limits { reconnect: Duration::from_millis(500), ..Limits::default() };
    let config = Config { socket: socket.clone(), node: "n1".into(), limits, ..Config::default() };
    let (sender, mut records) = mpsc::channel(32);
    let receiver = Receiver::start(config, Arc::new(|monotonic| monotonic), sender).unwrap();
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    let over = Arc::new(AtomicBool::new(false));
    let sent = Arc::new(AtomicU64::new(0));
    let attackers = (0..USERS).map(|number| {
        let (socket, over, sent) = (socket.clone(), over.clone(), sent.clone());
        as_user(5_000 + number, move || attack(&socket, &over, &sent))
    });
    let attackers: Vec<_> = attackers.collect();
    // First nobody reads, then somebody who is slow.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let standing = MEMORY.peak_usage() - before;
    let slow = Instant::now();
    let mut fragments = 0_u32;
    while slow.elapsed() < Duration::from_secs(3) {
        fragments += u32::from(records.try_recv().is_ok());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let status = receiver.status();
    let peak = MEMORY.peak_usage() - before;
    over.store(true, Ordering::Relaxed);
    for attacker in attackers {
        attacker.join().unwrap();
    }
    println!(
        "peak {} KiB with no reader, {} KiB in all, {} frames sent",
        standing >> 10,
        peak >> 10,
        sent.load(Ordering::Relaxed)
    );
    assert!(fragments > 2 && status.connected > u64::from(RANKS), "{fragments} {status:#?}");
    assert!(peak < BOUND, "{peak} bytes at the peak");
    // All leave, and everything is read.
    let drained = Instant::now();
    loop {
        while records.try_recv().is_ok() {}
        let status = receiver.status();
        let rest = MEMORY.current_usage().saturating_sub(before);
        if status.running_jobs == 0 && rest < REST {
            break;
        }
        assert!(drained.elapsed() < Duration::from_secs(60), "{rest} bytes stay: {status:#?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    receiver.stop().await;
}
