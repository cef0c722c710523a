//! Thinned samples against all of them, by a model of what Prometheus makes of them.

use super::*;

const SECOND: i64 = 1000;
const DAY: i64 = 24 * HOUR;

/// xorshift64*: the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: i64) -> i64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % bound.cast_unsigned()).cast_signed()
    }

    fn one_of(&mut self, all: &[i64]) -> i64 {
        all[usize::try_from(self.below(all.len() as i64)).unwrap()]
    }
}

/// `increase`, as promql/functions.go of Prometheus 2.42 and 3 has it: over samples of a closed range.
fn increase(points: &[(i64, f64)], (from, to): (i64, i64)) -> Option<f64> {
    increase_of(points, (from, to), from)
}

fn increase_of(points: &[(i64, f64)], (from, to): (i64, i64), begin: i64) -> Option<f64> {
    let within: Vec<_> = points.iter().filter(|point| (from..=to).contains(&point.0)).collect();
    let (first, last) = (within.first()?, within.last()?);
    if within.len() < 2 {
        return None;
    }
    let falls = within.windows(2).filter(|pair| pair[1].1 < pair[0].1).map(|pair| pair[0].1).sum::<f64>();
    let grown = last.1 - first.1 + falls;
    let sampled = (last.0 - first.0) as f64;
    let mean = sampled / (within.len() - 1) as f64;
    let near = |distance: f64| if distance < 1.1 * mean { distance } else { mean / 2.0 };
    let mut start = near((first.0 - begin) as f64);
    if grown > 0.0 && first.1 >= 0.0 {
        start = start.min(sampled * first.1 / grown);
    }
    Some(grown * (sampled + start + near((to - last.0) as f64)) / sampled)
}

/// A counter read each `interval`, a little late at times, that begins, pauses and ends within the time; now and then it begins anew.
fn series(random: &mut Random, time: i64, interval: i64) -> Vec<(i64, f64)> {
    let begin = random.below(time);
    let end = begin + random.below(time - begin) + 1;
    let pause = begin + random.below(end - begin);
    let pause_end = pause + random.one_of(&[0, 30 * SECOND, 10 * MINUTE, 3 * HOUR, DAY]);
    let late = random.one_of(&[1, 200, interval / 2]);
    let (mut points, mut value) = (Vec::new(), random.below(1_000_000_000) as f64);
    for scheduled in (begin..end).step_by(usize::try_from(interval).unwrap()) {
        // By the minute of the day: rates change, and none is nothing.
        let rate = 1.0 + (scheduled / MINUTE % 7) as f64 / 7.0;
        value += rate * interval as f64 * 12_500.0;
        if random.below(5_000) == 0 {
            value = random.below(1_000) as f64;
        }
        if !(pause..pause_end).contains(&scheduled) {
            points.push((scheduled + random.below(late), value));
        }
    }
    points.dedup_by_key(|point| point.0);
    points
}

fn worst(
    points: &[(i64, f64)],
    left: &[(i64, f64)],
    windows: impl Iterator<Item = (i64, i64)>,
    is_closed: bool,
) -> f64 {
    windows.fold(0.0, |worst, (from, to)| {
        let from_sample = from + i64::from(!is_closed);
        let (whole, thinned) =
            (increase_of(points, (from_sample, to), from), increase_of(left, (from_sample, to), from));
        match (whole, thinned) {
            (Some(whole), Some(thinned)) if whole > 0.0 => f64::max(worst, (thinned / whole - 1.0).abs()),
            (whole, thinned) => {
                assert_eq!(whole.is_some(), thinned.is_some(), "{from} {to}");
                worst
            }
        }
    })
}

#[test]
fn an_increase_is_that_of_all_samples_wherever_a_series_begins_pauses_or_ends() {
    let mut random = Random(39);
    let (mut off, mut read, mut kept) = (0.0, 0, 0);
    for round in 0..400 {
        let length = random.one_of(&[MINUTE, 5 * MINUTE, HOUR, 6 * HOUR, DAY, 2 * DAY]);
        let interval = random.one_of(&[SECOND, 5 * SECOND, 10 * SECOND, 60 * SECOND]);
        // Some 20,000 samples at most.
        let time = (length * 3).min(interval * 20_000);
        let points = series(&mut random, time, interval);
        let step = random.one_of(&[length / 7, length / 3, length, 15 * SECOND, 7001]).max(time / 2_000);
        let (is_new, start) = (random.below(2) == 1, random.below(time) / SECOND * SECOND);
        let is_subquery = random.below(3) == 0 && !is_new;
        let first = start + length;
        let selected = Range { from: start + i64::from(is_new), to: first + step * random.below(500) };
        let windows = RangeWindows::new(selected, step, length).unwrap();
        let left = windows.thin(&points);
        let begin = if is_subquery { (first + step - 1) / step * step } else { first };
        let ends = (begin..=selected.to).step_by(usize::try_from(step).unwrap());
        let error = worst(&points, &left, ends.map(|to| (to - length, to)), !is_new);
        assert!(error < 0.006, "round {round}: {error}");
        assert!(left.iter().all(|point| points.contains(point)));
        off = f64::max(off, error);
        (read, kept) = (read + points.len(), kept + left.len());
    }
    println!("at most {off}, {kept} samples of {read}");
    assert!(kept * 2 < read, "{kept} of {read}");
}

#[test]
fn a_range_that_a_series_fills_needs_few_samples_and_one_that_it_does_not_some_more() {
    let points: Vec<(i64, f64)> = (0..8_640).map(|n| (n * 10 * SECOND, n as f64 * 1e9)).collect();
    let kept = |from: i64, to: i64| {
        let windows = RangeWindows::new(Range { from, to }, 0, to - from).unwrap();
        let left = windows.thin(&points);
        let (whole, thinned) = (increase(&points, (from, to)).unwrap(), increase(&left, (from, to)).unwrap());
        assert!((thinned / whole - 1.0).abs() < 0.003, "{from} {to}: {whole} {thinned}");
        left.len()
    };
    assert!(kept(0, DAY) <= 6, "{}", kept(0, DAY));
    // A sixth of the range, and a hundredth.
    for times in [6, 100] {
        let some = kept(-times * DAY, DAY);
        assert!((DISTANCES..DISTANCES * 2 + 10).contains(&some), "{some}");
    }
}

#[test]
fn times_of_both_versions_of_prometheus_are_known() {
    let of = |from: i64, to: i64, step: i64| RangeWindows::new(Range { from, to }, step, HOUR);
    let range = |windows: RangeWindows| (windows.first, windows.end, windows.is_closed);
    assert_eq!(of(0, HOUR, 0).map(range), Some((HOUR, HOUR, true)));
    assert_eq!(of(5, HOUR + 4, 0).map(range), Some((HOUR + 4, HOUR + 4, false)));
    assert_eq!(of(0, 3 * HOUR, MINUTE).map(range), Some((HOUR, 3 * HOUR, true)));
    assert_eq!(of(1, 3 * HOUR, MINUTE).map(range), Some((HOUR, 3 * HOUR, false)));
    // Not at which times, too many of them, or less time than the range.
    for (to, step) in [(3 * HOUR, 0), (365 * DAY, 1), (MINUTE, MINUTE)] {
        assert_eq!(of(0, to, step), None);
    }
    assert!(of(0, 3 * HOUR, i64::MAX).is_some());
}

/// The last of each minute, as rollups have it.
fn minutes(points: &[(i64, f64)]) -> Vec<(i64, f64)> {
    let minute = |point: &(i64, f64)| (point.0 - 1).div_euclid(MINUTE);
    let mut last: Vec<(i64, f64)> = Vec::new();
    for point in points {
        match last.last_mut() {
            Some(before) if minute(before) == minute(point) => *before = *point,
            _ => last.push(*point),
        }
    }
    last
}

#[test]
fn long_ranges_over_minutes_have_the_readings_where_a_series_begins_or_ends() {
    let mut random = Random(7);
    let (mut read, mut all) = (0, 0);
    for round in 0..200 {
        let length = random.one_of(&[4 * HOUR, 6 * HOUR, DAY, 7 * DAY]);
        let interval = random.one_of(&[5 * SECOND, 10 * SECOND]);
        let time = (length * 2).min(interval * 50_000);
        let readings = series(&mut random, time, interval);
        let windows = RangeWindows::new(
            Range { from: -length, to: time + length },
            random.one_of(&[length / 5, HOUR]),
            length,
        );
        let windows = windows.unwrap();
        assert!(windows.takes_minutes());
        let mut points = minutes(&readings);
        let wanted = windows.wanted(&points);
        let is_wanted = |time: i64| wanted.iter().any(|range| (range.from..=range.to).contains(&time));
        let besides: Vec<_> = readings.iter().filter(|point| is_wanted(point.0)).copied().collect();
        (read, all) = (read + besides.len(), all + readings.len());
        points.extend(besides);
        points.sort_by_key(|point| point.0);
        points.dedup_by_key(|point| point.0);
        let left = windows.thin(&points);
        let ends = (0..=time + length).step_by(usize::try_from(windows.step).unwrap());
        let error = worst(&readings, &left, ends.map(|to| (to - length, to)), true);
        assert!(error < 0.01, "round {round}: {error}");
    }
    println!("{read} readings of {all}");
}
