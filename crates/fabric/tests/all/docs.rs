//! docs/FABRIC.md against the code: events, findings, the sizing table, and the commands that it names.

use std::process::Command;
use throughline_crawler::engine::WIRE_BYTES;
use throughline_crawler::events;
use throughline_infiniband::check::Kind;

const PAGE: &str = include_str!("../../../../docs/FABRIC.md");

/// The rows of the table whose heading begins so, cell by cell.
fn table(heading: &str) -> Vec<Vec<String>> {
    let after = PAGE.split_once(heading).unwrap_or_else(|| panic!("{heading} is not on the page")).1;
    let rows = after.lines().skip(2).take_while(|line| line.starts_with('|'));
    rows.map(|line| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()).collect()
}

#[test]
fn events_are_those_of_the_code() {
    let expected: Vec<Vec<String>> = events::ALL
        .iter()
        .map(|kind| vec![format!("`{}`", kind.id), kind.severity.name().to_owned(), kind.meaning.to_owned()])
        .collect();
    assert_eq!(table("| event | severity |"), expected);
}

#[test]
fn findings_are_those_of_the_code() {
    let expected: Vec<Vec<String>> = Kind::ALL
        .iter()
        .map(|kind| {
            vec![format!("`{}`", kind.name()), kind.severity().name().to_owned(), kind.remedy().to_owned()]
        })
        .collect();
    assert_eq!(table("| finding | severity |"), expected);
}

/// Seconds from one fast round to the next by default, and from one row of a quiet port to the next.
const INTERVAL: u64 = 5;
const HEARTBEAT: u64 = 60;
/// Bytes per second of 4xEDR.
const EDR: f64 = 12.5e9;

#[test]
fn sizes_follow_from_the_formula() {
    let rows = table("| ports read | requests a sweep |");
    assert!(rows.len() >= 5);
    for row in rows {
        let number = |cell: &str| -> u64 { cell.replace(',', "").parse().unwrap() };
        let ports = number(&row[0]);
        let requests = 2 * ports;
        let bytes = requests * WIRE_BYTES;
        assert_eq!(number(&row[1]), requests, "{row:?}");
        assert_eq!(number(&row[2]), bytes, "{row:?}");
        assert_eq!(number(&row[3]), requests / INTERVAL, "{row:?}");
        assert_eq!(number(&row[4]), bytes / INTERVAL, "{row:?}");
        let share = bytes as f64 / INTERVAL as f64 / EDR * 100.0;
        assert_eq!(row[5], format!("{share:.4} %"), "{row:?}");
        assert_eq!(number(&row[6]), ports / INTERVAL, "{row:?}");
        assert_eq!(number(&row[7]), ports / HEARTBEAT, "{row:?}");
    }
}

#[test]
fn every_command_is_on_the_page_and_explains_itself() {
    let crawler = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_throughline-fabric")).args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let help = crawler(&["--help"]);
    let commands = help.split_once("Commands:").unwrap().1.split_once("\n\n").unwrap().0;
    // A command's line is indented by two blanks, what continues it by more.
    let names =
        commands.lines().filter_map(|line| line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')));
    let names: Vec<&str> = names.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.len() > 8, "{names:?}");
    for name in names.into_iter().filter(|name| *name != "help") {
        assert!(PAGE.contains(&format!("`{name}`")) || PAGE.contains(&format!("fabric {name}")), "{name}");
        let said = crawler(&[name, "--help"]);
        assert!(said.contains("Examples:") || name == "check-config", "{name} --help has no examples");
    }
}
