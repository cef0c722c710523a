//! A node: a simulated disk, and on it a process with the real spool and the real delivery, which produces records. A node
//! may be one of the crawlers of a subnet.

use super::database::Database;
use super::network::{Link, ModelSink};
use super::pause::Gate;
use super::{Id, POISON, READING, now_nanoseconds};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use throughline_delivery::{ShipStats, ship};
use throughline_sample::Message;
use throughline_sample::wire::{Batch, Event};
use throughline_spool::simulated::{Fault, Random, Sim};
use throughline_spool::{Class, Config, Spool};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Between an append and the write that carries it, as the spool's thread does it.
const SYNC_INTERVAL: Duration = Duration::from_millis(200);
/// Longest pause of that thread after failed writes.
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(10);
/// What a crash may cost: the second that is promised.
const LOSS_MAX: Duration = Duration::from_secs(1);
/// The lease of crawlers, and how often they ask within it.
pub const LEASE: Duration = Duration::from_secs(6);
const REQUESTS: u32 = 3;
/// Of so many records one is at fault.
const POISON_SHARE: u64 = 60;

/// What became of a record, as far as its node knows.
#[derive(Clone, Copy, Debug)]
pub struct Produced {
    /// A flush said that it is on disk, or the process ended cleanly.
    pub safe: bool,
    pub poison: bool,
    at: Instant,
    /// Which of its node's processes produced it.
    life: u64,
}

/// All that a node produced in all its lives.
#[derive(Default)]
pub struct Ledger {
    pub records: BTreeMap<Id, Produced>,
    next: u64,
    life: u64,
    /// Entries that its spools dropped, thinned or found damaged, by their own count.
    pub counted: u64,
    /// Until when a disk that failed, or a process that was stopped, excuses a write that is late.
    excused: Option<Instant>,
}

pub struct Node {
    pub number: u64,
    is_crawler: bool,
    pub disk: Sim,
    pub link: Arc<Link>,
    pub ledger: Arc<Mutex<Ledger>>,
    database: Database,
    process: Option<Process>,
    random: fastrand::Rng,
    /// What its clock is wrong by, nanoseconds.
    pub clock: Arc<AtomicI64>,
    config: Config,
}

struct Process {
    spool: Spool,
    tasks: JoinSet<()>,
    gate: Gate,
    produce: CancellationToken,
    stop: CancellationToken,
    is_active: Arc<std::sync::atomic::AtomicBool>,
}

pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Ledger {
    /// All that the present process produced is on disk.
    fn all_safe(&mut self) {
        let life = self.life;
        self.records.values_mut().filter(|record| record.life == life).for_each(|record| record.safe = true);
    }
}

impl Node {
    pub fn new(
        number: u64,
        is_crawler: bool,
        link: Arc<Link>,
        database: Database,
        mut random: fastrand::Rng,
    ) -> Node {
        // One of four has a small spool, which thins and drops while it can't deliver.
        let disk_bytes_max = if random.u8(..4) == 0 { 8 << 10 } else { 1 << 20 };
        let config = Config {
            memory_bytes_max: 64 << 10,
            disk_bytes_max,
            segment_bytes_max: 2 << 10,
            owner: format!("n{number}"),
            ..Config::default()
        };
        let clock = Arc::new(AtomicI64::new(0));
        let (disk, ledger) = (Sim::default(), Arc::default());
        Node { number, is_crawler, disk, link, ledger, database, process: None, random, clock, config }
    }

    pub fn is_running(&self) -> bool {
        self.process.is_some()
    }

    pub fn is_crawler(&self) -> bool {
        self.is_crawler
    }

    /// Whether this crawler sweeps, by what it was answered.
    pub fn is_active(&self) -> bool {
        self.is_crawler && self.process.as_ref().is_some_and(|process| process.is_active.load(Relaxed))
    }

    /// Entries that wait.
    pub fn backlog(&self) -> u64 {
        self.process.as_ref().map_or(0, |process| process.spool.stats().backlog_entries)
    }

    /// A late write is excused until now, and until the writer's longest pause has passed.
    pub fn excuse(&self) {
        locked(&self.ledger).excused = Some(Instant::now() + RETRY_PAUSE_MAX + SYNC_INTERVAL);
    }

    /// Starts its process on what the disk has.
    pub fn start(&mut self) {
        let opened = Spool::with_storage(Arc::new(self.disk.clone()), self.config.clone(), false);
        // As a daemon does on a disk that is full or broken.
        let Ok(spool) = opened.or_else(|_| Spool::in_memory(self.config.clone())) else { return };
        locked(&self.ledger).life += 1;
        let gate = Gate::default();
        let (produce, stop) = (CancellationToken::new(), CancellationToken::new());
        let (written, is_active) = (Arc::new(Notify::new()), Arc::default());
        let mut tasks = JoinSet::new();
        let producer = Producer {
            spool: spool.clone(),
            number: self.number,
            ledger: self.ledger.clone(),
            clock: self.clock.clone(),
            written: written.clone(),
            random: self.random.fork(),
            is_active: Arc::clone(&is_active),
        };
        if self.is_crawler {
            tasks.spawn(gate.guard(standby(
                self.link.clone(),
                self.database.clone(),
                spool.id(),
                self.clock.clone(),
                Arc::clone(&is_active),
            )));
        }
        tasks.spawn(gate.guard(producer.run(self.is_crawler, produce.clone())));
        tasks.spawn(gate.guard(write(spool.clone(), self.ledger.clone(), written)));
        let (from, sink, until) = (spool.clone(), ModelSink(self.link.clone()), stop.clone());
        tasks.spawn(gate.guard(async move { ship(&from, &sink, until, &ShipStats::default()).await }));
        self.process = Some(Process { spool, tasks, gate, produce, stop, is_active });
    }

    pub fn pause(&self, is_paused: bool) {
        if let Some(process) = &self.process {
            process.gate.set(is_paused);
            self.excuse();
        }
    }

    /// No more records; what there is goes on being delivered.
    pub fn finish(&self) {
        if let Some(process) = &self.process {
            process.produce.cancel();
        }
    }

    /// SIGTERM: drains for a while, closes its files.
    pub async fn terminate(&mut self) {
        let Some(mut process) = self.process.take() else { return };
        process.gate.set(false);
        process.produce.cancel();
        process.stop.cancel();
        tokio::time::sleep(throughline_delivery::DRAIN + Duration::from_millis(10)).await;
        process.tasks.shutdown().await;
        let is_safe = process.spool.is_on_disk() && process.spool.flush().is_ok();
        self.note_end(&process.spool, is_safe);
    }

    /// SIGKILL, or a power failure, which also takes what was not synced. Fails where more is lost than the second that
    /// is promised.
    pub async fn kill(&mut self, power: bool) -> anyhow::Result<()> {
        let Some(mut process) = self.process.take() else { return Ok(()) };
        let on_disk = process.spool.is_on_disk();
        self.disk.crash_at(self.disk.ops());
        process.gate.set(false);
        process.tasks.shutdown().await;
        self.note_end(&process.spool, false);
        drop(process);
        if power {
            let mut random = Random::new(self.random.u64(..));
            self.disk = self.disk.after_crash(&mut random);
        } else {
            self.disk.revive();
        }
        let ledger = locked(&self.ledger);
        let late = ledger.records.iter().find(|(_, record)| {
            let since = ledger.excused.map_or(record.at, |excused| excused.max(record.at));
            !record.safe
                && record.life == ledger.life
                && Instant::now().saturating_duration_since(since) > LOSS_MAX
        });
        match late.filter(|_| on_disk) {
            Some((id, record)) => {
                let age = record.at.elapsed();
                anyhow::bail!("{id:?} was not on disk {age:?} after it was appended, when its process died")
            }
            None => Ok(()),
        }
    }

    /// What is not safe now never will be, and is not looked for.
    fn note_end(&self, spool: &Spool, is_safe: bool) {
        let stats = spool.stats();
        let mut ledger = locked(&self.ledger);
        ledger.counted += stats.dropped_memory_entries
            + stats.dropped_disk_entries
            + stats.thinned_memory_entries
            + stats.thinned_disk_entries
            + stats.damaged_entries;
        if is_safe {
            ledger.all_safe();
        }
    }

    /// At the end of the play: counts the last process' losses.
    pub async fn end(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.tasks.shutdown().await;
            self.note_end(&process.spool, false);
        }
    }

    /// A bad disk changes a byte of a segment.
    pub fn tear(&mut self) {
        let names: Vec<String> =
            self.disk.names().into_iter().filter(|name| name.ends_with(".seg")).collect();
        let Some(name) = names.get(self.random.usize(..names.len().max(1))) else { return };
        let length = self.disk.length(name);
        for _ in 0..self.random.u8(1..4) {
            self.disk.flip(name, self.random.usize(..length.max(1)));
        }
    }

    /// Some of its disk's next operations fail.
    pub fn fail_some(&mut self) {
        for _ in 0..self.random.u8(1..6) {
            let fault = if self.random.bool() { Fault::Io } else { Fault::Torn };
            self.disk.fail(self.disk.ops() + self.random.u64(..20), fault);
        }
        self.excuse();
    }
}

/// What the spool's own thread does, as a task: here there is one thread, so that a seed plays the same way again.
async fn write(spool: Spool, ledger: Arc<Mutex<Ledger>>, written: Arc<Notify>) {
    let mut pause = SYNC_INTERVAL;
    loop {
        // Also now and then without an append: what was acknowledged is removed.
        let _ = tokio::time::timeout(Duration::from_secs(5), written.notified()).await;
        tokio::time::sleep(pause).await;
        if spool.flush().is_ok() {
            pause = SYNC_INTERVAL;
            if spool.is_on_disk() {
                locked(&ledger).all_safe();
            }
        } else {
            pause = (pause * 2).min(RETRY_PAUSE_MAX);
            written.notify_one();
            locked(&ledger).excused = Some(Instant::now() + RETRY_PAUSE_MAX);
        }
    }
}

/// Asks for the term again and again, as the crawler does.
async fn standby(
    link: Arc<Link>,
    database: Database,
    crawler: uuid::Uuid,
    clock: Arc<AtomicI64>,
    is_active: Arc<std::sync::atomic::AtomicBool>,
) {
    let mut known = false;
    let now = || (now_nanoseconds() + clock.load(Relaxed)) / 1000;
    let mut since = now();
    loop {
        if known && !is_active.load(Relaxed) {
            since = now();
        }
        match link.ask(&database, crawler, since, LEASE).await {
            Some(granted) => {
                is_active.store(granted, Relaxed);
                known = true;
            }
            None if !known => is_active.store(true, Relaxed),
            None => {}
        }
        tokio::time::sleep(LEASE / REQUESTS).await;
    }
}

/// Makes records.
struct Producer {
    spool: Spool,
    number: u64,
    ledger: Arc<Mutex<Ledger>>,
    clock: Arc<AtomicI64>,
    written: Arc<Notify>,
    random: fastrand::Rng,
    is_active: Arc<std::sync::atomic::AtomicBool>,
}

impl Producer {
    async fn run(mut self, is_crawler: bool, produce: CancellationToken) {
        let work = async {
            loop {
                tokio::time::sleep(Duration::from_millis(self.random.u64(50..1200))).await;
                if is_crawler && !self.is_active.load(Relaxed) {
                    continue;
                }
                self.append(is_crawler);
            }
        };
        tokio::select! {
            biased;
            () = produce.cancelled() => {}
            () = work => {}
        }
    }

    /// An entry of one to three records.
    fn append(&mut self, is_crawler: bool) {
        let mut ledger = locked(&self.ledger);
        let mut batch = Batch { node: format!("n{}", self.number), ..Batch::default() };
        for _ in 0..self.random.u8(1..4) {
            let id = Id { node: self.number, number: ledger.next };
            ledger.next += 1;
            let poison = !is_crawler && self.random.u64(..POISON_SHARE) == 0;
            let life = ledger.life;
            let kind = if poison {
                POISON
            } else if is_crawler {
                READING
            } else {
                ""
            };
            let time = now_nanoseconds() + self.clock.load(Relaxed);
            batch.events.push(Event { time, kind: kind.into(), text: id.text(), ..Event::default() });
            ledger.records.insert(id, Produced { safe: false, poison, at: Instant::now(), life });
            if is_crawler {
                break; // The readings of an entry have one time.
            }
        }
        let class = if self.random.u8(..3) == 0 { Class::Cumulative(1) } else { Class::Precious };
        if self.spool.append(batch.encode_to_vec(), class).is_ok() {
            self.written.notify_one();
        }
    }
}
