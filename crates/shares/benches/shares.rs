//! Shares of links on generated fabrics: their errors, and the time and memory of a window. `cargo bench -p
//! throughline-shares`, or with `errors [SEEDS]`, or `large [NAME]`, after `--`.
#![allow(clippy::unwrap_used, missing_docs, dead_code)]

#[path = "../tests/generator/mod.rs"]
mod generator;

use generator::errors::{Errors, at};
use generator::fabric::Shape;
use generator::{MEASURED, Options, Scene};
use peak_alloc::PeakAlloc;
use throughline_shares::estimate::{Kind, estimate};

const MODELLED: Options = Options { kind: Kind::Modelled, error: 0.06, ..MEASURED };

fn scenes() -> Vec<(&'static str, Options)> {
    vec![
        ("measured", MEASURED),
        ("measured, one stranger", Options { strangers: 1, ..MEASURED }),
        ("measured, three strangers", Options { strangers: 3, ..MEASURED }),
        ("measured, file systems", Options { file_systems: 2, ..MEASURED }),
        ("measured, file systems and strangers", Options { file_systems: 2, strangers: 2, ..MEASURED }),
        ("measured, a tenth unread", Options { strangers: 1, unread: 0.1, ..MEASURED }),
        ("modelled, one stranger", Options { strangers: 1, ..MODELLED }),
        ("modelled, three strangers", Options { strangers: 3, ..MODELLED }),
        (
            "logical within a factor of 2",
            Options { kind: Kind::Logical, error: 1.0, strangers: 1, ..MEASURED },
        ),
        ("adaptive", Options { is_adaptive: true, ..MEASURED }),
        ("adaptive, one stranger", Options { is_adaptive: true, strangers: 1, ..MEASURED }),
        ("adaptive, three strangers, modelled", Options { is_adaptive: true, strangers: 3, ..MODELLED }),
        ("two rails", Options { rails: 2, ..MEASURED }),
        ("two rails, one stranger", Options { rails: 2, strangers: 1, ..MEASURED }),
        (
            "two rails, adaptive, one stranger",
            Options { rails: 2, is_adaptive: true, strangers: 1, ..MEASURED },
        ),
    ]
}

fn errors(seeds: u64) {
    println!(
        "Shares of links that carry a fifth of their capacity or more, {seeds} fabrics each; errors in points of the link."
    );
    println!(
        "| scene | shares of jobs: median | 95 % | 99 % | of unreported senders: median | 95 % | 99 % | within bounds | width of bounds: median | 95 % |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    for (name, options) in scenes() {
        let errors = Errors::over(0..seeds, options);
        let three =
            |values: &[f64]| [0.5, 0.95, 0.99].map(|part| format!("{:.2}", at(values, part))).join(" | ");
        println!(
            "| {name} | {} | {} | {:.2} % | {:.1} | {:.1} |",
            three(&errors.jobs),
            three(&errors.strangers),
            errors.inside() * 100.0,
            at(&errors.widths, 0.5),
            at(&errors.widths, 0.95),
        );
    }
}

fn large() -> Vec<(&'static str, Options)> {
    let shape = |pods, leaves_a_pod, hosts_a_leaf, spines_a_pod, cores_a_spine| {
        Some(Shape {
            pods,
            leaves_a_pod,
            hosts_a_leaf,
            spines_a_pod,
            cores_a_spine,
            rails: 1,
            is_adaptive: false,
        })
    };
    let adaptive = |shape: Option<Shape>| shape.map(|shape| Shape { is_adaptive: true, ..shape });
    let small = shape(1, 84, 17, 18, 1);
    let big = shape(11, 26, 28, 14, 14);
    let options = Options { jobs: 200, largest: 512, strangers: 10, file_systems: 4, ..MEASURED };
    let many = Options { jobs: 1000, strangers: 40, file_systems: 10, ..options };
    vec![
        ("1428", Options { shape: small, ..options }),
        ("1428-adaptive", Options { shape: adaptive(small), ..options }),
        ("8008", Options { shape: big, ..many }),
        ("8008-adaptive", Options { shape: adaptive(big), ..many }),
    ]
}

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// Seconds that this thread has run on a core.
fn on_core() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e9
}

fn window(name: &str, options: Options) {
    let scene = Scene::new(1, options);
    let Scene { fabric, flows, counted, truth, wanted } = scene;
    // What the scene took to make is not what the estimate takes.
    let pairs: std::collections::HashSet<_> = flows.iter().map(|flow| (flow.from, flow.to)).collect();
    let pairs = pairs.len();
    MEMORY.reset_peak_usage();
    let before = MEMORY.current_usage_as_mb();
    let start = on_core();
    let shares = estimate(&fabric, &flows, &counted);
    let seconds = on_core() - start;
    let memory = f64::from(MEMORY.peak_usage_as_mb() - before);
    let mut errors = Errors::default();
    let number: usize = shares.iter().map(|link| link.shares.len()).sum();
    let (hosts, links) = (fabric.shape.hosts(), counted.len());
    let scene = Scene { fabric, flows, counted, truth, wanted };
    errors.add(&scene, &shares);
    errors.jobs.sort_by(f64::total_cmp);
    errors.strangers.sort_by(f64::total_cmp);
    println!(
        "| {name} | {hosts} | {} | {pairs} | {links} | {number} | {seconds:.2} s | {memory:.0} MB | {:.2} / {:.2} | {:.2} % |",
        scene.flows.len(),
        at(&errors.jobs, 0.95),
        at(&errors.strangers, 0.95),
        errors.inside() * 100.0,
    );
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let part = words.first().map_or("all", String::as_str);
    if matches!(part, "all" | "errors") {
        errors(words.get(1).and_then(|word| word.parse().ok()).unwrap_or(500));
    }
    if matches!(part, "all" | "large") {
        if let Some(name) = words.get(1).filter(|_| part == "large") {
            let all = large();
            let (name, options) = all.iter().find(|(known, _)| known == name).unwrap();
            return window(name, *options);
        }
        println!("\nOne window, one core; memory beyond the input.");
        println!(
            "| fabric | hosts | flows | pairs | links | shares | time | memory | error at 95 %: jobs / unreported, points | within bounds |"
        );
        println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
        // Each in a process of its own: peaks of memory do not mix.
        for (name, _) in large() {
            let itself = std::env::current_exe().unwrap();
            std::process::Command::new(itself).args(["large", name]).status().unwrap();
        }
    }
}
