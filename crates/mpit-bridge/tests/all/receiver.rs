//! The receiver against ranks that behave, ranks that do not, and floods. No MPI here.

use crate::client::{Client, random};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use throughline_mpit_bridge::Welcome;
use throughline_mpit_bridge::{Config, Limits, QuotaLimits, Reason, Receiver, Status};
use throughline_sample::wire::Batch;
use tokio::sync::mpsc;

const DEADLINE: Duration = Duration::from_secs(120);

struct Agent {
    receiver: Receiver,
    records: mpsc::Receiver<Batch>,
    socket: PathBuf,
    _folder: tempfile::TempDir,
}

impl Agent {
    fn start(limits: Limits) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("mpi.sock");
        let welcome = Welcome { bin_milliseconds: Some(50), ..Welcome::default() };
        let config =
            Config { socket: socket.clone(), node: "n1".into(), limits, welcome, ..Config::default() };
        let (sender, records) = mpsc::channel(64);
        let receiver = Receiver::start(config, Arc::new(|monotonic| monotonic), sender).unwrap();
        Self { receiver, records, socket, _folder: folder }
    }

    async fn until_status(&self, what: &str, reached: impl Fn(&Status) -> bool) -> Status {
        let poll = async {
            while !reached(&self.receiver.status()) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let done = tokio::time::timeout(DEADLINE, poll).await;
        assert!(done.is_ok(), "{what}: {:#?}", self.receiver.status());
        self.receiver.status()
    }

    async fn until_record(&mut self, what: &str, mut wanted: impl FnMut(&Batch) -> bool) -> Batch {
        let search = async {
            loop {
                let batch = self.records.recv().await.expect("the receiver lives");
                if wanted(&batch) {
                    return batch;
                }
            }
        };
        tokio::time::timeout(DEADLINE, search).await.unwrap_or_else(|_| panic!("{what}"))
    }
}

fn connect(socket: &Path, rank: u32) -> Client {
    let mut client = Client::connect(socket).unwrap();
    client.hello(rank, 4, "test launcher").unwrap();
    client
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rank_from_hello_to_goodbye() {
    let mut agent = Agent::start(Limits::default());
    let mut client = connect(&agent.socket, 1);
    let answer = client.receive();
    assert_eq!(&answer[32..], [1, 0, 4, 0, 50, 0, 0, 0], "WELCOME with bins of 50 ms");
    let batch = agent.until_record("hello", |batch| !batch.job_ranks.is_empty()).await;
    assert_eq!((batch.jobs.len(), batch.job_ranks[0].rank, batch.job_ranks[0].end), (1, 1, 0));
    assert_eq!(batch.job_ranks[0].pid, std::process::id(), "as the kernel says");
    client.operation(17, 14, 10, 81_920).unwrap();
    let batch = agent.until_record("operations", |batch| !batch.mpi_ops.is_empty()).await;
    let cell = &batch.mpi_ops[0].cells[0];
    assert_eq!((cell.operation.as_str(), cell.size_class_bytes, cell.calls), ("allreduce", 8192, 10));
    client.goodbye().unwrap();
    drop(client);
    let batch = agent.until_record("end", |batch| batch.job_ranks.iter().any(|rank| rank.end != 0)).await;
    assert_eq!(batch.job_ranks[0].ending, "clean");
    assert!(batch.jobs[0].end > 0);
    agent.receiver.stop().await;
    assert!(agent.records.recv().await.is_none(), "the channel is closed");
}

/// A short program has gone before it could read the answer.
#[tokio::test(flavor = "multi_thread")]
async fn last_words_of_a_rank_that_did_not_listen() {
    let mut agent = Agent::start(Limits::default());
    for rank in 0..20 {
        let mut client = Client::connect(&agent.socket).unwrap();
        client.hello(rank, 20, "short").unwrap();
        client.wait_for_answer();
        client.operation(17, 14, 3, 3).unwrap();
        client.goodbye().unwrap();
    }
    let (mut clean, mut cells) = (0, 0);
    while clean < 20 {
        let batch = agent.until_record("all end", |_| true).await;
        clean += batch.job_ranks.iter().filter(|rank| rank.end != 0 && rank.ending == "clean").count();
        cells += batch.mpi_ops.len();
    }
    assert_eq!(cells, 20);
}

/// 100,000 messages that are random, damaged or in the wrong order, on thousands of connections, while one
/// rank goes on and is served.
#[tokio::test(flavor = "multi_thread")]
async fn malformed_messages_harm_nobody() {
    const MESSAGES: u64 = 100_000;
    let quota = QuotaLimits {
        rows_per_second_of_user: 100_000_000,
        rows_per_second_of_job: 100_000_000,
        ranks_per_second_of_user: 1_000_000,
        connects_per_second_of_user: 1_000_000,
        ..QuotaLimits::default()
    };
    let mut agent = Agent::start(Limits { frames_per_second: 1_000_000, quota, ..Limits::default() });
    let mut good = connect(&agent.socket, 0);
    agent.until_record("hello", |batch| !batch.job_ranks.is_empty()).await;

    let over = Arc::new(AtomicBool::new(false));
    let socket = agent.socket.clone();
    let attack = std::thread::spawn({
        let over = over.clone();
        move || {
            let threads = (1..=4).map(|seed| {
                let socket = socket.clone();
                std::thread::spawn(move || crate::client::misbehave(&socket, seed, MESSAGES / 4))
            });
            let threads = threads.collect::<Vec<_>>();
            let sent = threads.into_iter().map(|thread| thread.join().unwrap());
            let sums = sent.fold((0, 0), |sums, (bad, hellos)| (sums.0 + bad, sums.1 + hellos));
            over.store(true, Ordering::Release);
            sums
        }
    });
    let (mut calls, mut served) = (0, 0);
    while !over.load(Ordering::Acquire) {
        calls += 1;
        good.operation(17, 14, calls, calls * 8192).unwrap();
        let has_it = |batch: &Batch| {
            let own = batch.mpi_ops.iter().filter(|bin| bin.rank == 0 && bin.time > 0);
            own.flat_map(|bin| &bin.cells).any(|cell| cell.calls == calls && cell.bytes == calls * 8192)
        };
        agent.until_record("the good rank is served", has_it).await;
        served += 1;
    }
    let (bad, hellos) = attack.join().unwrap();
    assert!(bad >= MESSAGES && served > 3, "{bad} messages, {served} rounds");
    // The good rank's HELLO and operations, and the bad ones' HELLOs, are frames like any other.
    let all = bad + hellos + 1 + calls;
    let every = |status: &Status| status.malformed_messages() + status.frames == all && status.connected == 1;
    let status = agent.until_status(&format!("all {all} are counted"), every).await;
    assert!(status.malformed_messages() > MESSAGES * 9 / 10, "{status:#?}");
    let reasons = status.malformed.iter().filter(|(_, count)| *count > 0).count();
    assert!(reasons >= 8, "each kind is counted separately: {status:#?}");
    assert!(status.closed_for(Reason::Malformed) > 100, "{status:#?}");
    good.goodbye().unwrap();
    drop(good);
    agent.until_status("it ends", |status| status.connected == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_valid_frames_is_slowed() {
    let mut agent = Agent::start(Limits { frames_per_second: 20, ..Limits::default() });
    let mut flood = connect(&agent.socket, 0);
    flood.set_nonblocking();
    let mut refused = false;
    for calls in 0..5000 {
        refused |= flood.operation(17, 14, calls, calls).is_err();
    }
    assert!(refused, "the socket is full, as nobody reads faster than allowed");
    let mut other = connect(&agent.socket, 1);
    other.operation(17, 14, 7, 7).unwrap();
    agent.until_record("another rank", |batch| batch.mpi_ops.iter().any(|bin| bin.rank == 1)).await;
    assert_eq!(agent.receiver.status().closed_connections(), 0, "slowed, not closed");
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_of_connections_and_patience() {
    // One user has at most as many as are free.
    let limits = Limits { connections: 6, hello: Duration::from_millis(200), ..Limits::default() };
    let agent = Agent::start(limits);
    let _ranks: Vec<_> = (0..2).map(|rank| connect(&agent.socket, rank)).collect();
    agent.until_status("two ranks", |status| status.connected == 2).await;
    let silent = Client::connect(&agent.socket).unwrap();
    agent.until_status("silence", |status| status.closed_for(Reason::Silent) == 1).await;
    assert!(silent.is_closed());
    let _third = connect(&agent.socket, 2);
    agent.until_status("three ranks", |status| status.connected == 3).await;
    let fourth = Client::connect(&agent.socket).unwrap();
    agent.until_status("no fourth", |status| status.closed_for(Reason::TooManyOfUser) == 1).await;
    assert!(fourth.is_closed());
}

/// A large node: 512 ranks, each with ten bins.
#[tokio::test(flavor = "multi_thread")]
async fn many_ranks() {
    const RANKS: u32 = 512;
    let mut agent = Agent::start(Limits::default());
    let socket = agent.socket.clone();
    let clients = tokio::task::spawn_blocking(move || {
        let ranks = (0..RANKS).map(|rank| {
            let mut client = Client::connect(&socket).unwrap();
            client.hello(rank, RANKS, "one launcher").unwrap();
            for calls in 1..=10 {
                client.operation(17, 14, calls, calls * 8192).unwrap();
            }
            client
        });
        ranks.collect::<Vec<_>>()
    });
    let mut complete = 0;
    while complete < RANKS {
        let last = |batch: &Batch| batch.mpi_ops.iter().filter(|bin| bin.cells[0].calls == 10).count();
        let batch = agent.until_record("all ranks", |batch| last(batch) > 0).await;
        complete += u32::try_from(last(&batch)).unwrap();
    }
    let clients = clients.await.unwrap();
    let status = agent.receiver.status();
    let figures = (status.connected, status.malformed_messages(), status.dropped_records);
    assert_eq!(figures, (u64::from(RANKS), 0, 0));
    drop(clients);
    agent.until_status("all leave", |status| status.connected == 0).await;
}

#[test]
fn the_random_source_is_the_same_in_each_run() {
    let mut one = random(7);
    let mut two = random(7);
    assert_eq!([one(), one()], [two(), two()]);
    assert_ne!(random(8)(), random(7)());
}
