//! Shares of links against what really flowed.

use crate::generator::errors::{Errors, at};
use crate::generator::fabric::{Fabric, Shape};
use crate::generator::{MEASURED, Options};
use throughline_shares::estimate::{Contributor, Flow, Kind, estimate};
use throughline_shares::network::Routes;

#[test]
fn measured_traffic_without_strangers_is_within_a_point() {
    let errors = Errors::over(0..200, MEASURED);
    assert!(at(&errors.jobs, 0.5) < 0.5 && at(&errors.jobs, 0.99) < 2.0, "{:?}", tail(&errors));
    assert!(errors.inside() > 0.99, "{}", errors.inside());
}

#[test]
fn a_stranger_is_found_and_given_to_no_job() {
    let options = Options { strangers: 1, ..MEASURED };
    let errors = Errors::over(0..300, options);
    assert!(at(&errors.jobs, 0.5) < 0.5 && at(&errors.jobs, 0.99) < 3.0, "{:?}", tail(&errors));
    assert!(at(&errors.strangers, 0.95) < 3.0, "{:?}", tail(&errors));
    assert!(errors.inside() > 0.99, "{}", errors.inside());
    let errors = Errors::over(0..300, Options { kind: Kind::Modelled, error: 0.06, ..options });
    assert!(at(&errors.jobs, 0.5) < 1.0 && at(&errors.jobs, 0.95) < 3.0, "{:?}", tail(&errors));
    assert!(errors.inside() > 0.99, "{}", errors.inside());
}

#[test]
fn bounds_under_adaptive_routing_hold_the_truth() {
    let errors = Errors::over(0..200, Options { is_adaptive: true, strangers: 1, ..MEASURED });
    assert!(errors.inside() > 0.99, "{}", errors.inside());
}

#[test]
fn several_strangers_at_once_are_distinguished_by_amounts_and_routes() {
    let errors = Errors::over(0..200, Options { strangers: 3, ..MEASURED });
    assert!(at(&errors.strangers, 0.5) < 1.0 && at(&errors.strangers, 0.95) < 20.0, "{:?}", tail(&errors));
    assert!(at(&errors.jobs, 0.99) < 2.0, "{:?}", tail(&errors));
    assert!(errors.inside() > 0.99, "{}", errors.inside());
    let options = Options { strangers: 3, is_adaptive: true, kind: Kind::Modelled, error: 0.06, ..MEASURED };
    let errors = Errors::over(0..100, options);
    assert!(errors.inside() > 0.99, "{}", errors.inside());
}

#[test]
fn file_systems_and_ports_that_were_not_read_leave_the_truth_within_bounds() {
    for options in
        [Options { file_systems: 2, ..MEASURED }, Options { unread: 0.1, strangers: 1, ..MEASURED }]
    {
        let errors = Errors::over(0..200, options);
        assert!(at(&errors.jobs, 0.95) < 2.0, "{:?}", tail(&errors));
        assert!(errors.inside() > 0.99, "{}", errors.inside());
    }
}

#[test]
fn a_host_with_two_ports_may_use_either() {
    let errors = Errors::over(0..200, Options { rails: 2, ..MEASURED });
    assert!(errors.strangers.is_empty(), "nobody else sent: {:?}", tail(&errors));
    assert!(at(&errors.jobs, 0.5) < 3.0, "{:?}", tail(&errors));
    assert!(errors.inside() > 0.99, "{}", errors.inside());
    let errors = Errors::over(0..200, Options { rails: 2, strangers: 1, ..MEASURED });
    assert!(errors.inside() > 0.99, "{}", errors.inside());
}

/// Errors at 50, 95 and 99 % of the shares of jobs, and of unreported senders.
fn tail(errors: &Errors) -> [[f64; 3]; 2] {
    [&errors.jobs, &errors.strangers].map(|values| [0.5, 0.95, 0.99].map(|part| at(values, part)))
}

#[test]
fn a_job_that_sends_nothing_over_a_link_has_no_share_of_it() {
    let tree = two_layers(2, 4, 2);
    let mut counted = vec![Some(0.0); tree.links()];
    // Host 0 sends to host 5 and nobody reports it; job 7 sends from 1 to 2, below one leaf.
    for stage in &tree.path(0, 5).unwrap().0 {
        counted[stage.links()[0].0 as usize] = Some(8e9);
    }
    for stage in &tree.path(1, 2).unwrap().0 {
        counted[stage.links()[0].0 as usize] = Some(1e9);
    }
    let flow = Flow { contributor: 7, from: 1, to: 2, bytes: 1e9, kind: Kind::Measured, error: 0.03 };
    let shares = estimate(&tree, &[flow], &counted);
    let up = tree.path(0, 5).unwrap().0[1].links()[0].0 as usize;
    assert_eq!(shares[up].shares.len(), 1, "{:?}", shares[up]);
    let stranger = shares[up].shares[0];
    assert_eq!(stranger.contributor, Contributor::Unreported { port: 0 });
    assert_eq!(stranger.kind, Kind::Unreported);
    assert!((stranger.bytes - 8e9).abs() < 1e7, "{stranger:?}");
    assert!(stranger.low > 7.9e9, "a single stranger has all that no job can have: {stranger:?}");
}

#[test]
fn what_was_not_read_is_not_fitted_and_nothing_is_made_of_nothing() {
    let tree = two_layers(2, 2, 1);
    let flow = Flow { contributor: 1, from: 0, to: 2, bytes: 5e8, kind: Kind::Logical, error: 1.0 };
    let shares = estimate(&tree, &[flow], &vec![None; tree.links()]);
    assert_eq!(shares[0].counted, None);
    assert_eq!((shares[0].shares[0].bytes, shares[0].rest), (5e8, 0.0));
    assert!(shares[1].shares.is_empty());
    // Logical bytes of four times what was counted: the counter has the last word.
    let mut counted = vec![Some(0.0); tree.links()];
    for stage in &tree.path(0, 2).unwrap().0 {
        counted[stage.links()[0].0 as usize] = Some(1.25e8);
    }
    let shares = estimate(&tree, &[flow], &counted);
    let share = shares[0].shares[0];
    assert!((share.bytes - 1.25e8).abs() < 1e6 && share.kind == Kind::Logical, "{share:?}");
    // A flow between ports that do not exist adds nothing, and does not fail.
    let flow = Flow { from: 0, to: 0, ..flow };
    assert!(
        estimate(&tree, &[flow], &counted)
            .iter()
            .flat_map(|link| &link.shares)
            .all(|share| share.bytes >= 0.0)
    );
}

fn two_layers(leaves_a_pod: u32, hosts_a_leaf: u32, spines_a_pod: u32) -> Fabric {
    let (rails, is_adaptive) = (1, false);
    Fabric::new(Shape {
        pods: 1,
        leaves_a_pod,
        hosts_a_leaf,
        spines_a_pod,
        cores_a_spine: 1,
        rails,
        is_adaptive,
    })
}
