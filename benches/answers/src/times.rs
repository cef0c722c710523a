//! Processor time of each request on two builds, each with a database that the same input filled once: in turn, cold (the first time
//! after a start of the server) and warm.
#![allow(clippy::cast_precision_loss)] // figures for people

use crate::answers::{Lists, Prometheus, http, metrics};
use crate::site::Site;
use anyhow::{Context, ensure};
use std::cell::Cell;

/// Runs of each request.
const RUNS: usize = 11;
/// Places of an interval around the median of [`RUNS`] ratios, in their order, that has it in 98.8 % of all cases.
const INTERVAL: [usize; 2] = [1, 9];
/// Processor time of a warm figure, at least: shorter requests are repeated.
const LEAST_NANOSECONDS: f64 = 10e6;
const REPEATS_MAX: f64 = 40.0;
/// A request is slower, or faster, where the interval excludes this.
const TOLERANCE: f64 = 0.05;
/// What the same request may cost where there are months of history, as a ratio.
const HISTORY_GOAL: f64 = 1.5;
/// A difference of less than this is within what a clock's tick and a page fault cost.
const LEAST_DIFFERENCE: f64 = 50e3;

/// A day of readings of some ports, five seconds apart, that ends with an hour some time ago; in terms of both schemas.
const DAY_PORTS: u32 = 20;
const DAY: i64 = 24 * 3600;

/// What is measured.
enum Request {
    Route(String),
    Sql(String),
    /// Expression, and the rest of the query.
    Promql(String, String),
}

/// One request of one run on one build, nanoseconds.
#[derive(Clone, Copy, Default)]
struct Times {
    cold: f64,
    warm: f64,
}

struct Line {
    request: Request,
    repeats: Cell<usize>,
    /// Of the old and the new build.
    runs: Vec<[Times; 2]>,
}

/// What is compared.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Compared {
    /// Two builds: neither may be slower.
    Builds,
    /// The same build without and with months of history: requests for a time may cost little more. Views are of all time.
    History,
}

/// Months of history before what a site has: chunks of each table, and packed hours without readings.
///
/// # Errors
/// The database's.
pub fn add_history(site: &Site) -> anyhow::Result<()> {
    let chunks = include_str!("../../../tests/dashboards/tests/all/old_chunks.sql");
    site.sql(&chunks.replace("EACH_HOURS", "1 hour").replace("EACH_DAYS", "1 day"))?;
    let hours = "generate_series(date_trunc('hour', now()) - INTERVAL '167 hours', date_trunc('hour', now()) - INTERVAL '36 hours', INTERVAL '1 hour')";
    site.sql(&format!(
        "INSERT INTO internal.ib_port_blocks (time, port_id) SELECT t, k.id FROM {hours} t, internal.ib_port_key k;
         INSERT INTO internal.host_port_blocks (time, host_port_id) SELECT t, k.id FROM {hours} t, internal.host_port_key k;
         INSERT INTO internal.nvlink_blocks (time, gpu_id, source) SELECT t, k.id, '' FROM {hours} t, internal.gpu_key k;
         INSERT INTO internal.gpu_pcie_blocks (time, gpu_id, source) SELECT t, k.id, '' FROM {hours} t, internal.gpu_key k;
         UPDATE internal.packed_state SET packed_from = date_trunc('hour', now()) - INTERVAL '167 hours'
             WHERE packed_until > date_trunc('hour', now()) - INTERVAL '167 hours'"
    ))?;
    site.sql("VACUUM ANALYZE").map(drop)
}

/// Measures all requests that contain `only` on both sites at their present time, and prints what differs. Whether none is slower.
///
/// # Errors
/// A server does not answer.
pub fn measure(
    sites: &mut [Site; 2],
    lists: &Lists,
    (moment, now): (&str, i64),
    (only, compared): (&str, Compared),
) -> anyhow::Result<bool> {
    let [old, new] = &*sites;
    let day = std::thread::scope(|scope| {
        let other = scope.spawn(|| fill_day(old, now));
        let day = fill_day(new, now)?;
        other.join().map_err(|_| anyhow::anyhow!("a run broke off"))??;
        anyhow::Ok(day)
    })?;
    if compared == Compared::History {
        add_history(new)?;
    }
    let mut lines = Vec::new();
    for request in requests(&sites[1], lists, moment, day)? {
        lines.push(Line { request, repeats: Cell::new(0), runs: Vec::new() });
    }
    lines.retain(|line| line.name().contains(only));
    if compared == Compared::History {
        lines.retain(|line| !line.name().starts_with("SELECT * FROM "));
    }
    let prometheus =
        [Prometheus::start(&lists.prometheus, &sites[0])?, Prometheus::start(&lists.prometheus, &sites[1])?];
    for run in 0..RUNS {
        sites.iter_mut().try_for_each(Site::restart)?;
        eprintln!("run {} of {RUNS}: {} requests", run + 1, lines.len());
        lines.retain_mut(|line| {
            let times = line.both(sites, &prometheus, now, run % 2);
            let times = times.inspect_err(|error| println!("left out: {}: {error:#}", line.name()));
            times.map(|times| line.runs.push(times)).is_ok()
        });
    }
    ensure!(!lines.is_empty(), "neither build answers");
    Ok(report(&lines, compared))
}

/// All routes, functions and views, each metric, and ports over the packed day.
fn requests(
    site: &Site,
    lists: &Lists,
    moment: &str,
    (begin, end): (i64, i64),
) -> anyhow::Result<Vec<Request>> {
    let listed = lists.requests.of(moment)?.into_iter().filter_map(|request| {
        let route = request.strip_prefix("GET ").map(|path| Request::Route(path.to_owned()));
        route.or_else(|| request.starts_with("SELECT ").then(|| Request::Sql(request.clone())))
    });
    let mut all: Vec<Request> = listed.collect();
    let views =
        site.sql("SELECT viewname FROM pg_views WHERE schemaname IN ('public', 'internal') ORDER BY 1")?;
    all.extend(views.lines().map(|view| Request::Sql(format!("SELECT * FROM {view}"))));
    let range = format!("to_timestamp({begin}), to_timestamp({end})");
    all.push(Request::Sql(format!(
        "SELECT time, transmit_bytes_per_second FROM ib_port_rates({range}) WHERE port_id = 1"
    )));
    all.push(Request::Sql(format!(
        "SELECT time, transmit_data_bytes, symbol_error FROM ib_port_readings({range}) WHERE port_id = 1"
    )));
    for metric in metrics(&site.build.checkout)? {
        all.push(Request::Promql(metric, String::new()));
    }
    let guid = site.sql(
        "SELECT n.guid || '|' || p.port FROM ib_port_key p JOIN ib_node_key n ON n.id = p.ib_node_id WHERE p.id = 1",
    )?;
    let (guid, port) = guid.trim().split_once('|').context("a port")?;
    let series = format!(
        "{{__name__=~\"infiniband_(switch|hca)_port_transmit_data_bytes_total\",guid=\"{guid}\",port=\"{port}\"}}"
    );
    for expression in [format!("rate({series}[1m])"), series] {
        all.push(Request::Promql(expression, format!("&start={begin}&end={end}&step=60")));
    }
    Ok(all)
}

/// Readings of ports over a day that upkeep then packs; its begin and end in seconds.
fn fill_day(site: &Site, now: i64) -> anyhow::Result<(i64, i64)> {
    let end = (now / 1_000_000_000 / 3600 - 3) * 3600;
    let begin = end - DAY;
    site.sql(&format!(
        "INSERT INTO ib_port_counters (time, port_id, epoch, source, transmit_data_bytes, receive_data_bytes, transmit_packets,
             receive_packets, transmit_wait, rate_bytes_per_second, link_downed, symbol_error)
         SELECT to_timestamp({begin} + t * 5), k.id, to_timestamp({begin}), 'mad',
             t::bigint * 1000000 * (1 + k.id % 97) + (t * 7919 + k.id * 104729) % 1000003, t * 5000, t * 4000, t * 300, t * 2,
             12500000000, 0, t / 5000
         FROM generate_series(0, {DAY} / 5 - 1) t, (SELECT id FROM ib_port_key ORDER BY id LIMIT {DAY_PORTS}) k;
         UPDATE minute_state SET made_until = to_timestamp({begin}), noticed_until = to_timestamp({begin}),
             blocks_until = to_timestamp({begin})"
    ))?;
    site.upkeep()?;
    let hours = site.sql(&format!(
        "SELECT count(DISTINCT time) FROM ib_port_blocks WHERE port_id = 1 AND time >= to_timestamp({begin}) AND time < to_timestamp({end})"
    ))?;
    ensure!(hours.trim() == "24", "{}: {} of 24 hours were packed", site.build.name, hours.trim());
    site.sql("VACUUM ANALYZE")?;
    Ok((begin, end))
}

impl Line {
    /// One run on both builds, `first` before the other.
    fn both(
        &self,
        sites: &[Site; 2],
        prometheus: &[Prometheus; 2],
        now: i64,
        first: usize,
    ) -> anyhow::Result<[Times; 2]> {
        let mut times = [Times::default(); 2];
        for which in [first, 1 - first] {
            times[which] = self.measure(&sites[which], &prometheus[which], now)?;
        }
        Ok(times)
    }

    fn measure(&self, site: &Site, prometheus: &Prometheus, now: i64) -> anyhow::Result<Times> {
        let ask = |times: usize| match &self.request {
            Request::Sql(query) => by_sql(site, query, times),
            Request::Route(path) => {
                let url = format!("http://{}/api/v1{path}", site.query);
                of_server(site, times, || http("GET", &url, "").map(drop))
            }
            Request::Promql(expression, range) => {
                let now = now / 1_000_000_000;
                let range = if range.is_empty() {
                    format!("&start={}&end={now}&step=15", now - 3600)
                } else {
                    range.clone()
                };
                of_server(site, times, || prometheus.range(expression, &range))
            }
        };
        let cold = ask(1)?;
        if self.repeats.get() == 0 {
            let once = ask(1)?.max(1.0);
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // from 1 to REPEATS_MAX
            self.repeats.set((LEAST_NANOSECONDS / once).clamp(1.0, REPEATS_MAX) as usize);
        }
        let repeats = self.repeats.get();
        Ok(Times { cold, warm: ask(repeats)? / repeats as f64 })
    }

    fn name(&self) -> String {
        match &self.request {
            Request::Route(path) => format!("GET {path}"),
            Request::Sql(query) => query.split_whitespace().collect::<Vec<_>>().join(" "),
            Request::Promql(expression, range) => format!("{expression} {range}"),
        }
    }

    /// Medians of both builds, and of the ratio with its interval.
    fn figures(&self, figure: fn(&Times) -> f64) -> Figures {
        let of = |which: usize| sorted(self.runs.iter().map(|run| figure(&run[which])).collect())[RUNS / 2];
        let ratios = sorted(self.runs.iter().map(|run| figure(&run[1]) / figure(&run[0]).max(1.0)).collect());
        Figures {
            old: of(0),
            new: of(1),
            ratio: ratios[RUNS / 2],
            interval: INTERVAL.map(|place| ratios[place]),
        }
    }
}

struct Figures {
    old: f64,
    new: f64,
    ratio: f64,
    interval: [f64; 2],
}

fn sorted(mut all: Vec<f64>) -> Vec<f64> {
    all.sort_by(f64::total_cmp);
    all
}

/// Processor time that the server and its database take meanwhile.
fn of_server(site: &Site, times: usize, ask: impl Fn() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    let before = site.processor()?;
    for _ in 0..times {
        ask()?;
    }
    Ok(site.processor()?.saturating_sub(before) as f64)
}

/// Processor time of a session's own process for a query.
fn by_sql(site: &Site, query: &str, times: usize) -> anyhow::Result<f64> {
    let clock = "\\! sed 's/^/clock /' /proc/$BACKEND/schedstat\n";
    let each = format!("SELECT count(v::text) FROM ({}) v;\n", query.replace('\n', " ")).repeat(times);
    let script = format!(
        "SET max_parallel_workers_per_gather = 0;\nSELECT pg_backend_pid() AS pid \\gset\n\\setenv BACKEND :pid\n{clock}{each}{clock}"
    );
    let lines = site.script(&script)?;
    let clock = |line: &str| line.strip_prefix("clock ")?.split(' ').next()?.parse::<f64>().ok();
    let all: Vec<f64> = lines.lines().filter_map(clock).collect();
    let [first, last] = all[..] else { anyhow::bail!("no times of {query}: {lines}") };
    Ok(last - first)
}

fn report(lines: &[Line], compared: Compared) -> bool {
    let mut is_met = true;
    for (what, figure) in
        [("cold", (|times: &Times| times.cold) as fn(&Times) -> f64), ("warm", |times| times.warm)]
    {
        let mut all: Vec<(Figures, &Line)> = lines.iter().map(|line| (line.figures(figure), line)).collect();
        all.sort_by(|one, other| other.0.ratio.total_cmp(&one.0.ratio));
        let matters = |one: &Figures| (one.new - one.old).abs() > LEAST_DIFFERENCE;
        let slower = |one: &Figures| match compared {
            Compared::Builds => one.interval[0] > 1.0 + TOLERANCE && matters(one),
            Compared::History => one.ratio > HISTORY_GOAL && matters(one),
        };
        let faster = |one: &Figures| one.interval[1] < 1.0 - TOLERANCE && matters(one);
        let sum = |figure: fn(&Figures) -> f64| all.iter().map(|(one, _)| figure(one)).sum::<f64>() / 1e6;
        println!(
            "{what}: {} requests, {:.1} ms of processor time in the {}, {:.1} ms in the {}; {} faster, {} slower",
            all.len(),
            sum(|one| one.old),
            if compared == Compared::Builds { "old build" } else { "first hours" },
            sum(|one| one.new),
            if compared == Compared::Builds { "new one" } else { "months of history" },
            all.iter().filter(|(one, _)| faster(one)).count(),
            all.iter().filter(|(one, _)| slower(one)).count()
        );
        for (one, line) in all.iter().filter(|(one, _)| slower(one) || faster(one)) {
            let verdict = if slower(one) { "slower" } else { "faster" };
            println!(
                "  {verdict} {:.2} ({:.2} to {:.2}): {:.2} ms is {:.2} ms: {:.160}",
                one.ratio,
                one.interval[0],
                one.interval[1],
                one.old / 1e6,
                one.new / 1e6,
                line.name()
            );
        }
        is_met &= !all.iter().any(|(one, _)| slower(one));
    }
    is_met
}
