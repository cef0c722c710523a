//! The codec against hand-made bytes, and against any bytes at all.

use super::*;
use proptest::prelude::*;
use throughline_sample::Guid;

#[test]
fn a_directed_request_has_the_specified_layout() {
    let mut mad = [0xAA; MAD_BYTES];
    let path = DirectedPath::local().through(1).unwrap().through(17).unwrap();
    let query = Query { attribute: attribute::PORT_INFO, modifier: 5, port_select: 0 };
    build_smp_get(&mut mad, &path, &query, 0x0102_0304);
    assert_eq!(&mad[..8], &[1, 0x81, 1, 1, 0, 0, 0, 2]);
    assert_eq!(&mad[8..24], &[0, 0, 0, 0, 1, 2, 3, 4, 0, 0x15, 0, 0, 0, 0, 0, 5]);
    assert_eq!(&mad[32..36], &[0xFF; 4]);
    assert_eq!(&mad[128..132], &[0, 1, 17, 0]);
    assert_eq!(path.ports(), &[1, 17]);
}

#[test]
fn a_performance_request_names_its_port() {
    let mut mad = [0xAA; MAD_BYTES];
    let query = Query { attribute: attribute::PORT_COUNTERS, modifier: 0, port_select: 9 };
    build_performance_get(&mut mad, &query, 7);
    assert_eq!(&mad[..4], &[1, 4, 1, 1]);
    assert_eq!(mad[DATA_OFFSET + 1], 9);
    let header = reply_header(&mad);
    assert!(!header.is_response);
    assert_eq!((header.transaction, header.attribute), (7, attribute::PORT_COUNTERS));
}

#[test]
fn a_route_ends_after_63_hops() {
    let mut path = DirectedPath::local();
    for _ in 0..MAX_HOPS {
        path = path.through(1).unwrap();
    }
    assert_eq!(path.ports().len(), MAX_HOPS);
    assert_eq!(path.through(1), None);
}

#[test]
fn node_info_and_port_info_decode() {
    let mut data = [0; SMP_DATA_BYTES];
    data[2] = 2;
    data[3] = 36;
    data[12..20].copy_from_slice(&0x0002_c902_0000_0010_u64.to_be_bytes());
    data[30..32].copy_from_slice(&0xbd36_u16.to_be_bytes());
    data[36] = 7;
    data[37..40].copy_from_slice(&[0, 2, 0xc9]);
    let info = NodeInfo::decode(&data).unwrap();
    assert_eq!((info.kind, info.port_count, info.local_port), (NodeKind::Switch, 36, 7));
    assert_eq!((info.node_guid, info.vendor_id), (Guid(0x0002_c902_0000_0010), 0x2c9));

    let mut data = [0; SMP_DATA_BYTES];
    data[16..18].copy_from_slice(&0x0123_u16.to_be_bytes());
    data[20..24].copy_from_slice(&PortInfo::CAPABILITY_EXTENDED_SPEEDS.to_be_bytes());
    data[31] = 2; // 4x
    data[32] = 0x74; // Active
    data[33] = 0x52; // LinkUp
    data[34] = 0x03; // LMC 3
    data[35] = 0x47; // QDR
    data[62] = 0x27; // EDR
    data[29] = 3; // enabled: 1x, 4x
    data[30] = 0x1F; // supported: every width
    data[63] = 0xE3; // enabled: FDR, EDR; the first three bits are reserved
    let info = PortInfo::decode(&data).unwrap();
    assert_eq!((info.lid, info.lmc, info.width_active), (0x0123, 3, 2));
    assert_eq!((info.state, info.physical_state.name()), (Some(PortState::Active), "LinkUp"));
    assert_eq!((info.speed_active, info.extended_speed_active), (4, 2));
    assert!(info.is_linked());
    assert_eq!(info.supported, LinkMasks { width: 0x1F, speed: 7, extended_speed: 7 });
    assert_eq!(info.enabled, LinkMasks { width: 3, speed: 7, extended_speed: 3 });
    data[63] = 30;
    assert_eq!(PortInfo::decode(&data).unwrap().enabled.extended_speed, 0, "30 is none");
}

#[test]
fn forwarding_tables_are_read_to_their_top_only() {
    let blocks = |top: u16| SwitchInfo { linear_capacity: 0xC000, linear_top: top, ..SwitchInfo::default() };
    assert_eq!(blocks(0).linear_blocks(), 0);
    assert_eq!(blocks(63).linear_blocks(), 1);
    assert_eq!(blocks(64).linear_blocks(), 2);
    assert_eq!(blocks(0xFFFF).linear_blocks(), 768);
}

#[test]
fn descriptions_are_printable() {
    assert_eq!(node_description(b"node1 mlx5_0\0garbage"), "node1 mlx5_0");
    assert_eq!(node_description(b"a\xFFb\x1B[2J"), "a\u{FFFD}b\u{FFFD}[2J");
    assert_eq!(node_description(b" as it is "), " as it is ", "like ibnetdiscover");
    assert_eq!(node_description(b""), "");
}

proptest! {
    #[test]
    fn any_bytes_decode_or_are_refused(data in proptest::collection::vec(any::<u8>(), 0..300), capabilities: u16) {
        let _ = NodeInfo::decode(&data);
        let _ = PortInfo::decode(&data).map(|info| (info.is_linked(), info.physical_state.name()));
        let _ = SwitchInfo::decode(&data).map(|info| info.linear_blocks());
        let _ = node_description(&data);
        let class = ClassPortInfo::decode(&data).unwrap_or_default();
        for class in [class, ClassPortInfo { capabilities, ..class }] {
            let mut counters = Counters::default();
            let mut lanes = LaneCounters::default();
            let control = SamplesControl::decode(&data).unwrap_or_default();
            for set in PortCounterSet::ALL {
                let taken = counters.decode(set, &data, &class);
                prop_assert!(taken.is_ok() || data.len() < 184, "{:?}", set);
                prop_assert!(lanes.decode(set, &data).is_ok() || data.len() < 184);
                let _ = control.has(set);
            }
            for (metric, lane) in (0..8).flat_map(|metric| (0..LANES).map(move |lane| (metric, lane))) {
                let _ = lanes.value(metric, lane);
            }
            for index in 0..counter_metrics().len() {
                prop_assert_eq!(counters.exact(index).map(|value| value as u64), counters.wrapped(index));
                prop_assert!(!(counters.is_saturated(index) && counters.exact(index).is_some()));
            }
        }
    }

    #[test]
    fn any_mad_has_a_header(bytes in proptest::collection::vec(any::<u8>(), MAD_BYTES)) {
        let mad: Mad = bytes.try_into().unwrap();
        let header = reply_header(&mad);
        prop_assert_eq!(header.class, mad[1]);
        prop_assert_eq!(smp_data(&mad).len(), SMP_DATA_BYTES);
        prop_assert_eq!(performance_data(&mad).len(), PMA_DATA_BYTES);
    }

    #[test]
    fn fields_agree_with_a_bitwise_reading(data in proptest::collection::vec(any::<u8>(), 0..40), bit in 0usize..320, bits in 1usize..=57) {
        let slow = (bit..bit + bits).fold(0u64, |value, at| {
            let byte = data.get(at / 8).copied().unwrap_or(0);
            value << 1 | u64::from(byte >> (7 - at % 8) & 1)
        });
        prop_assert_eq!(field(&data, bit, bits), slow);
    }
}
