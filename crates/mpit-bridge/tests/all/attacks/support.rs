//! An agent that gathers what comes, users who are threads, and frames of all kinds.

use crate::client::{Client, monotonic};
use rustix::process::Uid;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use throughline_mpit_bridge::Welcome;
use throughline_mpit_bridge::{Config, Limits, Receiver, Status};
use throughline_sample::wire::Batch;
use tokio::sync::mpsc;

/// Well-behaved, and two others.
pub const GOOD: u32 = 4_001;
pub const BAD: u32 = 4_002;
pub const WORSE: u32 = 4_003;

const DEADLINE: Duration = Duration::from_secs(60);

/// All that was handed over, by user.
#[derive(Debug, Default)]
pub struct Gathered {
    /// (rank, time, calls of the first cell, cells) of each bin, in the order of their coming.
    pub bins: BTreeMap<u32, Vec<(u32, i64, u64, usize)>>,
    pub pvars: BTreeMap<u32, Vec<(String, f64)>>,
    pub other: BTreeMap<u32, usize>,
    pub ended: BTreeMap<u32, usize>,
    pub events: Vec<(String, String)>,
    /// Names of regions in cells, with the calls of their newest cell.
    pub regions: BTreeMap<u32, BTreeMap<String, u64>>,
}

fn user(job_key: &str) -> u32 {
    job_key.rsplit_once('@').unwrap().1.parse().unwrap()
}

impl Gathered {
    fn add(&mut self, batch: Batch) {
        for bin in batch.mpi_ops {
            let calls = bin.cells.first().map_or(0, |cell| cell.calls);
            let regions = self.regions.entry(user(&bin.job_key)).or_default();
            for cell in &bin.cells {
                regions.insert(cell.region.clone(), cell.calls);
            }
            let bins = self.bins.entry(user(&bin.job_key)).or_default();
            bins.push((bin.rank, bin.time, calls, bin.cells.len()));
        }
        for pvar in batch.mpi_pvars {
            self.pvars.entry(user(&pvar.job_key)).or_default().push((pvar.name, pvar.value));
        }
        for key in batch.mpi_peers.iter().map(|peers| &peers.job_key) {
            *self.other.entry(user(key)).or_default() += 1;
        }
        for key in batch.mpi_regions.iter().map(|regions| &regions.job_key) {
            *self.other.entry(user(key)).or_default() += 1;
        }
        for key in batch.mpi_traces.iter().map(|trace| &trace.job_key) {
            *self.other.entry(user(key)).or_default() += 1;
        }
        for key in batch.job_settings.iter().map(|setting| &setting.job_key) {
            *self.other.entry(user(key)).or_default() += 1;
        }
        for rank in batch.job_ranks.iter().filter(|rank| rank.end != 0) {
            *self.ended.entry(user(&rank.job_key)).or_default() += 1;
        }
        self.events.extend(batch.events.into_iter().map(|event| (event.kind, event.text)));
    }

    /// Calls of a user's bins, in order.
    pub fn calls(&self, uid: u32) -> Vec<u64> {
        self.bins.get(&uid).into_iter().flatten().map(|(_, _, calls, _)| *calls).collect()
    }

    /// Cells of a user.
    pub fn cells(&self, uid: u32) -> usize {
        self.bins.get(&uid).into_iter().flatten().map(|(.., cells)| *cells).sum()
    }
}

pub struct Agent {
    pub receiver: Receiver,
    pub socket: PathBuf,
    pub gathered: Arc<Mutex<Gathered>>,
    _folder: tempfile::TempDir,
}

impl Agent {
    pub fn start(limits: Limits, variables: Option<Vec<String>>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let socket = folder.path().join("mpi.sock");
        let welcome = Welcome { variables, ..Welcome::default() };
        let config =
            Config { socket: socket.clone(), node: "n1".into(), limits, welcome, ..Config::default() };
        let (sender, mut records) = mpsc::channel(32);
        let utc = |monotonic| {
            let now =
                i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos()).unwrap();
            now - (crate::client::monotonic() - monotonic)
        };
        let receiver = Receiver::start(config, Arc::new(utc), sender).unwrap();
        let gathered = Arc::<Mutex<Gathered>>::default();
        let to = gathered.clone();
        tokio::spawn(async move {
            while let Some(batch) = records.recv().await {
                to.lock().unwrap().add(batch);
            }
        });
        Self { receiver, socket, gathered, _folder: folder }
    }

    pub async fn until(&self, what: &str, reached: impl Fn(&Gathered, &Status) -> bool) {
        let poll = async {
            while !reached(&self.gathered.lock().unwrap(), &self.receiver.status()) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        if tokio::time::timeout(DEADLINE, poll).await.is_err() {
            panic!("{what}: {:#?}", self.receiver.status());
        }
    }
}

/// Whether this process may become other users; if not, the test is reported as skipped.
#[track_caller]
pub fn is_root() -> bool {
    throughline_test_support::is_root("to attack as another user")
}

/// A thread of another user: the kernel has users by thread, and says who connected.
pub fn as_user<T: Send + 'static>(
    uid: u32,
    work: impl FnOnce() -> T + Send + 'static,
) -> std::thread::JoinHandle<T> {
    std::thread::spawn(move || {
        rustix::thread::set_thread_uid(Uid::from_raw(uid)).unwrap();
        work()
    })
}

/// A rank that has been welcomed.
pub fn rank(socket: &Path, rank: u32, launcher: &str) -> Client {
    let mut client = Client::connect(socket).unwrap();
    client.hello(rank, 64, launcher).unwrap();
    client.wait_for_answer();
    client
}

/// Body of OPS with bins at these times (seconds from now), each with so many cells of different classes and regions.
pub fn ops(times: &[i64], cells: u16, calls: u64, region: u16) -> Vec<u8> {
    let mut body = Vec::new();
    for seconds in times {
        body.extend(monotonic().saturating_add(seconds.saturating_mul(1_000_000_000)).to_le_bytes());
        body.extend([u32::from(cells).to_le_bytes(), 0_u32.to_le_bytes()].concat());
        for cell in 0..cells {
            let (operation, class) = (1 + cell % 100, cell / 100);
            body.extend([operation, class, region, 0, 0, 0].map(u16::to_le_bytes).concat());
            body.extend(0_u32.to_le_bytes());
            body.extend([calls, calls.wrapping_mul(8), 1000, 100, 0, 0].map(u64::to_le_bytes).concat());
        }
    }
    body
}

/// Body of NAMES with regions of these numbers, each with a text of so many bytes.
pub fn names(numbers: std::ops::Range<u16>, bytes: usize) -> Vec<u8> {
    let mut body = monotonic().to_le_bytes().to_vec();
    for number in numbers {
        let text = format!("{number:0bytes$}");
        body.extend([1_u16, u16::try_from(text.len()).unwrap()].map(u16::to_le_bytes).concat());
        body.extend([u32::from(number), 0, 0].map(u32::to_le_bytes).concat());
        body.extend(text.as_bytes());
    }
    body
}

/// Body of PVARS with one variable of so many elements.
pub fn pvars(name: &str, elements: u32, value: f64, seconds: i64) -> Vec<u8> {
    let mut body = monotonic().saturating_add(seconds.saturating_mul(1_000_000_000)).to_le_bytes().to_vec();
    body.extend(u16::try_from(name.len()).unwrap().to_le_bytes());
    body.extend(name.as_bytes());
    body.extend(6_u16.to_le_bytes());
    body.extend(elements.to_le_bytes());
    for element in 0..elements {
        body.extend(element.to_le_bytes());
        body.extend(value.to_bits().to_le_bytes());
    }
    body
}

/// Body of TRACE with so many calls at one time.
pub fn trace(records: u32, region: u16, seconds: i64) -> Vec<u8> {
    let mut body = 0_u64.to_le_bytes().to_vec();
    let at = monotonic().saturating_add(seconds.saturating_mul(1_000_000_000)).max(0);
    for _ in 0..records {
        body.extend([at, at].map(i64::to_le_bytes).concat());
        body.extend([0_u64; 2].map(u64::to_le_bytes).concat());
        body.extend([-1_i32; 3].map(i32::to_le_bytes).concat());
        body.extend([17_u16, 1, 0, region, 0, 0].map(u16::to_le_bytes).concat());
    }
    body
}
