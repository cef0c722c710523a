//! What the demo prints: what runs where, things to try, the status table, and the summary of `--once`.
//!
//! Pure text of what was read; nothing is read here.

use super::flows::{LinkId, Network, PortId};
use super::mpi::Mpi;
use super::process::Child;
use super::sources::SOURCES;
use super::start::StartedDemo;
use super::table::{percent, rate, table};
use super::traffic::LINK_BYTES_PER_SECOND;
use std::path::Path;
use throughline_client::text::clean;
use throughline_query::jobs::Job;
use throughline_query::recent::{BusyLink, Rows};

/// What was read for one refresh.
pub struct View {
    /// Of each of [`SOURCES`], in the last `window_seconds`.
    pub rows: Vec<Rows>,
    /// The window of `rows`.
    pub window_seconds: f64,
    /// Busiest first.
    pub links: Vec<BusyLink>,
    /// The newest one.
    pub job: Option<Job>,
    /// What ranks really send, in bytes per second.
    pub measured: f64,
}

/// What runs where.
pub fn whereabouts<'a>(
    started: &StartedDemo,
    daemons: impl Iterator<Item = &'a Child>,
    logs: &Path,
) -> String {
    let addresses = [started.server_address, started.crawler_address]
        .into_iter()
        .chain(started.agent_addresses.iter().copied());
    let what = ["database, collector".to_owned(), "crawler of the simulated fabric".to_owned()].into_iter();
    let what =
        what.chain(started.hosts.iter().enumerate().map(|(rank, host)| format!("{host}, rank {rank}")));
    let rows: Vec<Vec<String>> = daemons
        .zip(addresses)
        .zip(what)
        .map(|((child, address), what)| {
            vec![child.name.clone(), what, child.pid.to_string(), format!("http://{address}/metrics")]
        })
        .collect();
    format!("{}\nLogs: {}\n", table(&["process", "what", "pid", "metrics"], &rows), logs.display())
}

/// Things to try.
pub fn suggestions(started: &StartedDemo, program: &Path) -> String {
    let socket = started.database.socket_folder().unwrap_or_default();
    format!(
        "Look:\n  \
         http://{server}/ in a browser: fabric map, jobs, nodes\n\
         Try in another terminal:\n  \
         {psql} -h {socket} -U {user} {name} -c \"SELECT link_name, max(transmit_utilisation) AS used \
         FROM public.ib_port_rates(now() - interval '1 minute') GROUP BY 1 ORDER BY 2 DESC NULLS LAST LIMIT 5\"\n  \
         curl -s http://{crawler}/metrics | grep switch_port_transmit_data_bytes | head\n  \
         {program} status --server http://{server}\n  \
         {program} job list --server http://{server}\n",
        server = started.server_address,
        psql = started.psql.display(),
        socket = socket.display(),
        user = throughline_store::READ_ROLE,
        name = started.database.name(),
        crawler = started.crawler_address,
        program = program.display(),
    )
}

/// The status of one moment.
pub fn status(view: &View, network: &Network) -> String {
    let rows: Vec<Vec<String>> = SOURCES
        .iter()
        .zip(&view.rows)
        .map(|(source, rows)| {
            let age = rows.age_seconds.map_or("-".to_owned(), |age| format!("{:.1} s", age.max(0.0)));
            vec![source.name.to_owned(), format!("{:.0}", rows.count as f64 / view.window_seconds), age]
        })
        .collect();
    let mut text = table(&["source", "rows/s", "newest"], &rows);
    text.push('\n');
    text.push_str(&traffic_line(view));
    text.push_str(&links(&view.links, network, view.job.as_ref()));
    if let Some(job) = &view.job {
        let has_ended = job.end.is_some() || job.ranks_running == 0;
        let state = if has_ended { "ended" } else { "running" };
        text.push_str(&format!("\nNewest job: {}, {} ranks, {state}\n", clean(&job.key, 80), job.ranks));
    }
    text
}

/// Text that takes the place of what was shown before, on a terminal; what stands above stays. Long lines are
/// cut rather than wrapped, so that lines can be counted.
pub fn in_place(text: &str, shown_lines: &mut usize) -> String {
    const NO_WRAP: &str = "\x1b[?7l";
    const WRAP: &str = "\x1b[?7h";
    const CLEAR_BELOW: &str = "\x1b[J";
    let up = if *shown_lines > 0 { format!("\x1b[{shown_lines}A\r") } else { String::new() };
    *shown_lines = text.lines().count();
    format!("{up}{CLEAR_BELOW}{NO_WRAP}{text}{WRAP}")
}

/// The same in one line, for logs.
pub fn status_line(view: &View) -> String {
    let sources: Vec<String> = SOURCES
        .iter()
        .zip(&view.rows)
        .map(|(source, rows)| format!("{} {:.0}", source.table, rows.count as f64 / view.window_seconds))
        .collect();
    let busiest = view
        .links
        .first()
        .map_or("none".to_owned(), |link| format!("{} {}", link.name, percent(link.utilisation)));
    format!("rows/s: {}; busiest link: {busiest}", sources.join(", "))
}

fn traffic_line(view: &View) -> String {
    if view.measured == 0.0 {
        return "MPI traffic: none measured yet\n".to_owned();
    }
    let link = rate(f64::from(LINK_BYTES_PER_SECOND));
    format!("MPI traffic: {} measured, on simulated links of {link}", rate(view.measured)) + "\n"
}

/// The busiest links with whose traffic they carry.
fn links(busy: &[BusyLink], network: &Network, job: Option<&Job>) -> String {
    let rows: Vec<Vec<String>> = busy
        .iter()
        .map(|link| {
            let pairs = network
                .links()
                .iter()
                .find(|known| known.id.from == PortId { guid: link.guid, port: link.port })
                .map(|known| known.id);
            let (ranks, job) = match pairs.map(|id| ranks_over(network, id)).filter(|ranks| !ranks.is_empty())
            {
                Some(ranks) => (ranks, job.map_or("-".to_owned(), |job| job.key.clone())),
                None => ("-".to_owned(), "-".to_owned()),
            };
            let waits = link.waiting.map_or("-".to_owned(), percent);
            vec![link.name.clone(), rate(link.bytes_per_second), percent(link.utilisation), waits, ranks, job]
        })
        .collect();
    table(&["busiest links", "sent", "used", "waits", "ranks", "job"], &rows)
}

fn ranks_over(network: &Network, link: LinkId) -> String {
    let pairs: Vec<String> =
        network.pairs_over(link).iter().map(|(from, to)| format!("{from}>{to}")).collect();
    pairs.join(" ")
}

/// The end of `--once`: how many rows each source delivered, and the busiest links.
pub fn summary(view: &View, network: &Network, mpi: &Mpi) -> String {
    let rows: Vec<Vec<String>> = SOURCES
        .iter()
        .zip(&view.rows)
        .map(|(source, rows)| vec![source.name.to_owned(), source.table.to_owned(), rows.count.to_string()])
        .collect();
    let mut text = table(&["source", "table", "rows"], &rows);
    if !mpi.has_pvars {
        text.push_str(&format!("({} offers no performance variables here)\n", mpi.name));
    }
    format!("{text}\n{}{}", traffic_line(view), links(&view.links, network, view.job.as_ref()))
}
