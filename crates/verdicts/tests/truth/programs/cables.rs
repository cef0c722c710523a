//! The links on a program's way, at one switch: of one speed or of two, and one of them slower, damaged, or neither.

use super::Program;
use crate::truth::Allowed;
use fastrand::Rng;
use std::collections::BTreeSet;
use throughline_verdicts::Kind;
use throughline_verdicts::evidence::{Contribution, Link, LinkWindow, Peers};

/// Part of what a link carries that it has left with fewer lanes (a quarter, a half), or one or two steps of speed lower
/// (HDR for NDR, EDR for HDR: a half; FDR for EDR: 0.55; FDR10 for FDR: 0.73).
const LEFT: [f64; 4] = [0.25, 0.5, 0.55, 0.73];

/// What is wrong with the first link.
enum Damage {
    Nothing,
    /// Runs at this part of its speed.
    Slow(f64),
    /// Errors a packet.
    Errors(f64),
}

impl Damage {
    fn any(rng: &mut Rng) -> Self {
        match rng.u32(0..5) {
            0 | 1 => Damage::Slow(LEFT[rng.usize(0..LEFT.len())]),
            2 | 3 => Damage::Errors(10_f64.powf(-7.0 + 4.0 * rng.f64())),
            _ => Damage::Nothing,
        }
    }
}

/// One link of the job, with the values that its verdict should be made from.
fn link(rng: &mut Rng, number: usize, speeds: &[f64], damage: &Damage) -> (Link, f64, u64) {
    let speed = speeds[number];
    let used = 0.6 * rng.f64();
    let message = f64::from(256_u32 << rng.u32(0..5));
    let (seconds, windows) = (10.0, 6.0);
    let bytes = used * speed * seconds;
    let estimated = bytes * (0.95 + 0.1 * rng.f64());
    let own = Contribution {
        name: "alltoall".into(),
        job: None,
        bytes: estimated,
        low: estimated * 0.95,
        high: estimated * 1.05,
    };
    let window = |of: u32| LinkWindow {
        from_ms: i64::from(of) * 10_000,
        seconds,
        counted: bytes,
        own: vec![own.clone()],
        ..LinkWindow::default()
    };
    let packets = (bytes * windows / message) as u64;
    // A few bits are wrong on each link.
    let rate = if let Damage::Errors(rate) = damage { *rate } else { 0.0 };
    let errors = (packets as f64 * rate * (0.9 + 0.2 * rng.f64())) as u64 + rng.u64(0..3);
    let link = Link {
        name: format!("link {number}"),
        bytes_per_second: speed,
        peers: Peers::of(speed, speeds),
        errors: Some(errors),
        packets: Some(packets),
        windows: (0..windows as u32).map(window).collect(),
    };
    (link, used, errors)
}

/// Whether it must (`Some(true)`), may (`None`) or must not be said.
fn is_right(damage: &Damage, used: f64, errors: u64, is_mixed: bool) -> Option<bool> {
    if used < 0.04 {
        return Some(false);
    }
    let is = match damage {
        Damage::Nothing => Some(false),
        // Beside links that are as slow by design it can't be known.
        Damage::Slow(_) => (!is_mixed).then_some(true),
        Damage::Errors(rate) => match (*rate, errors) {
            (rate, errors) if rate > 1.3e-5 && errors >= 130 => Some(true),
            (rate, errors) if rate < 0.7e-5 || errors < 70 => Some(false),
            _ => None,
        },
    };
    is.filter(|is| !*is || used > 0.06)
}

/// Puts links of a switch on a program's way, the first of them with a fault or not.
pub fn on_its_way(
    program: &mut Program,
    has_fault: bool,
    expected: &mut Vec<(Kind, BTreeSet<String>)>,
    allowed: &mut Allowed,
) {
    let rng = &mut program.rng;
    let damage = if has_fault { Damage::any(rng) } else { Damage::Nothing };
    let speed = [6.25e9, 1.25e10, 2.5e10, 5e10][rng.usize(0..4)];
    let links = rng.usize(3..41);
    // One switch in six has older nodes, some chassis of four of them, wherever they are plugged in.
    let is_mixed = links >= 8 && rng.u32(0..6) == 0;
    let older = if is_mixed { 4 * rng.usize(1..links / 4) } else { 0 };
    let mut speeds: Vec<f64> =
        (0..links).map(|number| if number < older { speed * 0.5 } else { speed }).collect();
    rng.shuffle(&mut speeds);
    if let Damage::Slow(left) = damage {
        speeds[0] *= left;
    }
    let used = rng.usize(1..4).min(speeds.len());
    for number in 0..used {
        let what = if number == 0 { &damage } else { &Damage::Nothing };
        let (link, used, errors) = link(&mut program.rng, number, &speeds, what);
        match is_right(what, used, errors, is_mixed) {
            Some(true) => expected.push((Kind::SlowLink, [link.name.clone()].into())),
            Some(false) => {}
            None => {
                allowed.entry(Kind::SlowLink).or_default().insert(link.name.clone());
            }
        }
        program.evidence.links.push(link);
    }
}
