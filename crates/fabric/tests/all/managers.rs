//! The subnet manager fails over, with real ones: opensm on ibsim is killed, and another one with another priority
//! starts at another node. Each is reported once, and the crawler goes on.

use crate::simulated::daemon::{Daemon, Double, MANAGER_TRIES, Manager, until, until_unless_broken};
use crate::simulated::{SMALL, start_unmanaged};
use throughline_infiniband::topology::FatTree;
use throughline_sample::wire::Event;

#[test]
fn one_manager_is_killed_and_another_takes_over() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (double, collector) = Double::start(&runtime);
    let simulated = start_unmanaged(&SMALL.to_net().unwrap());
    let first = Manager::start(&simulated, &FatTree::host_id(4), 3);
    let configuration = format!(
        "[http]\nlisten = '127.0.0.1:0'\n[delivery]\ncollector = 'http://{collector}'\n\
         [sweep]\ninterval_seconds = 0.25\n[discovery]\ninterval_seconds = 3600\n"
    );
    let mut daemon = Daemon::start(&simulated, &configuration);
    let figure = |name: &str| -> f64 {
        let page = daemon.metrics();
        let line = page.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0.0)
    };
    let reported = |kind: &str| -> Vec<Event> {
        double.events().into_iter().filter(|event| event.kind.starts_with(kind)).collect()
    };
    let read =
        || double.batches().iter().flat_map(|batch| batch.coverage.clone()).map(|c| c.read).sum::<u64>();
    let is_up = "throughline_sm_up{source=\"administration\"}";
    until("a manager that answers", || figure(is_up) == 1.0);
    until("a sweep", || read() > 0);

    drop(first);
    until("sm.gone", || !reported("sm.gone").is_empty());
    assert_eq!(figure(is_up), 0.0);
    let gone = &reported("sm.gone")[0];
    assert_eq!((gone.ib_guid, gone.ib_port, gone.severity.as_str()), (FatTree::host_guid(4).0, 1, "error"));
    assert!(gone.before.contains("node0005") && gone.before.ends_with("priority 3"), "{gone:?}");
    let before = read();
    until("sweeps without a manager", || read() > before + 160);

    let _second = Manager::start(&simulated, &FatTree::host_id(9), 7);
    until("sm.changed", || !reported("sm.changed").is_empty());
    until("a manager that answers again", || figure(is_up) == 1.0);
    let changed = &reported("sm.changed")[0];
    assert_eq!((changed.ib_guid, changed.ib_port), (FatTree::host_guid(9).0, 1));
    assert_eq!(changed.before, gone.before);
    assert!(changed.after.contains("node0010") && changed.after.ends_with("priority 7"), "{changed:?}");
    // Two more looks at the manager, so that a second event would have come.
    let sent = || figure("throughline_mads_sent_total{source=\"administration\"}");
    let (mads, before) = (sent(), read());
    until("looks at the manager", || sent() >= mads + 2.0);
    until("sweeps with the other manager", || read() > before + 160);
    assert_eq!((reported("sm.gone").len(), reported("sm.changed").len()), (1, 1), "{:#?}", reported("sm."));
    for kind in ["sm.gone", "sm.changed"] {
        assert_eq!(
            figure(&format!("throughline_topology_events_total{{source=\"discovery\",kind=\"{kind}\"}}")),
            1.0
        );
    }
    assert_eq!(daemon.stop(), 0);
}

/// Two managers that are alive: the one with the higher priority takes over, and the other one stays as standby.
#[test]
fn a_handover_is_reported_once_and_names_both() {
    // From the beginning where a manager breaks off: that is another event.
    assert!((0..MANAGER_TRIES).any(|_| handover().is_some()), "opensm breaks off");
}

/// None where a manager broke off.
fn handover() -> Option<()> {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (double, collector) = Double::start(&runtime);
    let simulated = start_unmanaged(&SMALL.to_net().unwrap());
    let mut first = Manager::start_once(&simulated, &FatTree::host_id(4), 3)?;
    let configuration = format!(
        "[http]\nlisten = '127.0.0.1:0'\n[delivery]\ncollector = 'http://{collector}'\n\
         [sweep]\ninterval_seconds = 0.25\n[discovery]\ninterval_seconds = 3600\n"
    );
    let mut daemon = Daemon::start(&simulated, &configuration);
    let up = "throughline_sm_up{source=\"administration\"} 1";
    let reported = || -> Vec<Event> {
        double.events().into_iter().filter(|event| event.kind.starts_with("sm.")).collect()
    };
    until_unless_broken(&mut [&mut first], "a manager that answers", || daemon.metrics().contains(up))?;
    let mut second = Manager::start_once(&simulated, &FatTree::host_id(9), 7)?;
    let mut managers = [&mut first, &mut second];
    until_unless_broken(&mut managers, "an event", || !reported().is_empty())?;
    until_unless_broken(&mut managers, "the new manager answers", || daemon.metrics().contains(up))?;
    let events = reported();
    let [changed] = events.as_slice() else { panic!("{events:#?}") };
    assert_eq!((changed.kind.as_str(), changed.ib_guid), ("sm.changed", FatTree::host_guid(9).0));
    assert!(changed.before.contains("node0005") && changed.before.ends_with("priority 3"), "{changed:?}");
    assert!(changed.after.contains("node0010") && changed.after.ends_with("priority 7"), "{changed:?}");
    // The master dies, and the standby takes over: it is the master that is missed.
    drop(second);
    until_unless_broken(&mut [&mut first], "the standby took over", || {
        reported().iter().any(|event| event.after.contains("node0005"))
    })?;
    let events = reported();
    assert!(events[1..].iter().all(|event| event.before.contains("node0010")), "{events:#?}");
    assert_eq!(daemon.stop(), 0);
    Some(())
}
