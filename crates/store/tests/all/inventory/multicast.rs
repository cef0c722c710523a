//! Multicast tables of switches and groups with their members, with validity ranges.

use super::*;

/// The switch's multicast table as a walk at `generation` seconds read it.
fn multicast(generation: i64, ports: &[u8]) -> Batch {
    let entry = IbMulticastEntry { mlid: 0xC000, ports: ports.to_vec() };
    let table = IbMulticastTable {
        generation: START + generation * SECOND,
        guid: SWITCH,
        entries: if ports.is_empty() { vec![] } else { vec![entry] },
    };
    Batch {
        fabric: throughline_store::testing::fabric(PREFIX),
        ib_multicast_tables: vec![table],
        ..Batch::default()
    }
}

#[tokio::test]
async fn a_multicast_table_is_kept_as_long_as_it_is_the_same() {
    let mut bench = Bench::new().await;
    bench.send(fabric(0, 2)).await;
    for (generation, ports) in [(1, &[1, 2][..]), (60, &[1, 2]), (120, &[1, 2, 3]), (180, &[])] {
        bench.send(multicast(generation, ports)).await;
    }
    let tables = "SELECT multicast_forwarding_table::text || ' ' || (valid_to IS NULL) FROM internal.ib_mft ORDER BY valid_from";
    assert_eq!(
        bench.texts(tables).await,
        ["{\"49152\": [1, 2]} false", "{\"49152\": [1, 2, 3]} false", "{} true"]
    );
    // It ends with its switch.
    let mut gone = fabric(240, 2);
    gone.ib_nodes.remove(0);
    bench.send(gone).await;
    assert_eq!(bench.number("SELECT count(*) FROM internal.ib_mft WHERE valid_to IS NULL").await, 0);
}

/// Groups of a reading at `generation` seconds: the last 32 bits of each MGID with its members' GUIDs, `None` where they
/// are not reported; and the mark of so many.
fn groups(generation: i64, groups: &[(u32, Option<&[u64]>)], marked: Option<u32>) -> Batch {
    let generation = START + generation * SECOND;
    let group = |(last, members): &(u32, Option<&[u64]>)| IbMulticastGroup {
        generation,
        mgid: (0xFF12_401B_FFFF_u128 << 80 | u128::from(*last)).to_be_bytes().to_vec(),
        mlid: 0xC001,
        pkey: 0xFFFF,
        mtu_bytes: Some(2048),
        rate_bytes_per_second: Some(1_250_000_000),
        service_level: 0,
        name: if *last == 1 { "IPoIB 224.0.0.1 all hosts".into() } else { String::new() },
        member_count: members.map(|members| members.len() as u32),
        members: members
            .iter()
            .flat_map(|members| members.iter())
            .map(|guid| IbMulticastMember { port_guid: *guid, join_state: 1 })
            .collect(),
    };
    Batch {
        fabric: throughline_store::testing::fabric(PREFIX),
        ib_multicast_groups: groups.iter().map(group).collect(),
        ib_multicast_marks: marked.map(|groups| IbMulticastMark { generation, groups }).into_iter().collect(),
        ..Batch::default()
    }
}

#[tokio::test]
async fn a_multicast_group_ends_with_its_members_or_with_itself() {
    let mut bench = Bench::new().await;
    bench.send(groups(0, &[(1, Some(&[5, 6])), (2, None)], Some(2))).await;
    bench.send(groups(60, &[(1, Some(&[5, 6])), (2, None)], Some(2))).await;
    assert_eq!(
        bench.number("SELECT count(*) FROM internal.ib_multicast_group").await,
        2,
        "the same adds nothing"
    );
    // A member leaves; the other group is gone, which only a reading that arrived as a whole can say.
    bench.send(groups(120, &[(1, Some(&[6]))], Some(2))).await;
    assert_eq!(
        bench.number("SELECT count(*) FROM internal.ib_multicast_group WHERE valid_to IS NULL").await,
        2
    );
    bench.send(groups(180, &[(1, Some(&[6]))], Some(1))).await;
    let rows = bench
        .texts(
            "SELECT mgid || ' ' || coalesce(name, '-') || ' ' || coalesce(members::text, '-') || ' ' || \
             extract(epoch FROM valid_from - min(valid_from) OVER ())::integer || ' ' || \
             coalesce(extract(epoch FROM valid_to - min(valid_from) OVER ())::integer::text, 'now') \
             FROM internal.ib_multicast_group ORDER BY mgid, valid_from",
        )
        .await;
    assert_eq!(
        rows,
        [
            "ff12:401b:ffff::1 IPoIB 224.0.0.1 all hosts {\"0x0000000000000005\": 1, \"0x0000000000000006\": 1} 0 120",
            "ff12:401b:ffff::1 IPoIB 224.0.0.1 all hosts {\"0x0000000000000006\": 1} 120 now",
            "ff12:401b:ffff::2 - - 0 180",
        ]
    );
    // A reading without any group ends all; another fabric's are not touched.
    let other = Batch {
        fabric: throughline_store::testing::fabric(PREFIX + 1),
        ..groups(200, &[(1, None)], Some(1))
    };
    bench.send(other).await;
    bench.send(groups(240, &[], Some(0))).await;
    let left = "SELECT s.name FROM internal.ib_multicast_group g JOIN internal.fabric s ON s.id = g.fabric_id WHERE valid_to IS NULL";
    assert_eq!(bench.texts(left).await, [Guid(PREFIX + 1).to_string()]);
    // Members that are counted and not listed: too many to be recorded.
    let mut many = groups(300, &[(3, Some(&[]))], Some(1));
    many.ib_multicast_groups[0].member_count = Some(70_000);
    bench.send(many).await;
    let counted = "SELECT member_count || ' ' || (members IS NULL) FROM internal.ib_multicast_group WHERE mgid LIKE '%::3'";
    assert_eq!(bench.texts(counted).await, ["70000 true"]);
}
