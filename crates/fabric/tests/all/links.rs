//! `links` against `iblinkinfo`: both ends, width, speed, state and what each link could be.

use crate::simulated::{CRAWLER, MESH, ODD, Simulated, start, write_net};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// What `iblinkinfo` says of a port, by node name and port: LID, state, link, remote LID, port and name, and
/// what it could be.
type Seen = BTreeMap<(String, u64), (u64, String, String, Option<(u64, u64, String)>, String)>;

/// `iblinkinfo`'s words for a lane's signalling rate.
const SPEEDS: [(&str, &str); 8] = [
    ("2.5 Gbps", "SDR"),
    ("5.0 Gbps", "DDR"),
    ("10.0 Gbps", "QDR"),
    ("14.0625 Gbps", "FDR"),
    ("25.78125 Gbps", "EDR"),
    ("53.125 Gbps", "HDR"),
    ("106.25 Gbps", "NDR"),
    ("212.5 Gbps", "XDR"),
];

fn speed_name(text: &str) -> &'static str {
    SPEEDS.iter().find(|(rate, _)| *rate == text).unwrap_or_else(|| panic!("speed {text:?}")).1
}

fn read_iblinkinfo(text: &str) -> Seen {
    let mut seen = Seen::new();
    let mut node = String::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("CA: ").or_else(|| line.strip_prefix("Switch: 0x")) {
            // A switch's line has its GUID before the name.
            let name = if line.starts_with("CA") { name } else { name.split_once(' ').unwrap().1 };
            node = name.trim_end_matches(':').to_owned();
            continue;
        }
        let (left, rest) = line.split_once("[  ] ==(").unwrap();
        let (link, right) = rest.split_once(")==>").unwrap();
        let mut words = left.split_whitespace().rev();
        let port: u64 = words.next().unwrap().parse().unwrap();
        let lid: u64 = words.next().unwrap().parse().unwrap();
        let (width_and_speed, state) = if link.contains("Gbps") {
            let (rate, state) = link.split_once("Gbps").unwrap();
            let (width, speed) = rate.trim().split_once(' ').unwrap();
            let speed = speed_name(&format!("{} Gbps", speed.trim()));
            (format!("{}{speed}", width.to_lowercase()), state)
        } else {
            (String::new(), link)
        };
        let state = state.split_whitespace().collect::<String>();
        let remote = right.split_once('[').and_then(|(numbers, _)| {
            let mut numbers = numbers.split_whitespace().map(|word| word.parse::<u64>().unwrap());
            Some((numbers.next()?, numbers.next()?, right.split('"').nth(1)?.to_owned()))
        });
        let could = right.rsplit_once('(').unwrap().1.trim_end_matches(')');
        let could: Vec<String> = could
            .split("Could be ")
            .map(str::trim)
            .filter(|word| !word.is_empty())
            .map(
                |word| if word.ends_with("Gbps") { speed_name(word).to_owned() } else { word.to_lowercase() },
            )
            .collect();
        seen.insert((node.clone(), port), (lid, state, width_and_speed, remote, could.join(" ")));
    }
    seen
}

/// The lines of `links --json` as `iblinkinfo` would have them: each cable from both ends.
fn read_links(text: &str, seen: &mut Seen) {
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let link = |key: &str, part: &str| line[key][part].as_str().unwrap_or_default().to_owned();
        let active = format!("{}{}", link("active", "width"), link("active", "speed"));
        let could: Vec<String> = ["width", "speed"]
            .into_iter()
            .filter(|part| !line["active"].is_null() && link("active", part) != link("supported", part))
            .map(|part| link("supported", part))
            .collect();
        let ends = [(&line["a"], &line["b"]), (&line["b"], &line["a"])];
        for (here, there) in ends.into_iter().filter(|(here, _)| !here.is_null()) {
            let text = |end: &Value, key: &str| end[key].as_str().unwrap().to_owned();
            let number = |end: &Value, key: &str| end[key].as_u64().unwrap();
            let state = format!("{}/{}", text(here, "state"), text(here, "physical_state"));
            let remote = (!there.is_null())
                .then(|| (number(there, "lid"), number(there, "num"), text(there, "description")));
            let key = (text(here, "description"), number(here, "num"));
            let value = (number(here, "lid"), state, active.clone(), remote, could.join(" "));
            assert!(seen.insert(key, value).is_none(), "each port is reported once");
        }
    }
}

fn agree(simulated: &Simulated) -> Seen {
    let expected = read_iblinkinfo(&simulated.tool("iblinkinfo", &[]));
    let mut ours = Seen::new();
    read_links(&simulated.crawl(&["links", "--json"]), &mut ours);
    read_links(&simulated.crawl(&["links", "--json", "--down"]), &mut ours);
    assert_eq!(ours, expected);
    ours
}

#[test]
fn every_link_as_iblinkinfo_has_it() {
    let simulated = start(&write_net(ODD));
    let seen = agree(&simulated);
    assert_eq!(seen[&("beta HCA-1".to_owned(), 1)].2, "4xFDR");
    // A selection shows whole cables.
    let of_one = simulated.crawl(&["links", "--switch", "LEFTOVER", "--json"]);
    assert_eq!(of_one.lines().count(), 1);
    let by_guid = simulated.crawl(&["links", "--node", "0x1020", "--json"]);
    assert_eq!(by_guid, of_one);
    let table = simulated.crawl(&["links"]);
    // The fastest that a simulated port can be is HDR in ibsim 0.10 and NDR in 0.12.
    let could_be = ["4xFDR   12xHDR (set to 4xFDR)", "4xFDR   12xNDR (set to 4xFDR)"];
    assert!(could_be.iter().any(|words| table.contains(words)), "{table}");
    assert!(table.starts_with("links: 10, degraded: 0, limited by a port's setting: 9\n"), "{table}");
    assert_eq!(simulated.crawl(&["links", "--degraded"]).lines().next(), Some("degraded links: 0"));
    let output =
        simulated.fabric.client(CRAWLER, None).unwrap().args(["links", "--switch", "nowhere"]).output();
    assert_eq!(output.unwrap().status.code(), Some(64));
}

#[test]
fn a_cut_cable_is_two_ports_down() {
    let mut simulated = start(&write_net(MESH));
    let before = agree(&simulated);
    simulated.fabric.console("Unlink \"S-0000000000003000\"[3]").unwrap();
    let after = agree(&simulated);
    let down = |seen: &Seen| -> BTreeSet<(String, u64)> {
        seen.iter().filter(|(_, port)| port.3.is_none()).map(|(key, _)| key.clone()).collect()
    };
    let new: Vec<_> = down(&after).difference(&down(&before)).cloned().collect();
    assert_eq!(new, [("ring0".to_owned(), 3), ("ring3".to_owned(), 3)]);
}
