//! Time bins are those of the calls, although ranks send once a second.

use crate::mpi::support::*;
use std::path::Path;
use std::process::Command;

const BIN_MS: i64 = 100;
/// By how much a bin may end beside its time: the rates of the two clocks are known better each second.
const SLACK_NS: i64 = 3_000_000;

/// Sums at each end of a bin lie between what the program knows to have ended before it and what began by then; bins in
/// which nothing was called are left out, and no bin is reported twice or in another order.
#[tokio::test(flavor = "multi_thread")]
async fn each_call_is_in_the_bin_in_which_it_ended() {
    let folder = tempfile::tempdir().unwrap();
    let source = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name);
    let (library, program) = (folder.path().join("libmpistub.so"), folder.path().join("bins"));
    succeeded(Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source("stub_mpi.c")));
    succeeded(Command::new("cc").arg("-o").arg(&program).arg(source("stub_bins.c")).arg(&library));
    let mut agent = Agent::start(&folder.path().join("socket"));
    let mut command = Command::new(&program);
    command.args(["4", &BIN_MS.to_string(), &SLACK_NS.to_string()]);
    command.env("LD_LIBRARY_PATH", folder.path()).env("THROUGHLINE_SOCKET", &agent.socket);
    command.env("LD_PRELOAD", plain_shim().join("libthroughline-mpich.so"));
    let output = agent.run(command, 1).await;
    assert!(output.status.success(), "{}", stderr(&output));
    let reported: Vec<(i64, u64)> = agent.observed.steps.iter().map(|step| (step.time, step.calls)).collect();
    assert!(
        reported.windows(2).all(|two| two[0].0 < two[1].0 && two[0].1 < two[1].1),
        "in order: {reported:?}"
    );
    let bin = BIN_MS * 1_000_000;
    let last = reported.len() - 1;
    assert!(
        reported[..last]
            .iter()
            .all(|(time, _)| (time + bin / 2).rem_euclid(bin).abs_diff(bin / 2) < 5_000_000),
        "bins end with whole parts of a second: {reported:?}"
    );
    let stdout = stdout(&output);
    let bounds = stdout.lines().map(|line| {
        let numbers: Vec<i64> = line.split_whitespace().map(|number| number.parse().unwrap()).collect();
        (numbers[0], numbers[1] as u64, numbers[2] as u64)
    });
    let total = stdout.lines().last().unwrap().split_whitespace().nth(1).unwrap().parse::<u64>().unwrap();
    assert_eq!(reported[last].1, total, "all of them in the end");
    let mut wrong = Vec::new();
    let mut checked = 0;
    for (end, least, most) in bounds {
        // What is reported last is as of the end of the program, which may lie just behind the end of a bin.
        let is_by_then = |(row, (time, _)): &(usize, &(i64, u64))| {
            *time <= end + if *row == last { SLACK_NS } else { bin / 2 }
        };
        let sum = reported.iter().enumerate().rev().find(is_by_then).map_or(0, |(_, reported)| reported.1);
        checked += 1;
        // A call whose thread was put aside between its end and its recording may be reported with the next bin.
        if sum + 1 < least || sum > most {
            wrong.push((end, least, sum, most));
        }
    }
    assert!(checked >= 30, "{checked} ends of bins");
    assert!(wrong.is_empty(), "end, least, reported, most: {wrong:?}");
}
