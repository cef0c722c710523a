//! `sweep --plan`: what the daemon's sweep plan costs on this fabric, before it runs.

use super::FabricOptions;
use super::source::{DiscoveryNeeds, Source};
use std::io::Write;
use std::process::ExitCode;
use throughline_crawler::run::config::Config;
use throughline_crawler::sweep::plan::{Cost, costs};
use throughline_crawler::sweep::{ClockPoint, Sweeper};
use throughline_crawler::transport::Class;
use throughline_daemon::Failure;
use throughline_infiniband::topology::aligned;

/// Prints the costs by class; with `json` one document.
///
/// # Errors
/// No device, no permission, no answer.
pub fn run(fabric: &FabricOptions, config: &Config, json: bool) -> anyhow::Result<ExitCode> {
    let stop = super::stop::on_signals()?;
    let source = super::source::open(fabric)?;
    let topology = source.discover(DiscoveryNeeds::default(), &stop)?.topology;
    let sweep = &config.sweep;
    let plan = sweep.plan();
    let Source::Live(live) = &source else {
        return Err(Failure::usage("a plan's cost is read from the fabric itself: leave --saved out").into());
    };
    let mut engine = super::fabric::engine(&live.port, Class::Performance, live.settings)?;
    let selection = sweep.selection();
    let level = config.mad.service_level.0;
    let chosen = |node: &_| sweep.class_of(node);
    let mut sweeper = Sweeper::choosing(&mut engine, &topology, level, selection, &chosen, None);
    // One round of all: then it is known what each node has.
    let all = |_: usize, class: u8| {
        plan.classes.get(usize::from(class)).map_or_else(Default::default, |class| class.fast | class.slow)
    };
    let coverage = sweeper.sweep_due(&mut engine, ClockPoint::now(), stop.flag(), all)?;
    let costs = costs(&plan, &sweeper);
    let mut out = std::io::stdout().lock();
    let tick = plan.tick.as_secs_f64();
    if json {
        let classes: Vec<_> = costs
            .iter()
            .zip(&plan.classes)
            .enumerate()
            .map(|(place, (cost, class))| {
                serde_json::json!({
                    "class": sweep.class_name(place), "nodes": cost.nodes, "ports": cost.ports,
                    "fast": class.fast, "fast_interval_seconds": tick * f64::from(class.fast_every),
                    "fast_requests": cost.fast_requests,
                    "slow": class.slow, "slow_interval_seconds": tick * f64::from(class.slow_every),
                    "slow_requests": cost.slow_requests,
                    "requests_per_second": cost.requests_per_second,
                    "wire_bytes_per_second": cost.bytes_per_second(),
                })
            })
            .collect();
        let seconds = coverage.elapsed.as_secs_f64();
        writeln!(out, "{}", serde_json::json!({"classes": classes, "all_sets_once_seconds": seconds}))?;
        return Ok(ExitCode::SUCCESS);
    }
    let heading = [
        "NODES OF CLASS",
        "NODES",
        "PORTS",
        "FAST",
        "EACH",
        "REQUESTS",
        "SLOW",
        "EACH",
        "REQUESTS",
        "REQUESTS/S",
        "BYTES/S",
    ];
    let mut rows = vec![heading.map(str::to_owned)];
    let mut total = Cost::default();
    for (place, (cost, class)) in costs.iter().zip(&plan.classes).enumerate() {
        let each = |every: u32| format!("{} s", tick * f64::from(every));
        rows.push([
            sweep.class_name(place),
            cost.nodes.to_string(),
            cost.ports.to_string(),
            class.fast.to_string(),
            each(class.fast_every),
            cost.fast_requests.to_string(),
            class.slow.to_string(),
            each(class.slow_every),
            cost.slow_requests.to_string(),
            format!("{:.0}", cost.requests_per_second),
            format!("{:.0}", cost.bytes_per_second()),
        ]);
        total.requests_per_second += cost.requests_per_second;
    }
    out.write_all(aligned(&rows).as_bytes())?;
    writeln!(
        out,
        "\nEach request has a reply; both cross every link on the way, over QP1 and the data VL of service level {level}."
    )?;
    writeln!(
        out,
        "On the crawler's own link: {:.0} requests and {:.0} bytes a second, both directions together. A round of all sets took {:.3} s just now.",
        total.requests_per_second,
        total.bytes_per_second(),
        coverage.elapsed.as_secs_f64()
    )?;
    Ok(ExitCode::SUCCESS)
}
