//! What is wrong with the monitoring itself, in at most a handful of lines: the beginning of `status`.

use crate::text::{age, count, thousands};
use throughline_api::status::{ClockFault, Delivery, ReplicaState, Source, SourceState, Status};

/// Most names in a line.
const NAMES_MAX: usize = 3;

/// The lines; one where nothing is wrong, none where nothing has arrived yet.
pub fn lines(status: &Status) -> Vec<String> {
    let here: Vec<&Source> = status.sources.iter().filter(|source| !source.absent).collect();
    if here.is_empty() && status.delivery.is_empty() {
        return clock(status).into_iter().collect();
    }
    let mut lines: Vec<String> = clock(status).into_iter().chain(replica(status)).collect();
    lines.extend(clocks(status));
    let name = |source: &&Source| format!("{} of {}", source.source, source.instance);
    for (state, text) in [(SourceState::Down, "DOWN"), (SourceState::Silent, "SILENT")] {
        let such: Vec<String> = here.iter().filter(|source| source.state == state).map(name).collect();
        lines.extend(listed(&such, "source").map(|list| format!("{text}: {list}.")));
    }
    let daemons = |wrong: &dyn Fn(&&Delivery) -> bool| -> Vec<String> {
        status.delivery.iter().filter(wrong).map(|one| one.instance.clone()).collect()
    };
    let silent = daemons(&|one| one.is_silent);
    lines.extend(listed(&silent, "daemon").map(|list| format!("NO REPORT any more from {list}.")));
    let late = daemons(&|one| one.is_late);
    let most = status.delivery.iter().filter_map(|one| one.lag_seconds).fold(0.0, f64::max);
    lines.extend(
        listed(&late, "spool")
            .map(|list| format!("NOT DELIVERED: records wait for up to {} in {list}.", age(most))),
    );
    let lossy = daemons(&|one| one.records_discarded.is_some_and(|dropped| dropped > 0));
    let dropped: u64 = status.delivery.iter().filter_map(|one| one.records_discarded).sum();
    lines.extend(
        listed(&lossy, "full spool")
            .map(|list| format!("LOST: {} since the daemons' start, in {list}.", count(dropped, "record"))),
    );
    let rejected: u64 = status.rejected.iter().map(|one| one.records).sum();
    if rejected > 0 {
        lines
            .push(format!("REJECTED since yesterday: {} (below: whose and why).", count(rejected, "record")));
    }
    for (state, text) in [("overruled", "CLAIMS WHAT OTHERS REPORT"), ("contested", "CONTESTED")] {
        let such = status.contests.iter().filter(|one| one.state == state);
        let such: Vec<String> = such
            .map(|one| {
                let (ranks, jobs) = (count(one.ranks, "rank"), count(one.jobs, "job"));
                format!("{} ({ranks} of {jobs}, with {})", one.node, one.others.join(", "))
            })
            .collect();
        lines.extend(listed(&such, "node").map(|list| format!("{text}: {list}.")));
    }
    lines.extend(bypassed(status));
    if lines.is_empty() {
        let instances: std::collections::BTreeSet<&str> =
            here.iter().map(|source| source.instance.as_str()).collect();
        lines.push(format!(
            "Nothing is wrong: {} of {} report, all is delivered, nothing is lost or rejected.",
            count(here.len() as u64, "source"),
            count(instances.len() as u64, "origin"),
        ));
    }
    lines
}

/// Programs whose calls are not counted: the newest ones, with what to do.
fn bypassed(status: &Status) -> Vec<String> {
    let mut lines: Vec<String> = status
        .bypassed
        .iter()
        .take(NAMES_MAX)
        .map(|one| format!("NOT COUNTED on {}: {}.", one.node, one.text.trim_end_matches('.')))
        .collect();
    let more = status.bypassed.len().saturating_sub(NAMES_MAX) as u64;
    if more > 0 {
        let programs = count(more, "more program");
        lines.push(format!("NOT COUNTED: {programs} within the last hour (events of kind mpi.bypassed)."));
    }
    lines
}

/// A database whose clock is not believed.
fn clock(status: &Status) -> Option<String> {
    let clock = status.clock.as_ref()?;
    let remedy = clock.remedy.as_deref().unwrap_or("the log of throughline serve says more");
    Some(format!("NOTHING IS DROPPED, thinned or packed: {}; {remedy}.", clock.warning.as_deref()?))
}

/// Clocks that are off: a server's first, as its senders' are right then.
fn clocks(status: &Status) -> Vec<String> {
    let (servers, senders): (Vec<_>, Vec<_>) =
        status.clocks.iter().partition(|clock| clock.senders.is_some());
    let server = |clock: &&ClockFault| {
        let (alike, all) = (clock.senders_alike.unwrap_or(0), clock.senders.unwrap_or(0));
        format!(
            "SERVER'S CLOCK: that of {} is {} {alike} of {all} senders: it stores nothing, batches wait in their spools; \
             `chronyc makestep` there sets it.",
            clock.instance,
            distance(clock.offset_seconds, "ahead of")
        )
    };
    let mut lines: Vec<String> = servers.iter().map(server).collect();
    let sender = |clock: &&ClockFault| {
        format!("{}'s clock is {}", clock.instance, distance(clock.offset_seconds, "ahead"))
    };
    let such: Vec<String> = senders.iter().map(sender).collect();
    let list = listed(&such, "clock");
    lines.extend(list.map(|list| {
        format!("CLOCK: {list}: times are moved by as much; `chronyc tracking` there shows why.")
    }));
    lines
}

/// `300 s ahead`, `240 s behind`.
fn distance(ahead: f64, word: &str) -> String {
    if ahead > 0.0 { format!("{ahead:.0} s {word}") } else { format!("{:.0} s behind", -ahead) }
}

/// A replica that readers do not use.
fn replica(status: &Status) -> Option<String> {
    let replica = status.replica.as_ref().filter(|replica| replica.state != ReplicaState::Used)?;
    let word = match replica.state {
        ReplicaState::Behind => "BEHIND",
        ReplicaState::Away | ReplicaState::Used => "AWAY",
    };
    let reason = replica.reason.as_deref().unwrap_or("no reason is known");
    let requests = count(replica.fallbacks, "request");
    Some(format!("REPLICA {word}: {}: {reason}; readers use the primary ({requests} so far).", replica.place))
}

/// `a`, `a and b`, or `a, b, c and 9 more sources`; `None` of none.
fn listed(names: &[String], noun: &str) -> Option<String> {
    let shown = names.iter().take(NAMES_MAX).cloned().collect::<Vec<_>>().join(", ");
    match names.len() {
        0 => None,
        all if all <= NAMES_MAX => Some(shown),
        all => {
            let more = (all - NAMES_MAX) as u64;
            Some(format!("{shown} and {} more {noun}{}", thousands(more), if more == 1 { "" } else { "s" }))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_api::status::Rejected;

    fn source(instance: &str, state: SourceState, age: Option<f64>) -> Source {
        Source {
            source: "mad".into(),
            instance: instance.into(),
            state,
            age_seconds: age,
            ..Source::default()
        }
    }

    #[test]
    fn what_is_wrong_comes_first_and_by_name() {
        let names = ["a", "b", "c", "d"].map(|name| source(name, SourceState::Silent, Some(200.0)));
        let delivery = Delivery {
            instance: "n1".into(),
            age_seconds: Some(80.0),
            is_silent: true,
            lag_seconds: Some(300.0),
            is_late: true,
            records_discarded: Some(2000),
            ..Delivery::default()
        };
        let status = Status {
            sources: [source("n1", SourceState::Down, None)].into_iter().chain(names).collect(),
            delivery: vec![delivery],
            rejected: vec![Rejected { records: 1, ..Rejected::default() }],
            ..Status::default()
        };
        assert_eq!(
            lines(&status),
            [
                "DOWN: mad of n1.",
                "SILENT: mad of a, mad of b, mad of c and 1 more source.",
                "NO REPORT any more from n1.",
                "NOT DELIVERED: records wait for up to 5 min in n1.",
                "LOST: 2,000 records since the daemons' start, in n1.",
                "REJECTED since yesterday: 1 record (below: whose and why).",
            ]
        );
    }

    #[test]
    fn a_clock_that_is_not_believed_comes_first() {
        let clock = |warning: Option<&str>| throughline_api::status::DatabaseClock {
            state: "jumped".into(),
            warning: warning.map(str::to_owned),
            remedy: Some("set it right".into()),
            ..Default::default()
        };
        let status = |warning| Status {
            sources: vec![source("n1", SourceState::Down, None)],
            clock: Some(clock(warning)),
            ..Status::default()
        };
        assert_eq!(
            lines(&status(Some("it has moved 8 d 0 h"))),
            [
                "NOTHING IS DROPPED, thinned or packed: it has moved 8 d 0 h; set it right.",
                "DOWN: mad of n1."
            ]
        );
        assert_eq!(lines(&status(None)), ["DOWN: mad of n1."]);
    }

    #[test]
    fn clocks_that_are_off_are_named_and_the_servers_comes_first() {
        let clock = |instance: &str, offset_seconds, senders: Option<(u64, u64)>| ClockFault {
            instance: instance.into(),
            offset_seconds,
            senders_alike: senders.map(|senders| senders.0),
            senders: senders.map(|senders| senders.1),
        };
        let status = Status {
            sources: vec![source("n1", SourceState::Up, Some(1.0))],
            clocks: vec![
                clock("mgmt1", -240.4, Some((5, 6))),
                clock("n3", 300.2, None),
                clock("fab1", -12.0, None),
            ],
            ..Status::default()
        };
        let lines = lines(&status);
        assert!(
            lines[0].starts_with(
                "SERVER'S CLOCK: that of mgmt1 is 240 s behind 5 of 6 senders: it stores nothing"
            ),
            "{lines:?}"
        );
        assert!(
            lines[1].starts_with(
                "CLOCK: n3's clock is 300 s ahead, fab1's clock is 12 s behind: times are moved"
            ),
            "{lines:?}"
        );
        assert_eq!(lines.len(), 2);
    }

    #[test]
    fn programs_whose_calls_are_not_counted_are_named() {
        let program = |n: u64| throughline_api::status::BypassedProgram {
            node: "n1".into(),
            text: format!("calls of p{n} bypass the shim: link it"),
            time_ms: 0,
        };
        let mut status = Status {
            sources: vec![source("n1", SourceState::Up, Some(1.0))],
            bypassed: vec![program(0)],
            ..Status::default()
        };
        assert_eq!(lines(&status), ["NOT COUNTED on n1: calls of p0 bypass the shim: link it."]);
        status.bypassed.extend((1..5).map(program));
        let all = lines(&status);
        assert_eq!(
            (all.len(), all[2].as_str()),
            (4, "NOT COUNTED on n1: calls of p2 bypass the shim: link it.")
        );
        assert!(all[3].contains("2 more programs within the last hour"), "{all:?}");
    }

    #[test]
    fn a_replica_that_readers_do_not_use_is_named() {
        let replica = |state| throughline_api::status::Replica {
            place: "db2/x".into(),
            state,
            lag_seconds: Some(45.0),
            lag_seconds_max: 30.0,
            reason: Some("45 s behind the primary".into()),
            fallbacks: 1200,
        };
        let status = |state| Status {
            sources: vec![source("n1", SourceState::Up, Some(1.0))],
            replica: Some(replica(state)),
            ..Status::default()
        };
        assert_eq!(
            lines(&status(ReplicaState::Behind)),
            [
                "REPLICA BEHIND: db2/x: 45 s behind the primary; readers use the primary (1,200 requests so far)."
            ]
        );
        assert!(lines(&status(ReplicaState::Used))[0].starts_with("Nothing is wrong"));
    }

    #[test]
    fn where_nothing_is_wrong_that_is_said() {
        let absent = Source { absent: true, ..source("n3", SourceState::Absent, None) };
        let status = Status {
            sources: vec![
                source("n1", SourceState::Up, Some(1.0)),
                source("n2", SourceState::UpWithoutRows, None),
                source("n4", SourceState::Paused, Some(3600.0)),
                absent,
            ],
            ..Status::default()
        };
        let text =
            "Nothing is wrong: 3 sources of 3 origins report, all is delivered, nothing is lost or rejected.";
        assert_eq!(lines(&status), [text]);
        assert_eq!(lines(&Status::default()), [""; 0]);
    }
}
