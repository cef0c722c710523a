//! Clocks with known faults, compared with known errors.

use super::*;

const SECOND: i64 = 1_000_000_000;
const MS: i64 = 1_000_000;

/// What a faulty clock shows at a true time.
#[derive(Clone, Copy)]
struct Faulty {
    offset: i64,
    drift_ppm: f64,
    step: i64,
    step_at: i64,
}

impl Faulty {
    fn shows(&self, time: i64) -> i64 {
        let drift = (time as f64 * self.drift_ppm * 1e-6) as i64;
        time + self.offset + drift + if time >= self.step_at { self.step } else { 0 }
    }

    /// Comparisons once a second, each wrong by up to its bound.
    fn compared(&self, seconds: i64) -> Vec<Point> {
        let errors = [900, -1500, 300, 1900, -700, 0, 1200];
        (0..=seconds)
            .map(|at| {
                let time = at * SECOND;
                let error = errors[usize::try_from(at).unwrap() % errors.len()];
                let clock = self.shows(time);
                Point { number: at, clock, offset: time - clock + error, uncertainty: 2000 }
            })
            .collect()
    }
}

#[test]
fn offset_and_drift_are_taken_out() {
    for (offset, drift_ppm) in [(50 * MS, 50.0), (-50 * MS, -50.0), (0, 0.0), (3 * SECOND, 120.0)] {
        let clock = Faulty { offset, drift_ppm, step: 0, step_at: i64::MAX };
        let alignment = Alignment::new(clock.compared(20));
        assert_eq!(alignment.steps, [], "{offset} {drift_ppm}");
        for time in (0..20_000).map(|ms| ms * MS) {
            let aligned = alignment.align(clock.shows(time));
            assert!((aligned.time - time).abs() <= 2001, "{time}: {aligned:?}");
            assert!(aligned.error >= (aligned.time - time).abs() - 1 && !aligned.is_stepped);
        }
        // Beyond the comparisons the drift goes on.
        let late = alignment.align(clock.shows(25 * SECOND));
        assert!((late.time - 25 * SECOND).abs() < late.error, "{late:?}");
    }
}

#[test]
fn a_step_is_marked_and_hurts_only_around_itself() {
    for step in [5 * MS, -5 * MS] {
        let clock = Faulty { offset: 50 * MS, drift_ppm: 50.0, step, step_at: 7 * SECOND + 300 * MS };
        let alignment = Alignment::new(clock.compared(20));
        let [found] = alignment.steps[..] else { panic!("{:?}", alignment.steps) };
        let (from, to) = (found.from, found.to);
        for (start, end, is_in) in [
            (from - 9, from - 1, false),
            (from - 9, from + 1, true),
            (from - 9, to + 9, true),
            (to - 1, to + 9, true),
            (to + 1, to + 9, false),
        ] {
            assert_eq!(alignment.has_step(start, end), is_in, "{start} to {end} of {found:?}");
        }
        assert!((found.jump - step).abs() < 30_000, "{found:?}");
        assert!(found.from < clock.shows(clock.step_at) && clock.shows(clock.step_at) <= found.to);
        for time in (0..20_000).map(|ms| ms * MS) {
            let aligned = alignment.align(clock.shows(time));
            let wrong = (aligned.time - time).abs();
            assert!(wrong <= aligned.error, "{time}: {aligned:?}");
            assert!(wrong <= 2001 || aligned.is_stepped, "{time}: {aligned:?}");
            assert_eq!(aligned.is_stepped, (7000..8000).contains(&(time / MS)) || time == 8 * SECOND);
        }
    }
}

#[test]
fn poor_comparisons_are_left_out() {
    let clock = Faulty { offset: 50 * MS, drift_ppm: 10.0, step: 0, step_at: i64::MAX };
    let mut points = clock.compared(20);
    points[5].offset += 3 * MS;
    points[5].uncertainty = 4 * MS;
    let alignment = Alignment::new(points);
    assert_eq!((alignment.comparisons(), alignment.steps.len()), (20, 0));
    assert!((alignment.align(clock.shows(5 * SECOND)).time - 5 * SECOND).abs() <= 2001);
}

/// A busy node: seven comparisons in eight are poor, each to one side, and the slopes between them are nonsense.
#[test]
fn good_comparisons_outweigh_many_poor_ones() {
    for drift_ppm in [50.0, -50.0] {
        let clock = Faulty { offset: -50 * MS, drift_ppm, step: 5 * MS, step_at: 20 * SECOND + 300 * MS };
        let mut points = clock.compared(40);
        for (at, point) in points.iter_mut().enumerate().filter(|(at, _)| at % 8 != 0) {
            let bound = 300_000 + 40_000 * i64::try_from(at % 7).unwrap();
            point.offset += if at % 3 == 0 { bound } else { -bound } * 9 / 10;
            point.uncertainty = bound;
        }
        let alignment = Alignment::new(points);
        assert!((alignment.drift_ppm() + drift_ppm).abs() < 2.0, "{}", alignment.drift_ppm());
        assert_eq!(alignment.steps.len(), 1, "{:?}", alignment.steps);
        for time in (0..40_000).map(|ms| ms * MS) {
            let aligned = alignment.align(clock.shows(time));
            let wrong = (aligned.time - time).abs();
            assert!(wrong <= aligned.error, "{time}: {aligned:?}");
            assert!(wrong <= 30_000 || aligned.is_stepped, "{time}: {wrong} {aligned:?}");
            assert!(!aligned.is_stepped || (16..=24).contains(&(time / SECOND)), "{time}");
        }
    }
}

/// No comparison is good: what they say of the drift is nonsense, and no reason to see steps.
#[test]
fn poor_comparisons_are_no_steps() {
    let clock = Faulty { offset: 3 * MS, drift_ppm: 0.0, step: 0, step_at: i64::MAX };
    let mut points = clock.compared(20);
    for (at, point) in points.iter_mut().enumerate() {
        point.offset += if at % 2 == 0 { 190_000 } else { -190_000 };
        point.uncertainty = 200_000;
    }
    let alignment = Alignment::new(points);
    assert_eq!(alignment.steps, []);
    for time in (0..20_000).map(|ms| ms * MS) {
        let aligned = alignment.align(clock.shows(time));
        assert!((aligned.time - time).abs() <= aligned.error, "{time}: {aligned:?}");
    }
}

/// A drift that changes within the tolerance is within the bound that is stated.
#[test]
fn a_drift_that_changes_is_within_the_bound() {
    let shows = |time: i64| time + 15 * (time - 10 * SECOND - 500 * MS).max(0) / 1_000_000;
    let points = (0..=20).map(|at| {
        let (time, clock) = (at * SECOND, shows(at * SECOND));
        Point { number: at, clock, offset: time - clock, uncertainty: 1000 }
    });
    let alignment = Alignment::new(points.collect());
    assert_eq!(alignment.steps, []);
    for time in (0..20_000).map(|ms| ms * MS) {
        let aligned = alignment.align(shows(time));
        assert!((aligned.time - time).abs() <= aligned.error, "{time}: {aligned:?}");
    }
}

#[test]
fn few_comparisons_are_used_as_they_are() {
    assert_eq!(Alignment::new(vec![]).align(77), AlignedTime { time: 77, error: 0, is_stepped: false });
    let one = Point { number: 0, clock: 1000, offset: -50, uncertainty: 7 };
    let alone = Alignment::new(vec![one]);
    assert_eq!(alone.align(1100), AlignedTime { time: 1050, error: 7, is_stepped: false });
    // A step between the only two is seen, as no clock drifts like that.
    let other = Point { number: 1, clock: SECOND, offset: 5 * MS, uncertainty: 7 };
    assert_eq!(Alignment::new(vec![other, one]).steps.len(), 1);
}
