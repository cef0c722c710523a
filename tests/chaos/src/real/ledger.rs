//! What was produced against what the database has.

use super::part::Life;
use super::site::{JOB, RANKS_OF_AGENT, Site};
use crate::rank::CALL_BYTES;
use anyhow::ensure;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;
use std::time::{Duration, Instant};
use throughline_store::PrivateCluster;

/// What an entry of a writer must have behind it to be safe: what the spool states.
const WRITER_SAFE_AFTER: Duration = Duration::from_secs(1);

/// Compares all; fails with the first thing that is wrong.
pub fn compare(site: &mut Site) -> anyhow::Result<()> {
    let database = PrivateCluster::database_in(&site.database_folder());
    let client = site.runtime.clone().block_on(database.connect())?;
    let number = |query: &str| -> anyhow::Result<i64> {
        Ok(site.runtime.block_on(client.query_one(query, &[]))?.get(0))
    };
    let mut events: BTreeMap<String, BTreeMap<u64, i64>> = BTreeMap::new();
    // An event is of the node that sent it: a hostile one sends the same of others.
    let query = "SELECT source, text::bigint, count(*) FROM internal.events
                 WHERE kind = 'test' AND instance = split_part(source, '.', 1) GROUP BY 1, 2";
    for row in site.runtime.block_on(client.query(query, &[]))? {
        let number: i64 = row.get(1);
        events.entry(row.get(0)).or_default().insert(number.cast_unsigned(), row.get(2));
    }
    let mut pushes: BTreeMap<i32, BTreeMap<u64, i64>> = BTreeMap::new();
    let mut bytes: BTreeMap<i32, i64> = BTreeMap::new();
    let own = of_own_nodes();
    let query = format!("SELECT rank, calls, count(*), max(bytes) FROM {own} GROUP BY 1, 2");
    for row in site.runtime.block_on(client.query(&query, &[]))? {
        let calls: i64 = row.get(1);
        pushes.entry(row.get(0)).or_default().insert(calls.cast_unsigned(), row.get(2));
        let most = bytes.entry(row.get(0)).or_insert(0);
        *most = row.get::<_, i64>(3).max(*most);
    }
    ensure!(number("SELECT count(*) FROM internal.batch_quarantine")? == 0, "batches were quarantined");
    for index in 0..site.writers.len() {
        compare_writer(site, index, &events)?;
    }
    for rank in 0..site.ranks.len() {
        let key = i32::try_from(rank)?;
        let none = BTreeMap::new();
        compare_rank(site, rank, pushes.get(&key).unwrap_or(&none), bytes.get(&key).copied().unwrap_or(0))?;
    }
    let backwards = format!(
        "SELECT count(*) FROM (SELECT calls - lag(calls) OVER (PARTITION BY job_id, rank ORDER BY time) d FROM {own}) s WHERE d < 0"
    );
    ensure!(number(&backwards)? == 0, "sums of a rank go backwards");
    let ranks = format!(
        "SELECT count(*) FROM internal.rank_claim r JOIN internal.run j ON j.id = r.job_id JOIN internal.node_key n ON n.id = r.node_id
         WHERE {}",
        is_own("r.rank")
    );
    ensure!(
        number(&ranks)? == i64::try_from(site.ranks.len())?,
        "each rank is there once: {}",
        number(&ranks)?
    );
    let ended = format!("{ranks} AND r.end_time IS NULL");
    ensure!(number(&ended)? == 0, "{} ranks said goodbye and have no end", number(&ended)?);
    compare_fabric(site, &number)?;
    println!("serve ended by itself, or not ready when started: {} times", site.serve_ended);
    Ok(())
}

/// That a row of job `j`, node `n` and this rank is what the rank's own agent reported. Whatever another node reports of the same rank
/// is stored beside it.
fn is_own(rank: &str) -> String {
    format!(
        "j.key = 'slurm:{JOB}.0@{}' AND n.name = 'agent-' || {rank} / {RANKS_OF_AGENT}",
        nix::unistd::geteuid()
    )
}

/// Sums of allreduce of the ranks, as their own agents reported them.
fn of_own_nodes() -> String {
    format!(
        "(SELECT m.time, m.job_id, m.rank, p.calls, p.bytes FROM internal.mpi_rank_rows m
          CROSS JOIN LATERAL internal.mpi_packed_cells(m.cells) p JOIN internal.mpi_cell_key k ON k.id = p.cell_id
          JOIN internal.run j ON j.id = m.job_id JOIN internal.node_key n ON n.id = m.node_id
          WHERE k.operation = 'allreduce' AND {}) own",
        is_own("m.rank")
    )
}

/// Numbers printed after this word, and when.
fn printed(life: &Life, begin: &str) -> Vec<(u64, Instant)> {
    let lines = life.lines.lock().unwrap_or_else(PoisonError::into_inner);
    lines.iter().filter_map(|(line, at)| Some((line.strip_prefix(begin)?.parse().ok()?, *at))).collect()
}

/// Losses and drops that a writer counted in this life.
fn counted(life: &Life) -> u64 {
    let lines = life.lines.lock().unwrap_or_else(PoisonError::into_inner);
    let last = lines.iter().rev().find_map(|(line, _)| line.strip_prefix("counts "));
    last.map_or(0, |counts| counts.split(' ').take(2).filter_map(|n| n.parse::<u64>().ok()).sum())
}

fn compare_writer(
    site: &Site,
    index: usize,
    events: &BTreeMap<String, BTreeMap<u64, i64>>,
) -> anyhow::Result<()> {
    let writer = &site.writers[index];
    let name = &writer.part.name;
    let (mut appended, mut safe, mut stored, mut missing, mut lost) = (0, 0, 0, 0, 0);
    for life in &writer.part.past {
        let none = BTreeMap::new();
        let found = events.get(&format!("{name}.{}", life.number)).unwrap_or(&none);
        let all = printed(life, "appended ");
        let known: BTreeSet<u64> = all.iter().map(|(number, _)| *number).collect();
        for (number, at) in &all {
            let is_safe = life.killed_at.is_none_or(|end| life.pauses.running(*at, end) >= WRITER_SAFE_AFTER);
            safe += usize::from(is_safe);
            missing += u64::from(is_safe && !found.contains_key(number));
        }
        ensure!(found.values().all(|count| *count == 1), "{name}, life {}: events stored twice", life.number);
        // The last one may have been appended without a word about it.
        let strangers = found.keys().filter(|number| !known.contains(number)).count();
        ensure!(strangers <= 1, "{name}, life {}: {strangers} events that were never appended", life.number);
        appended += all.len();
        stored += found.len();
        lost += counted(life);
    }
    println!(
        "{name}: {} lives, {appended} appended, {safe} safe, {stored} stored once; {missing} safe ones missing, {lost} \
         counted as lost, spool damaged {} times",
        writer.part.past.len(),
        writer.torn
    );
    ensure!(missing <= lost, "{name}: {missing} safe events are missing and {lost} counted as lost");
    ensure!(writer.torn > 0 || lost == 0, "{name}: {lost} events lost from a spool that nobody damaged");
    ensure!(safe > 0, "{name}: nothing was safe, so nothing was proved");
    Ok(())
}

fn compare_rank(site: &Site, rank: usize, found: &BTreeMap<u64, i64>, bytes: i64) -> anyhow::Result<()> {
    let Some(life) = site.ranks[rank].past.first() else { return Ok(()) };
    let agent = site.agent_of(rank);
    let total = printed(life, "total ").first().map_or(0, |(total, _)| *total);
    let pushed = printed(life, "pushed ");
    let lost: f64 = agent.dropped.iter().sum();
    println!(
        "rank {rank} of {}: {total} calls, {} pushes taken, {} rows stored; {lost} \
         entries of the agent counted as lost, its spool damaged {} times",
        agent.part.name,
        pushed.len(),
        found.len(),
        agent.torn
    );
    let stored = found.keys().max().copied().unwrap_or(0);
    ensure!(total > 0 && stored == total, "rank {rank}: {total} calls made, {stored} stored");
    ensure!(
        bytes.cast_unsigned() == total * CALL_BYTES,
        "rank {rank}: {} bytes sent, {bytes} stored",
        total * CALL_BYTES
    );
    ensure!(found.keys().all(|calls| *calls <= total), "rank {rank}: sums that it never sent");
    Ok(())
}

fn compare_fabric(site: &Site, number: &impl Fn(&str) -> anyhow::Result<i64>) -> anyhow::Result<()> {
    let overlaps = number(
        "SELECT count(*) FROM internal.crawler_term a JOIN internal.crawler_term b ON a.fabric_id = b.fabric_id AND a.id < b.id
         WHERE a.ended_at IS NULL OR a.ended_at > b.began_at OR a.covered_to > b.began_at",
    )?;
    ensure!(overlaps == 0, "{overlaps} pairs of terms of two crawlers overlap");
    let terms = number("SELECT count(*) FROM internal.crawler_term")?;
    let rows = number("SELECT count(*) FROM internal.ib_port_counters")?;
    let twice = number(
        "SELECT count(*) FROM (SELECT 1 FROM internal.ib_port_counters GROUP BY port_id, time HAVING count(*) > 1) d",
    )?;
    ensure!(twice == 0, "{twice} readings of ports are stored twice");
    // The standby takes over after the lease, and a crawler with a new device walks the fabric first.
    let end = Instant::now() + Duration::from_secs(90);
    while number("SELECT count(*) FROM internal.ib_port_counters WHERE time > now() - interval '10 s'")? == 0
    {
        ensure!(Instant::now() < end, "stuck: no crawler stores readings {:?} after the last fault", end);
        std::thread::sleep(Duration::from_secs(1));
    }
    let lives: usize = site.crawlers.iter().map(|crawler| crawler.part.life()).sum();
    println!("crawlers: {lives} lives ended, {terms} terms without overlap, {rows} readings, none twice");
    Ok(())
}
