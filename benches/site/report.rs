//! What is printed each ten seconds, and at the end.

use crate::tables::{self, Prediction};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};
use throughline_benches::psql::Psql;
use throughline_benches::server::{Server, processor_seconds};
use throughline_benches::site::cluster::Cluster;
use throughline_benches::site::send::Outgoing;

pub const INTERVAL: Duration = Duration::from_secs(10);

/// Goal: the lag of the last third is at most so many seconds above that of the second.
const GROWTH_SECONDS: f64 = 2.0;

/// Intervals before the first whose rows and lag count: inventory, chunks and keys are being made.
const WARM: usize = 2;

pub struct Report<'a> {
    server: &'a Server,
    psql: Psql,
    program: std::path::PathBuf,
    begin: Instant,
    at: Instant,
    rows: BTreeMap<String, f64>,
    processor: [f64; 3],
    intervals: Vec<Interval>,
}

struct Interval {
    seconds: f64,
    rows: BTreeMap<String, f64>,
    lag: f64,
    processor: [f64; 3],
}

impl<'a> Report<'a> {
    pub fn new(server: &'a Server, program: &Path, folder: &Path) -> anyhow::Result<Self> {
        let psql = Psql::new(program, folder)?;
        let now = Instant::now();
        let mut report = Self {
            server,
            psql,
            program: program.to_owned(),
            begin: now,
            at: now,
            rows: BTreeMap::new(),
            processor: [0.0; 3],
            intervals: Vec::new(),
        };
        (report.rows, report.processor) = (report.counted()?, report.processor()?);
        Ok(report)
    }

    /// Rows written so far, by hypertable.
    fn counted(&self) -> anyhow::Result<BTreeMap<String, f64>> {
        let rows = self.psql.query(
            "SELECT c.hypertable_name, sum(s.n_tup_ins) FROM timescaledb_information.chunks c
             JOIN pg_stat_all_tables s ON s.schemaname = c.chunk_schema AND s.relname = c.chunk_name
             WHERE c.hypertable_schema = 'internal' GROUP BY 1",
        )?;
        rows.iter().map(|row| Ok((row[0].clone(), row[1].parse()?))).collect()
    }

    fn processor(&self) -> anyhow::Result<[f64; 3]> {
        let (server, database) = self.server.processor()?;
        Ok([server, database, processor_seconds("self").unwrap_or(0.0)])
    }

    /// Age of the newest sweep in the database, seconds.
    fn newest(&self) -> anyhow::Result<Option<f64>> {
        let age = "SELECT extract(epoch FROM clock_timestamp() - max(time)) FROM internal.ib_port_counters \
                   WHERE port_id = 1 AND time > now() - INTERVAL '1 hour'";
        Ok(self.psql.query(age)?.first().and_then(|row| row[0].parse().ok()))
    }

    /// Prints one interval.
    pub fn interval(&mut self, outgoing: &Outgoing, late: u64) -> anyhow::Result<()> {
        let newest = self.newest()?;
        let (rows, processor, waiting) = (self.counted()?, self.processor()?, outgoing.waiting());
        let seconds = self.at.elapsed().as_secs_f64();
        self.at = Instant::now();
        let grown = rows.iter().map(|(table, now)| {
            (table.clone(), (now - self.rows.get(table).copied().unwrap_or(0.0)).max(0.0) / seconds)
        });
        let grown: BTreeMap<String, f64> = grown.filter(|(_, rate)| *rate > 0.0).collect();
        let used: Vec<f64> =
            processor.iter().zip(self.processor).map(|(now, before)| (now - before) / seconds).collect();
        let used = [used[0], used[1], used[2]];
        println!(
            "{:>5.0} s {:>7.0} rows/s, sweep {} old, oldest on its way {:.1} s, spools {} entries {:.1} MB lost {}, \
             processors: server {:.2} database {:.2} driver {:.2}{}",
            self.begin.elapsed().as_secs_f64(),
            grown.values().sum::<f64>(),
            newest.map_or("none".to_owned(), |age| format!("{age:.1} s")),
            waiting.oldest,
            waiting.entries,
            waiting.bytes as f64 / 1e6,
            waiting.lost,
            used[0],
            used[1],
            used[2],
            if late > 0 { format!(", driver late {late} times") } else { String::new() }
        );
        let tables = grown.iter().map(|(table, rate)| format!("{table} {rate:.0}"));
        println!("        {}", tables.collect::<Vec<_>>().join(", "));
        let lag = newest.unwrap_or(0.0).max(waiting.oldest);
        self.intervals.push(Interval { seconds, rows: grown, lag, processor: used });
        (self.rows, self.processor) = (rows, processor);
        Ok(())
    }

    /// Prints the table of all, and whether goals are met.
    pub fn end(&self, cluster: &Cluster, scale: u64, left: u64) -> anyhow::Result<bool> {
        self.psql.query("ANALYZE")?;
        let sizes = self.psql.query(
            "SELECT c.hypertable_name, sum(pg_total_relation_size(p.oid)), sum(p.reltuples)
             FROM timescaledb_information.chunks c
             JOIN pg_class p ON p.oid = format('%I.%I', c.chunk_schema, c.chunk_name)::regclass
             WHERE c.hypertable_schema = 'internal' AND p.reltuples > 0 GROUP BY 1",
        )?;
        let mut bytes = BTreeMap::new();
        for row in &sizes {
            let (all, rows): (f64, f64) = (row[1].parse()?, row[2].parse()?);
            // With few rows most of it is pages of indexes.
            if rows >= 1000.0 {
                bytes.insert(row[0].clone(), all / rows);
            }
        }
        let steady = self.intervals.get(WARM..).filter(|rest| !rest.is_empty()).unwrap_or(&self.intervals);
        let seconds: f64 = steady.iter().map(|interval| interval.seconds).sum();
        let mut rates = BTreeMap::new();
        for interval in steady {
            for (table, rate) in &interval.rows {
                *rates.entry(table.clone()).or_insert(0.0) += rate * interval.seconds / seconds;
            }
        }
        let prediction = Prediction::of(&self.program, cluster)?;
        tables::print(&rates, &bytes, &prediction, scale);
        let share = |of: usize| {
            steady.iter().map(|interval| interval.processor[of] * interval.seconds).sum::<f64>() / seconds
        };
        let memory = self.server.highest_bytes()? as f64 / 1e6;
        println!(
            "processors: server {:.2}, database {:.2}, driver {:.2}; server at most {memory:.0} MB",
            share(0),
            share(1),
            share(2)
        );
        let part = steady.len().div_ceil(3).max(1);
        let lag =
            |of: &[Interval]| of.iter().map(|interval| interval.lag).sum::<f64>() / of.len().max(1) as f64;
        let (first, last) =
            (lag(&steady[..part.min(steady.len())]), lag(&steady[steady.len().saturating_sub(part)..]));
        let is_steady = last <= first + GROWTH_SECONDS;
        let verdict = |is_met| if is_met { "met" } else { "MISSED" };
        println!(
            "lag: first third {first:.1} s, last third {last:.1} s; grows by at most {GROWTH_SECONDS} s: {}",
            verdict(is_steady)
        );
        println!("spools empty at the end: {}", verdict(left == 0));
        Ok(is_steady && left == 0)
    }
}
