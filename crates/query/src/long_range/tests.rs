use super::*;

#[test]
fn steps_that_begin_before_the_oldest_reading_come_from_the_server() {
    let grid = Grid { from: 1_000, step: 100, steps: 10 };
    let steps = |held_from| steps_before(&grid, held_from);
    assert_eq!((steps(None), steps(Some(900)), steps(Some(1_000))), (10, 0, 0));
    assert_eq!(
        (steps(Some(1_001)), steps(Some(1_100)), steps(Some(1_101)), steps(Some(9_000))),
        (1, 1, 2, 10)
    );
}

#[test]
fn values_of_labels_are_no_expressions() {
    let values = ["n1.a".to_owned(), "x\"} or vector(1)".to_owned()];
    assert_eq!(matcher("instance", &values), r#"{instance=~"n1\\.a|x\\\"\\} or vector\\(1\\)"}"#);
    // As the server reads it: the text's escapes, then the expression's.
    assert_eq!(matcher("gpu", &["a\\b".to_owned()]), r#"{gpu=~"a\\\\b"}"#);
}

#[test]
fn each_series_of_a_port_has_an_expression() {
    let hour = Grid { from: 0, step: 3_600_000, steps: 2 };
    let all = port_expressions(SWITCH_PORT_PREFIX, &hour);
    let text =
        |what: PortSeries| all.iter().find(|(of, _)| *of == what).map(|(_, made)| made("{guid=~\"x\"}"));
    let bytes = "infiniband_switch_port_transmit_data_bytes_total{guid=~\"x\"}";
    assert_eq!(text(PortSeries::Out).unwrap(), format!("rate({bytes}[3600000ms])"));
    assert_eq!(text(PortSeries::OutPeak).unwrap(), format!("max_over_time(rate({bytes}[1m])[3600000ms:1m])"));
    let errors = text(PortSeries::Errors).unwrap();
    assert_eq!(errors.matches("increase(").count(), ERRORS.len(), "{errors}");
    assert!(
        text(PortSeries::Waiting)
            .unwrap()
            .ends_with("* infiniband_switch_port_transmit_wait_tick_bytes{guid=~\"x\"}")
    );
    // Within a minute the mean is the peak.
    let second = Grid { from: 0, step: 1_000, steps: 2 };
    let all = port_expressions(HCA_PORT_PREFIX, &second);
    assert_eq!(all[0].1("{}"), all[1].1("{}"));
    assert!(all[0].1("").contains("[60000ms]"));
}
