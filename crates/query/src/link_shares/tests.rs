//! Contributors put together over windows, and what is listed of them.

use super::*;

fn part(bytes: i64) -> Part {
    Part { bytes, low: bytes - 1, high: bytes * 3, kind: 0, is_bound: false }
}

#[test]
fn steps_are_whole_windows() {
    let none = Source::default();
    let hour = grid(1_767_225_600_000, 1_767_229_200_000, 300, &none);
    assert_eq!((hour.step, hour.steps), (20_000, 180));
    assert_eq!(grid(5_000, 25_000, 300, &none), Grid { from: 0, step: 10_000, steps: 3 });
    for points in [1, 7, 300] {
        for length in [1, 10_000, 86_400_000, 40_000_000_000] {
            let grid = grid(123_456, 123_456 + length, points, &none);
            assert!(grid.step % 10_000 == 0 && grid.from <= 123_456, "{grid:?}");
            assert!(grid.steps <= points.max(2) && grid.to() >= 123_456 + length, "{points} {grid:?}");
        }
    }
}

#[test]
fn small_contributors_are_summed_and_nothing_is_more_than_all() {
    let who = |contributor: &str, name: Option<&str>, job| ContributorKey {
        contributor: contributor.into(),
        job,
        operation: job.map(|_| "alltoall".into()),
        name: name.map(str::to_owned),
    };
    let parts = [
        (who("rest", None, None), part(40)),
        (who("job", None, Some(7)), part(550)),
        (who("host", Some("n07"), None), part(400)),
        (who("host", Some("n08"), None), part(9)),
        (who("other", None, None), part(1)),
    ];
    let parts = parts.into_iter().map(|(who, part)| (who, (part, vec![part.bytes]))).collect();
    let steps = vec![Step { windows: 1, counted_windows: 1, counted: Some(1000) }];
    let sent =
        PortTraffic { windows: 1, counted_windows: 1, counted: Some(1000), peak: Some(1000), steps, parts };
    let alice = JobLabel {
        key: "slurm:4711.0@1".into(),
        user: Some("alice".into()),
        name: None,
        native_id: Some("4711".into()),
    };
    let listed = contributors(&sent, &HashMap::from([(7, alice)]), true);
    let labels: Vec<&str> = listed.iter().map(|one| one.label.as_str()).collect();
    assert_eq!(
        labels,
        [
            "alltoall of job 4711 (alice)",
            "unmonitored host n07",
            "others, each below 1 %",
            "rest: nobody known"
        ]
    );
    assert_eq!(listed.iter().map(|one| one.figures.bytes).sum::<i64>(), 1000);
    assert_eq!(listed[0].figures.high_share, Some(1.0));
    assert_eq!((listed[2].figures.bytes, listed[2].series[0]), (10, Some(1.0)));
    assert_eq!(utilisation(Some(1000), 1, 50), (true, Some(1.0)));
    assert_eq!(utilisation(Some(1000), 1, 200), (false, Some(0.5)));
    assert_eq!((utilisation(None, 0, 200), rate(5, 0)), ((false, None), None));
}

#[test]
fn shares_are_of_all_where_a_window_was_not_counted() {
    let who =
        |contributor: &str| ContributorKey { contributor: contributor.into(), ..ContributorKey::default() };
    let both = Part { bytes: 900, low: 800, high: 950, ..Part::default() };
    let mut sent = PortTraffic {
        windows: 2,
        counted_windows: 1,
        counted: Some(500),
        parts: BTreeMap::from([(who("job"), (both, Vec::new())), (who("rest"), (part(100), Vec::new()))]),
        ..PortTraffic::default()
    };
    let shares = |sent: &PortTraffic| -> Vec<Option<f64>> {
        contributors(sent, &HashMap::new(), false).iter().map(|one| one.figures.share).collect()
    };
    assert_eq!(shares(&sent), [Some(0.9), Some(0.1)]);
    assert_eq!(utilisation(sent.counted, sent.counted_windows, 100), (false, Some(0.5)));
    sent.counted = None;
    assert_eq!(shares(&sent), [None, None]);
}
