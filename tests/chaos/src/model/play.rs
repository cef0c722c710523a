//! One play: a site of a few nodes, faults at random, healing, and the comparison.

use super::database::Database;
use super::network::{Collector, Collectors, Link, LinkCondition};
use super::node::{LEASE, Node, locked};
use super::{Id, Outcome};
use anyhow::{bail, ensure};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use throughline_spool::simulated::Fault;
use tokio::time::Instant;

/// A kind of fault.
const DAMAGE: &str = "a segment damaged";
/// From one fault to the next, on average.
const PAUSE_MILLISECONDS: u64 = 1500;
/// How long everything may take to be delivered once all faults are over: a half-open connection is noticed after two
/// minutes, and pauses of senders, collectors and the spool's writer are below a minute together.
const HEAL_PATIENCE: Duration = Duration::from_secs(240);
/// How long the healed site goes on producing.
const CALM: Duration = Duration::from_secs(20);

thread_local! {
    static BEGAN: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Since the beginning of this thread's play.
pub fn elapsed() -> Duration {
    BEGAN.get().map_or(Duration::ZERO, |began| began.elapsed())
}

/// Plays a seed; `aloud` prints each fault.
pub fn play(seed: u64, aloud: bool) -> anyhow::Result<Outcome> {
    // Pauses of senders and collectors draw from this thread's generator.
    fastrand::seed(seed);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    runtime.block_on(async {
        BEGAN.set(Some(Instant::now()));
        let mut play = Play::new(fastrand::Rng::with_seed(seed));
        play.aloud = aloud;
        play.faults().await?;
        play.heal().await?;
        play.compare().await
    })
}

/// What ends a fault.
enum Undo {
    Start(usize),
    Resume(usize),
    Space(usize),
    Open(usize),
    Fast(usize),
    StartCollector(usize),
    ResumeCollector(usize),
    Database,
}

struct Play {
    random: fastrand::Rng,
    database: Database,
    collectors: Collectors,
    nodes: Vec<Node>,
    undo: Vec<(Instant, Undo)>,
    counts: BTreeMap<&'static str, u64>,
    aloud: bool,
}

impl Play {
    fn new(mut random: fastrand::Rng) -> Play {
        let database = Database::default();
        let collectors: Collectors = Arc::new(Mutex::new(Vec::new()));
        for _ in 0..random.usize(1..3) {
            let mut collector = Collector::new(database.clone());
            collector.start(random.fork());
            locked(&collectors).push(collector);
        }
        let (plain, crawlers) = (random.u64(1..3), random.u64(0..3));
        let nodes = (0..plain + crawlers).map(|number| {
            let link = Link::new(random.fork(), collectors.clone());
            let mut node = Node::new(number, number >= plain, link, database.clone(), random.fork());
            node.start();
            node
        });
        let nodes = nodes.collect();
        Play { random, database, collectors, nodes, undo: Vec::new(), counts: BTreeMap::new(), aloud: false }
    }

    /// Some seconds from 0.1 on, seldom many.
    fn seconds(&mut self, most: f64) -> Duration {
        let share = self.random.f64();
        Duration::from_secs_f64(0.1 + most * share * share)
    }

    async fn faults(&mut self) -> anyhow::Result<()> {
        let end = Instant::now() + Duration::from_secs(self.random.u64(10..40));
        while Instant::now() < end {
            let pause = Duration::from_millis(self.random.u64(..PAUSE_MILLISECONDS * 2));
            let next = Instant::now() + pause;
            while let Some(due) = self.undo.iter().map(|(due, _)| *due).min().filter(|due| *due <= next) {
                tokio::time::sleep_until(due).await;
                self.undo_until(due);
            }
            tokio::time::sleep_until(next).await;
            self.fault().await?;
        }
        Ok(())
    }

    fn later(&mut self, most_seconds: f64, undo: Undo) {
        let due = Instant::now() + self.seconds(most_seconds);
        self.undo.push((due, undo));
    }

    async fn fault(&mut self) -> anyhow::Result<()> {
        let at = self.random.usize(..self.nodes.len());
        let is_running = self.nodes[at].is_running();
        let collector = self.random.usize(..locked(&self.collectors).len());
        let kind = self.random.u8(..18);
        let name = match kind {
            0..=2 if is_running => {
                match kind {
                    0 => self.nodes[at].kill(false).await?,
                    1 => self.nodes[at].kill(true).await?,
                    _ => self.nodes[at].terminate().await,
                }
                self.later(6.0, Undo::Start(at));
                ["a process killed", "power failed", "a process terminated"][usize::from(kind)]
            }
            3 if is_running => {
                self.nodes[at].pause(true);
                self.later(15.0, Undo::Resume(at));
                "a process stopped"
            }
            4 => {
                self.nodes[at].disk.fail_always(Some(Fault::NoSpace));
                self.nodes[at].excuse();
                self.later(12.0, Undo::Space(at));
                "a disk full"
            }
            5 => {
                self.nodes[at].fail_some();
                "a disk failing"
            }
            6 => {
                self.nodes[at].tear();
                DAMAGE
            }
            7 | 8 => {
                let way = if kind == 7 { LinkCondition::Silent } else { LinkCondition::HalfOpen };
                self.nodes[at].link.way.send_replace(way);
                self.later(20.0, Undo::Open(at));
                if kind == 7 { "a network partitioned" } else { "connections half open" }
            }
            9 | 10 => {
                self.nodes[at].link.cut();
                "connections cut"
            }
            11 => {
                let times = self.random.u32(5..200);
                self.nodes[at].link.slow(times);
                self.later(10.0, Undo::Fast(at));
                "a slow network"
            }
            12 | 13 => {
                let Some(mut killed) = self.take_collector(collector) else { return Ok(()) };
                killed.kill().await;
                locked(&self.collectors)[collector] = killed;
                self.later(4.0, Undo::StartCollector(collector));
                "a collector killed"
            }
            14 => {
                locked(&self.collectors)[collector].pause(true);
                self.later(8.0, Undo::ResumeCollector(collector));
                "a collector stopped"
            }
            15 | 16 => {
                let (unknown, refuse, slow) =
                    (self.random.f64(), self.random.f64() * 0.3, self.random.u32(1..50));
                {
                    let faults = &mut self.database.state().faults;
                    (faults.away, faults.unknown, faults.refuse, faults.slow) =
                        (kind == 15, unknown, refuse, slow);
                }
                self.later(12.0, Undo::Database);
                if kind == 15 { "the database away" } else { "a database that fails at times" }
            }
            _ => {
                let offset = self.random.i64(-30_000_000_000..30_000_000_000);
                self.nodes[at].clock.store(offset, Relaxed);
                "a clock that jumps"
            }
        };
        if self.aloud {
            println!("{:8.3} node {at}, collector {collector}: {name}", elapsed().as_secs_f64());
        }
        *self.counts.entry(name).or_default() += 1;
        Ok(())
    }

    /// Out of the table while it is being killed, so that nobody finds it; `None` where it does not run.
    fn take_collector(&mut self, at: usize) -> Option<Collector> {
        let mut collectors = locked(&self.collectors);
        if !collectors[at].is_running() {
            return None;
        }
        Some(std::mem::replace(&mut collectors[at], Collector::new(self.database.clone())))
    }

    /// Ends the faults that are due.
    fn undo_until(&mut self, now: Instant) {
        let mut due = Vec::new();
        self.undo.retain_mut(|(at, undo)| {
            let is_due = *at <= now;
            if is_due {
                due.push(std::mem::replace(undo, Undo::Database));
            }
            !is_due
        });
        for undo in due {
            self.end_fault(&undo);
        }
    }

    fn end_fault(&mut self, undo: &Undo) {
        match *undo {
            Undo::Start(at) => {
                if !self.nodes[at].is_running() {
                    self.nodes[at].start();
                }
            }
            Undo::Resume(at) => self.nodes[at].pause(false),
            Undo::Space(at) => {
                self.nodes[at].disk.fail_always(None);
                self.nodes[at].excuse();
            }
            Undo::Open(at) => _ = self.nodes[at].link.way.send_replace(LinkCondition::Open),
            Undo::Fast(at) => self.nodes[at].link.slow(1),
            Undo::StartCollector(at) => {
                let random = self.random.fork();
                let mut collectors = locked(&self.collectors);
                if !collectors[at].is_running() {
                    collectors[at].start(random);
                }
            }
            Undo::ResumeCollector(at) => locked(&self.collectors)[at].pause(false),
            Undo::Database => self.database.state().faults = Default::default(),
        }
    }

    /// Ends all faults, lets the site go on for a while, and waits until everything is delivered.
    async fn heal(&mut self) -> anyhow::Result<()> {
        for (_, undo) in std::mem::take(&mut self.undo) {
            self.end_fault(&undo);
        }
        for node in &mut self.nodes {
            if !node.is_running() {
                node.start();
            }
        }
        tokio::time::sleep(CALM).await;
        self.nodes.iter().for_each(Node::finish);
        let end = Instant::now() + HEAL_PATIENCE;
        loop {
            tokio::time::sleep(Duration::from_secs(2)).await;
            let left: Vec<u64> = self.nodes.iter().map(Node::backlog).collect();
            if left.iter().all(|left| *left == 0) {
                break;
            }
            ensure!(
                Instant::now() < end,
                "stuck: {HEAL_PATIENCE:?} after the last fault {left:?} entries wait"
            );
        }
        tokio::time::sleep(LEASE * 2).await;
        let (crawlers, active) = self.nodes.iter().fold((0, 0), |(all, active), node| {
            (all + u32::from(node.is_crawler()), active + u32::from(node.is_active()))
        });
        ensure!(active == crawlers.min(1), "{active} of {crawlers} crawlers sweep");
        Ok(())
    }

    async fn compare(&mut self) -> anyhow::Result<Outcome> {
        let (mut produced, mut safe) = (BTreeMap::new(), 0);
        for node in &mut self.nodes {
            node.end().await;
        }
        let state = self.database.state();
        for node in &self.nodes {
            let ledger = locked(&node.ledger);
            let mut missing = Vec::new();
            for (id, record) in &ledger.records {
                produced.insert(*id, record.poison);
                safe += u64::from(record.safe);
                let places = [&state.stored, &state.quarantined, &state.fenced];
                let found: u32 = places.iter().filter_map(|place| place.get(id)).sum();
                ensure!(found <= 1, "{id:?} is there {found} times");
                ensure!(
                    found == 0 || state.quarantined.contains_key(id) == record.poison,
                    "{id:?} is in a wrong place"
                );
                if found == 0 && record.safe {
                    missing.push(*id);
                }
            }
            // An entry has up to three records. How many a damaged run of entries had can be past finding out, and is
            // then counted as one: never as none.
            let is_damaged = self.counts.contains_key(DAMAGE);
            let counted = if is_damaged && ledger.counted > 0 { u64::MAX } else { ledger.counted * 3 };
            if missing.len() as u64 > counted {
                let some: Vec<&Id> = missing.iter().take(5).collect();
                bail!(
                    "node {} lost {} records that were on disk, {some:?}, and counted {} entries",
                    node.number,
                    missing.len(),
                    ledger.counted
                );
            }
            *self.counts.entry("records lost and counted").or_default() += missing.len() as u64;
        }
        let unknown = state.stored.keys().chain(state.fenced.keys()).find(|id| !produced.contains_key(id));
        ensure!(unknown.is_none(), "{unknown:?} is stored and was never produced");
        state.terms.check().map_err(anyhow::Error::msg)?;
        let forbidden = state.readings.iter().find(|(time, crawler)| state.terms.forbids(*crawler, *time));
        ensure!(forbidden.is_none(), "{forbidden:?} is stored and lies in another crawler's term");
        let figures = [
            ("records produced", produced.len() as u64),
            ("records safe", safe),
            ("records stored", state.stored.len() as u64),
            ("records set aside", state.quarantined.len() as u64),
            ("readings fenced", state.fenced.len() as u64),
            ("terms", state.terms.0.len() as u64),
        ];
        for (what, count) in figures {
            *self.counts.entry(what).or_default() += count;
        }
        Ok(Outcome { digest: state.digest, counts: self.counts.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_plays_the_same_way_again() {
        for seed in 0..20 {
            assert_eq!(play(seed, false).unwrap(), play(seed, false).unwrap(), "seed {seed}");
        }
    }
}
