//! Whole folders, good and bad.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::multicast::MulticastTables;
use proptest::prelude::*;
use throughline_sample::Guid;

/// One switch, two hosts, one of them with a quote in its name.
const NET: &str = r#"#
# Topology file: generated on Fri Nov 20 14:17:29 2026
#
# Initiated from node 0000000000001000 port 0000000000001000

vendid=0x2c9
devid=0x1017
sysimgguid=0x1000
switchguid=0x1000(1000)
Switch	4 "S-0000000000001000"		# "core A" enhanced port 0 lid 1 lmc 0
[1]	"H-0000000000002000"[2](2002) 		# "al"pha" lid 3 4xEDR
[4][ext 7]	"H-0000000000002010"[1](2011) 		# "beta" lid 5 2xHDR s=4 w=16 v=4

vendid=0x2c9
devid=0x1017
sysimgguid=0x2000
caguid=0x2000
Ca	2 "H-0000000000002000"		# "al"pha"
[2](2002) 	"S-0000000000001000"[1]		# lid 3 lmc 1 "core A" lid 1 4xEDR

vendid=0x2c9
devid=0x1017
sysimgguid=0x2010
caguid=0x2010
Ca	1 "H-0000000000002010"		# "beta"
[1](2011) 	"S-0000000000001000"[4][ext 7]		# lid 5 lmc 0 "core A" lid 1 2xHDR
"#;

const TABLES: &str =
    "Unicast lids [0x0-0x6] of switch DR path slid 0; dlid 0; 0 guid 0x0000000000001000 (core A):
  Lid  Out   Destination
       Port     Info 
0x0001 000 : (Switch portguid 0x0000000000001000: 'core A')
0x0003 001 : (Channel Adapter portguid 0x0000000000002002: 'al\"pha')
0x0005 004 
3 valid lids dumped 
";

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn read_files(files: &[(&str, &str)]) -> Result<Saved, OfflineError> {
    read(folder(files).path())
}

#[test]
fn a_topology_and_its_tables() {
    let saved = read_files(&[("b", NET), ("a", TABLES)]).unwrap();
    assert_eq!(saved.warnings, Vec::<String>::new());
    assert_eq!(saved.switches_without_table, 0);
    let topology = &saved.topology;
    assert_eq!(topology.nodes.len(), 3);
    assert_eq!(topology.cables().count(), 2);
    let (switch, alpha) = (&topology.nodes[0], &topology.nodes[1]);
    assert_eq!((switch.lid(), alpha.lid(), alpha.description.as_str()), (1, 3, "al\"pha"));
    assert_eq!(alpha.ports[0].info.unwrap().lmc, 1);
    let link = switch.link_of(&switch.ports[4]).unwrap();
    assert_eq!((link.0.name(), link.1.name()), ("2x", "HDR"));
    assert_eq!(switch.link_of(&switch.ports[2]), None);
    assert!(switch.ports[2].info.is_none(), "nothing is known of a port that is not listed");
    assert_eq!(topology.local.map(|end| (end.node, end.port)), Some((0, 0)));
    let hops = topology.route(Guid(0x2000), Guid(0x2010)).unwrap();
    assert_eq!(hops.iter().map(|hop| hop.out_port).collect::<Vec<_>>(), [Some(2), Some(4), None]);
}

/// What `save` writes of the net and its tables with other names.
fn saved_with_names(names: &[String; 3]) -> [(&'static str, String); 3] {
    let mut topology = read_files(&[("net", NET), ("tables", TABLES)]).unwrap().topology;
    for (node, name) in topology.nodes.iter_mut().zip(names) {
        node.description = lines::description(name);
    }
    let mut multicast = MulticastTables::new(&topology);
    multicast.insert(0, 0xC000, 1);
    let texts = [save::ibnetdiscover(&topology), save::tables(&topology)];
    let [net, tables] = texts;
    [("net", net), ("tables", tables), ("multicast", save::multicast(&topology, &multicast))]
}

fn come_back(names: &[String; 3]) {
    let files = saved_with_names(names);
    let saved = read_files(&files.each_ref().map(|(name, text)| (*name, text.as_str()))).unwrap();
    for (node, name) in saved.topology.nodes.iter().zip(names) {
        assert_eq!(node.description, lines::description(name));
    }
    assert_eq!(saved.topology.cables().count(), 2);
    assert_eq!(saved.topology.nodes[0].output_port(5), Some(4));
    assert_eq!(saved.multicast[&Guid(0x1000)][&0xC000], [1 << 1, 0, 0, 0]);
}

#[test]
fn any_name_that_is_saved_is_read_again() {
    for names in [
        ["rack=7 slot=3", "a=b", "=0x1"],
        ["vendid=0x1", "Switch\t4 \"S-1\"", "# \"x\" lid 9 4xEDR"],
        ["(core A):", "1 valid lids dumped", "LID    : Port"],
        [" guid 0x1 ", "[1] \"H-1\"[2]", " "],
        ["計算ノード", "\u{FFFD}", "\\"],
    ] {
        come_back(&names.map(str::to_owned));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn names_are_no_part_of_the_format(names in proptest::array::uniform3("[ -~äß計\\t]{0,24}")) {
        come_back(&names);
    }
}

#[test]
fn a_file_cut_anywhere_is_never_half_a_fabric() {
    for cut in 0..NET.len() {
        // Only blank lines and comments may be missing.
        if NET[cut..].trim().is_empty() {
            continue;
        }
        // A first switch without any cable may be all there is: that is said.
        let read = read_files(&[("net", &NET[..cut])]);
        assert!(read.is_err() || !read.unwrap().warnings.is_empty(), "cut at {cut}");
    }
    for cut in 30..TABLES.len() - 1 {
        assert!(read_files(&[("net", NET), ("tables", &TABLES[..cut])]).is_err(), "cut at {cut}");
    }
}

#[test]
fn messages_name_file_line_and_what_was_expected() {
    let message = |files: &[(&str, &str)]| read_files(files).unwrap_err().to_string();
    let text = message(&[("net", &NET.replace("4xEDR\n", "4xED\n"))]);
    assert!(text.contains("net:11: expected `[port]"), "{text}");
    let text = message(&[("net", NET), ("t", &TABLES.replace("3 valid", "4 valid"))]);
    assert!(text.contains("t:7: expected as many entries"), "{text}");
    let text = message(&[("readme", "hello\n")]);
    assert!(text.contains("no topology") && text.contains("readme"), "{text}");
    let text = message(&[("net", &NET.replace("\n[4][ext 7]\t", "\n[3]\t"))]);
    assert!(text.contains("does not lead back"), "{text}");
}

#[test]
fn gzip_is_unpacked() {
    use std::io::Write;
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(NET.as_bytes()).unwrap();
    let packed = packed.finish().unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("net.gz"), &packed).unwrap();
    assert_eq!(read(folder.path()).unwrap().topology.nodes.len(), 3);
    std::fs::write(folder.path().join("net.gz"), &packed[..packed.len() / 2]).unwrap();
    assert!(read(folder.path()).is_err());
}

fn corpus(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn a_database_of_ibdiagnet() {
    let database = corpus("database/small");
    let saved = read_files(&[("ibdiagnet2.db_csv", &database)]).unwrap();
    assert_eq!(saved.warnings, Vec::<String>::new());
    let topology = &saved.topology;
    let (switch, host) = (&topology.nodes[0], &topology.nodes[1]);
    assert_eq!((switch.description.as_str(), switch.lid(), host.lid()), ("core, A", 1, 5));
    let link = switch.link_of(&switch.ports[20]).unwrap();
    assert_eq!((link.0.name(), link.1.name()), ("4x", "EDR"));
    assert_eq!(switch.ports[21].info.unwrap().state, Some(crate::mad::PortState::Down));
    assert_eq!(switch.switch.unwrap().linear_top, 6);
    assert_eq!(topology.cables().count(), 1);
    let mut sweeps = SavedSweeps::new(saved.snapshots, topology, crate::reading::Selection::default());
    let coverage = sweeps.advance().unwrap();
    assert_eq!((coverage.expected, coverage.complete, coverage.missing), (2, 1, 1));
    let counters = &sweeps.readings()[0].counters;
    let value = |name: &str| {
        let index = crate::mad::counter_metrics().iter().position(|metric| metric.name == name).unwrap();
        counters.exact(index)
    };
    assert_eq!(value("transmit_data_bytes"), Some(4 * 8_589_934_592), "64 bits before 32");
    assert_eq!(
        (value("link_downed"), value("symbol_error"), value("transmit_wait")),
        (Some(3), Some(0), Some(777))
    );
    assert_eq!(value("receive_errors"), None, "not in the file: absent");
    assert!(sweeps.advance().is_none());
    let cut = database.split("END_LINKS").next().unwrap();
    assert!(read_files(&[("db", cut)]).unwrap_err().to_string().contains("LINKS has no end"));
}

#[test]
fn a_listing_and_dumped_tables() {
    let saved = read_files(&[
        ("lst", &corpus("listing/two")),
        ("fdbs", &corpus("dumped/fdbs")),
        ("mcfdbs", &corpus("dumped/mcfdbs")),
    ])
    .unwrap();
    let (switch, host) = (&saved.topology.nodes[0], &saved.topology.nodes[1]);
    assert_eq!((host.description.as_str(), host.lid(), switch.port_count), ("host {1}", 5, 36));
    assert_eq!(host.ports[0].remote.map(|end| (end.node, end.port)), Some((0, 20)));
    assert_eq!(switch.output_port(2), Some(3));
    assert_eq!(switch.output_port(1), None, "unreachable");
    assert_eq!(saved.multicast[&Guid(0x1000)][&0xC000], [1 << 1 | 1 << 10, 0, 0, 0]);
    assert!(
        saved.warnings[0].contains("1 switches have tables and are in no topology"),
        "{:?}",
        saved.warnings
    );
}

#[test]
fn multicast_tables_of_dump_mfts() {
    let tables = "Multicast mlids [0xc000-0xc3ff] of switch DR path slid 0; dlid 0; 0 guid 0x0000000000001000 (core A):
            0                   1     
     Ports: 0 1 2 3 4 5 6 7 8 9 0 1 2 
 MLid
0xc000        x     x                 
0xc001      x                       x 
2 valid mlids dumped 
";
    let saved = read_files(&[("net", NET), ("mfts", tables)]).unwrap();
    let table = &saved.multicast[&Guid(0x1000)];
    assert_eq!((table[&0xC000], table[&0xC001]), ([1 << 1 | 1 << 4, 0, 0, 0], [1 | 1 << 12, 0, 0, 0]));
    let cut = &tables[..tables.len() - 30];
    assert!(read_files(&[("net", NET), ("mfts", cut)]).is_err());
}

#[test]
fn speeds_to_come_lose_their_speed_and_nothing_else() {
    let speed = |saved: &Saved| {
        let host = saved.topology.nodes.iter().find(|node| node.guid == Guid(0x2000)).unwrap();
        host.link_of(&host.ports[0]).map(|(width, speed)| (width.name(), speed.name()))
    };
    let xdr = read_files(&[("net", &NET.replace("4xEDR", "4xXDR"))]).unwrap();
    assert_eq!((speed(&xdr), xdr.warnings.len()), (Some(("4x", "XDR")), 0));
    let fdr10 = read_files(&[("net", &NET.replace("4xEDR", "4xFDR10"))]).unwrap();
    assert_eq!(speed(&fdr10), Some(("4x", "FDR10")));
    let later = NET.replace("4xEDR", "4xGDR");
    let saved = read_files(&[("net", &later)]).unwrap();
    assert_eq!((speed(&saved), saved.topology.cables().count()), (None, 2));
    assert!(saved.warnings[0].contains("2 ends of cables run at 'GDR'"), "{:?}", saved.warnings);
}

#[test]
fn a_database_with_wide_counters_and_speeds() {
    let database = corpus("database/small").replace(",2,3,3,1,1799,512,", ",2,3,3,1,1799,16777216,");
    let (head, _) = database.split_once("START_PM_INFO").unwrap();
    let database = format!(
        "{head}START_PM_INFO\nNodeGUID,PortNumber,LinkDownedCounter,SymbolErrorCounter,VL15Dropped,PortXmitWait,\
         LinkDownedCounterExtended,SymbolErrorCounterExtended,PortXmitWaitExtended\n\
         0x1000,20,255,65535,65535,4294967295,255,70000,8589934592\nEND_PM_INFO\n"
    );
    let saved = read_files(&[("db", &database)]).unwrap();
    let switch = &saved.topology.nodes[0];
    assert_eq!(switch.link_of(&switch.ports[20]).unwrap().1.name(), "XDR");
    let mut sweeps = SavedSweeps::new(saved.snapshots, &saved.topology, crate::reading::Selection::default());
    sweeps.advance().unwrap();
    let counters = &sweeps.readings()[0].counters;
    let index =
        |name: &str| crate::mad::counter_metrics().iter().position(|metric| metric.name == name).unwrap();
    let exact = |name: &str| counters.exact(index(name));
    assert_eq!(
        (exact("link_downed"), exact("symbol_error"), exact("transmit_wait")),
        (Some(255), Some(70_000), Some(8_589_934_592))
    );
    assert!(counters.is_saturated(index("vl15_dropped")), "no wider one is there");
}

#[test]
fn groups_and_members_of_saquery() {
    let (group, member) = (corpus("groups/group"), corpus("groups/member"));
    let read = |files: &[(&str, &str)]| {
        let mut all = vec![("net", NET)];
        all.extend(files);
        read_files(&all)
    };
    let reported = read(&[("g", &group), ("m", &member)]).unwrap().groups.unwrap();
    assert!(reported.is_trusted && reported.members.len() == 2);
    let joined = reported.members[0];
    assert_eq!((joined.mlid, joined.mtu, joined.rate, joined.pkey), (0xC000, 4, 3, 0xFFFF));
    assert_eq!((joined.port_guid(), joined.join_state, joined.scope), (Some(Guid(0x2001)), 1, 2));
    assert_eq!(joined.queue_key, None, "no file has it: absent");
    let groups = read(&[("g", &group)]).unwrap().groups.unwrap();
    assert!(!groups.is_trusted && groups.members[0].port_guid().is_none());
    let alone = read(&[("m", &member)]).unwrap();
    assert!(alone.groups.is_none() && alone.warnings[0].contains("saquery -g"), "{:?}", alone.warnings);
    let cut = group.rsplit_once("\t\tSL").unwrap().0;
    assert!(read(&[("g", cut)]).unwrap_err().to_string().contains("not whole"));
}
