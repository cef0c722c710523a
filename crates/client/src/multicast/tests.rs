use super::*;
use throughline_api::multicast::{Directions, MulticastMember, TreeLinks, TreeTraffic};

fn known(name: &str) -> KnownGroup {
    KnownGroup {
        mgid: "ff12:401b:ffff::1".into(),
        name: Some(name.into()),
        members: Some(2),
        ..KnownGroup::default()
    }
}

fn lid(mlid: u16, name: &str, rate: f64) -> MulticastLid {
    MulticastLid {
        mlid,
        links: 2,
        adapters: 2,
        packets_per_second: Some(rate),
        packets_kind: Some("bound".into()),
        known: vec![known(name)],
        ..MulticastLid::default()
    }
}

fn subnet(prefix: &str, groups: Vec<MulticastLid>) -> MulticastGroups {
    MulticastGroups { subnet: prefix.into(), window_seconds: 60.0, groups, ..MulticastGroups::default() }
}

fn tree(lost: i64) -> MulticastTree {
    let loss = Some(MulticastLoss { lost_packets: lost, packets: 1000, seconds: 60.0 });
    let none = Some(MulticastLoss { lost_packets: 0, packets: 10, seconds: 60.0 });
    MulticastTree {
        subnet: "a".into(),
        mlid: 0xc000,
        known: vec![known("IPoIB broadcast")],
        parts: 1,
        links: TreeLinks {
            link: vec![0, 1],
            name: vec!["spine1[1] → leaf1[9]".into(), "leaf1[1] → n1[1]".into()],
            ab: vec![true; 2],
            ba: vec![true; 2],
            depth: vec![0, 1],
            is_a_above: vec![false, true],
        },
        members: vec![MulticastMember {
            state: "full".into(),
            is_reached: Some(true),
            ..MulticastMember::default()
        }],
        traffic: Some(TreeTraffic {
            packets_per_second: Directions { ab: vec![Some(5.0); 2], ba: vec![Some(1200.0); 2] },
            bound_bytes_per_second: Directions::default(),
            mlids: vec![1, 2],
            loss: Directions { ab: vec![loss, none], ba: vec![none, None] },
            switches: Vec::new(),
        }),
        ..MulticastTree::default()
    }
}

#[test]
fn the_first_line_says_what_is_lost_and_where() {
    let all = [subnet("a", vec![lid(0xc000, "IPoIB broadcast", 3.0), lid(0xc001, "mDNS", 2500.0)])];
    let text = groups::text(&all, &[tree(7)], 200);
    // End a of the first link is the lower one: what it lost was on its way up.
    assert!(
        text.starts_with(
            "PACKETS ARE LOST leaf1[9] → spine1[1]: at least 7 of 1,000 multicast packets in 60 s; it carries 0xc000 (IPoIB \
             broadcast).\n2 multicast LIDs in 1 fabric"
        ),
        "{text}"
    );
    let rows: Vec<&str> = text.lines().skip(4).collect();
    assert!(rows[0].contains("mDNS") && rows[0].contains("≤ 2,500/s") && rows[0].ends_with('-'), "{text}");
    assert!(rows[1].contains("0xc000") && rows[1].ends_with("≥ 7"), "{text}");
    assert!(!text.contains("FABRIC"));
    let fine = groups::text(&all, &[tree(0)], 200);
    assert!(fine.starts_with("Nothing is wrong: no multicast packet is missing"), "{fine}");
    let mut unread = tree(0);
    unread.traffic = None;
    let text = groups::text(&all, &[unread], 200);
    assert!(text.starts_with("Nothing is known to be wrong; no loss could be checked"), "{text}");
    let mut alone = lid(0xc000, "IPoIB broadcast", 0.0);
    alone.links = 0;
    let text = groups::text(&[subnet("a", vec![alone.clone()])], &[], 200);
    assert!(
        text.starts_with("NO SWITCH FORWARDS 0xc000 (IPoIB broadcast), which has several members."),
        "{text}"
    );
    alone.known[0].members = Some(1);
    let text = groups::text(&[subnet("a", vec![alone])], &[], 200);
    assert!(text.starts_with("Nothing is known to be wrong: no group has a tree"), "{text}");
    assert!(groups::text(&[], &[], 200).starts_with("No fabric has been discovered"));
}

#[test]
fn several_fabrics_are_marked_and_a_name_finds_the_group_of_each() {
    let all = [
        subnet("a", vec![lid(0xc000, "IPoIB broadcast", 1.0), lid(0xc001, "mDNS", 1.0)]),
        subnet("b", vec![lid(0xc000, "IPoIB broadcast", 1.0)]),
    ];
    assert!(groups::text(&all, &[], 200).contains("FABRIC"));
    assert_eq!(matching(&all, "ipoib broad").unwrap().len(), 2);
    assert_eq!(matching(&all, "0xC001").unwrap()[0].0, "a");
    assert!(matching(&all, "0xc009").unwrap_err().to_string().contains("no multicast group 0xc009"));
    let several = matching(&all, "ff12").unwrap_err().to_string();
    assert!(several.contains("2 multicast LIDs fit") && several.contains("0xc001 (mDNS)"), "{several}");
}

#[test]
fn a_group_begins_with_what_is_wrong() {
    let mut torn = tree(0);
    torn.parts = 2;
    torn.members[0].is_reached = Some(false);
    let text = tree::text(&torn, 200);
    assert!(text.starts_with("ITS TREE IS TORN into 2 parts"), "{text}");
    assert!(text.contains("does not reach 1 member that should receive"), "{text}");
    let whole = tree::text(&tree(0), 200);
    assert!(whole.starts_with("Nothing is known to be wrong: no packet is missing"), "{whole}");
    let link = whole.lines().find(|line| line.contains("spine1[1] → leaf1[9]")).unwrap();
    // End b is above: down is from b to a.
    assert!(link.find("1,200/s").unwrap() < link.find("5.0/s").unwrap(), "{link}");
    assert!(whole.contains("1 group, as the subnet administrator reported"));
}
