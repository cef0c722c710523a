//! What is promised: MADs per second, and to pause for the subnet manager.

use super::scripted::{Behaviour, Bench};
use super::settings;
use crate::engine::{Backpressure, Budget, Settings};
use crate::transport::Class;
use std::time::{Duration, Instant};

fn most_in_a_second(sent: &[(Instant, u16)]) -> usize {
    let second = Duration::from_secs(1);
    sent.iter()
        .enumerate()
        .map(|(first, (start, _))| sent.partition_point(|(at, _)| *at < *start + second) - first)
        .max()
        .unwrap_or(0)
}

/// Repetitions and probes are MADs like others.
#[test]
fn no_second_holds_more_mads_than_promised() {
    for per_second in [7, 500, 4000] {
        let budget: &'static Budget = Box::leak(Box::new(Budget::new(per_second)));
        let behaviour: Vec<(u16, Behaviour)> = (1..=per_second as u16 / 4)
            .map(|lid| (lid * 2, if lid % 3 == 0 { Behaviour::Never } else { Behaviour::Lossy(200) }))
            .collect();
        let settings = Settings { budget: Some(budget), ..settings(32, 2) };
        let mut bench = Bench::new(settings, per_second as u16, &behaviour);
        for _ in 0..3 {
            bench.round(2);
        }
        let script = bench.fabric.script();
        let most = most_in_a_second(&script.sent);
        assert!(most <= per_second as usize, "{most} of {per_second}");
        let mean = script.sent.len() as f64 / script.elapsed().as_secs_f64();
        assert!(mean > 0.7 * f64::from(per_second), "{mean} of {per_second} are used");
        drop(script);
        assert!(bench.engine.stats().paced > 0);
    }
}

/// Both classes draw from one budget: each engine in its turn, on its own fabric with the same clock.
#[test]
fn engines_share_the_promise() {
    let budget: &'static Budget = Box::leak(Box::new(Budget::new(1000)));
    let shared = |class| Settings { budget: Some(budget), ..settings(16, 2) }.for_class(class);
    let mut first = Bench::new(shared(Class::Performance), 100, &[]);
    let mut second = Bench::new(shared(Class::Management), 100, &[]);
    let mut sent = Vec::new();
    for _ in 0..10 {
        first.round(2);
        let now = first.fabric.script().now;
        second.fabric.script().now = now;
        second.round(2);
        let now = second.fabric.script().now;
        first.fabric.script().now = now;
    }
    for bench in [&first, &second] {
        sent.extend_from_slice(&bench.fabric.script().sent);
    }
    sent.sort_unstable();
    assert_eq!(sent.len(), 4000);
    let most = most_in_a_second(&sent);
    assert!((800..=1000).contains(&most), "{most}");
}

#[test]
fn subnet_management_gives_way() {
    let mut bench = Bench::new(Settings::default().for_class(Class::Management), 100, &[]);
    bench.round(10);
    assert!(bench.fabric.script().most_waiting > 8);
    let hint = Backpressure::default();
    bench.engine.follow(hint.clone());
    hint.set(true);
    {
        let mut script = bench.fabric.script();
        (script.most_waiting, script.sent) = (0, Vec::new());
    }
    bench.round(20);
    let script = bench.fabric.script();
    assert!(script.most_waiting <= 2, "{}", script.most_waiting);
    assert!(most_in_a_second(&script.sent) <= 1000);
    drop(script);
    hint.set(false);
    let (_, _, elapsed) = bench.round(20);
    assert!(elapsed < Duration::from_millis(100), "{elapsed:?}");
}

#[test]
fn other_classes_take_no_notice() {
    let mut bench = Bench::new(settings(32, 2), 100, &[]);
    bench.engine.yield_to_sm(true);
    let (_, _, elapsed) = bench.round(20);
    assert!(elapsed < Duration::from_millis(10), "{elapsed:?}");
}
