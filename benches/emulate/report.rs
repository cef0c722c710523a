//! What is printed and written of compared windows.

use super::compare::{self, GOAL, Summary, Who, Window};
use super::{Compared, Kind, START_SECONDS, Step, WINDOW_SECONDS};
use std::collections::BTreeMap;

/// All windows, a line each: bytes by contributor, true and said.
pub fn table(windows: &[Compared]) -> String {
    let names = ["first", "second", "stranger", "other"];
    let mut text = String::from("end,direction,capacity,counted,unreported");
    names.iter().for_each(|name| text.push_str(&format!(",{name}_true,{name}_said")));
    text.push('\n');
    for (end, direction, window) in windows {
        let Window { capacity, counted, unreported, .. } = window;
        text.push_str(&format!("{end:.0},{direction},{capacity:.0},{counted:.0},{unreported:.0}"));
        for who in compare::ALL {
            let of = |bytes: &BTreeMap<Who, f64>| bytes.get(&who).copied().unwrap_or(0.0);
            text.push_str(&format!(",{:.0},{:.0}", of(&window.truth), of(&window.said)));
        }
        text.push('\n');
    }
    text
}

/// Prints the tables; whether every goal is met.
pub fn report(steps: &[Step], windows: &[Compared], is_verbose: bool) -> bool {
    println!(
        "{:<10} {:<26} {:<26} {:>7} {:>5} {:>6} {:>6} {:>6} {:>9} {:>7} {:>7} {:>8} {:>9}",
        "kind",
        "first job",
        "second job",
        "windows",
        "late",
        "mean",
        "95 %",
        "worst",
        "stranger",
        "nobody",
        "sum",
        "counter",
        "goal"
    );
    let mut is_good = true;
    let mut all: BTreeMap<&str, Vec<&Window>> = BTreeMap::new();
    for step in steps {
        let inside =
            |time: &f64| time - WINDOW_SECONDS as f64 >= step.begin + START_SECONDS && *time <= step.end;
        let own: Vec<&Compared> = windows.iter().filter(|(time, ..)| inside(time)).collect();
        let kind = if step.kind == Kind::Measured { "measured" } else { "modelled" };
        let of = |(name, bytes): (&str, u32)| format!("{name} {} KiB", bytes >> 10);
        let compared: Vec<&Window> = own.iter().map(|(.., window)| window).collect();
        let summary = Summary::of(compared.iter().copied());
        is_good &= row(kind, &of(step.operations[0]), &of(step.operations[1]), &summary);
        all.entry(kind).or_default().extend(compared);
        if is_verbose {
            own.iter().for_each(|(time, name, window)| show_window(*time, name, window));
        }
    }
    for (kind, compared) in all {
        row(kind, "all", "", &Summary::of(compared));
    }
    let edges = Summary::of(windows.iter().map(|(.., window)| window));
    row("all", "with starts and ends", "", &edges);
    println!(
        "Errors in points of what a direction carried in a window of 10 s; directions above 20 % of their speed; goal: {} points.\n\
         nobody: mean of what nobody known and hosts of no sender have too much;\n\
         late: windows whose counters were read late (off by more than {} %), not compared; undecided: too many of them",
        GOAL * 100.0,
        compare::LATE * 100.0
    );
    is_good
}

fn row(kind: &str, first: &str, second: &str, summary: &Summary) -> bool {
    let points = |value: f64| format!("{:.1}", value * 100.0);
    let is_good = summary.meets_goals();
    println!(
        "{kind:<10} {first:<26} {second:<26} {:>7} {:>5} {:>6} {:>6} {:>6} {:>9} {:>7} {:>7} {:>8} {:>9}",
        summary.windows,
        summary.late,
        points(summary.mean),
        points(summary.most),
        points(summary.worst),
        points(summary.stranger),
        format!("{:+.1}", summary.nobody * 100.0),
        format!("{:.2}", summary.sum * 100.0),
        points(summary.counter),
        match (is_good, summary.is_decided()) {
            (true, _) => "met",
            (false, true) => "missed",
            (false, false) => "undecided",
        },
    );
    is_good
}

fn show_window(time: f64, name: &str, window: &Window) {
    let is_late = window.counter_error().abs() > compare::LATE;
    if window.load() < compare::LOADED || (window.worst() <= GOAL && !is_late) {
        return;
    }
    let part = |bytes: f64, all: f64| format!("{:.1}", 100.0 * bytes / all.max(1.0));
    let truth: f64 = window.truth.values().sum();
    let side = |bytes: &BTreeMap<Who, f64>, all: f64| {
        let parts = compare::ALL.iter().map(|who| part(bytes.get(who).copied().unwrap_or(0.0), all));
        parts.collect::<Vec<_>>().join(" / ")
    };
    println!(
        "  {time:.0} {name}: load {:.0} %, counted {:+.1} %, true {}, said {}, of it hosts of jobs {}",
        window.load() * 100.0,
        window.counter_error() * 100.0,
        side(&window.truth, truth),
        side(&window.said, window.counted),
        part(window.unreported, window.counted),
    );
}
