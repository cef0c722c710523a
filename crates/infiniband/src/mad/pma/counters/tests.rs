//! Decoding of counters, on data written by hand from the specification's tables.

use super::super::counter_index::{GAUGES, counter_index};
use super::*;
use crate::mad::PMA_DATA_BYTES;
use std::collections::BTreeMap;
use throughline_sample::catalogue::{self as metric, Kind, Metric, Table};

fn classes(capabilities: u16, capabilities_2: u32) -> ClassPortInfo {
    ClassPortInfo { capabilities, capabilities_2, redirection: None }
}

fn value(counters: &Counters, metric: &Metric) -> Option<u128> {
    counters.exact(counter_index(metric).unwrap())
}

fn is_saturated(counters: &Counters, metric: &Metric) -> bool {
    counters.is_saturated(counter_index(metric).unwrap())
}

#[test]
fn the_catalogue_fits() {
    let all = Table::IbPortCounters.metrics();
    let counters: Vec<_> = all.iter().filter(|metric| metric.kind == Kind::Counter).collect();
    assert_eq!((counters.len(), all.len()), (METRICS, METRICS + GAUGES));
    for (index, metric) in counters.into_iter().enumerate() {
        assert_eq!(counter_index(metric), Some(index), "{}", metric.name);
        assert_eq!(counter_metrics()[index], *metric);
        let is_words = ["transmit_data_bytes", "receive_data_bytes"].contains(&metric.name);
        assert_eq!(scale(index), if is_words { 4 } else { 1 }, "{}", metric.name);
    }
    assert_eq!(counter_index(&metric::PORT_RATE_BYTES_PER_SECOND), None);
    assert_eq!(counter_index(&metric::TRANSMIT_WAIT_TICK_BYTES), None);
    assert_eq!(counter_index(&metric::MADS_SENT), None);
}

#[test]
fn words_become_bytes_exactly() {
    let mut data = [0; PMA_DATA_BYTES];
    data[8..16].copy_from_slice(&(u64::MAX - 1).to_be_bytes());
    data[16..24].copy_from_slice(&u64::MAX.to_be_bytes());
    let mut counters = Counters::default();
    counters.decode(PortCounterSet::Extended, &data, &classes(0x0200, 0)).unwrap();
    assert_eq!(counters.exact(0), Some(u128::from(u64::MAX - 1) * 4));
    assert_eq!(counters.wrapped(0), Some(u64::MAX - 7));
    assert_eq!(counters.exact(1), None);
    assert!(counters.is_saturated(1));
    assert_eq!(counters.exact(4), Some(0), "unicast packets are there");
    assert_eq!(counters.exact(8), None, "PortXmitWait is in the other set");
}

#[test]
fn a_saturated_counter_has_no_value() {
    let mut data = [0; PMA_DATA_BYTES];
    data[4..6].copy_from_slice(&0xFFFFu16.to_be_bytes()); // SymbolErrorCounter
    data[6] = 254; // LinkErrorRecoveryCounter
    data[19] = 0xF3; // LocalLinkIntegrityErrors 15, ExcessiveBufferOverrunErrors 3
    data[40..44].copy_from_slice(&777u32.to_be_bytes());
    let mut counters = Counters::default();
    counters.decode(PortCounterSet::Classic, &data, &classes(0x1000, 0)).unwrap();
    assert_eq!(value(&counters, &metric::SYMBOL_ERROR), None);
    assert!(is_saturated(&counters, &metric::SYMBOL_ERROR));
    assert_eq!(value(&counters, &metric::LINK_ERROR_RECOVERY), Some(254));
    assert_eq!(value(&counters, &metric::LOCAL_LINK_INTEGRITY_ERRORS), None);
    assert_eq!(value(&counters, &metric::EXCESSIVE_BUFFER_OVERRUN_ERRORS), Some(3));
    assert_eq!(value(&counters, &metric::TRANSMIT_WAIT), Some(777));
    assert_eq!(value(&counters, &metric::QP1_DROPPED), None, "not supported: absent");
    assert_eq!(
        value(&counters, &metric::TRANSMIT_DATA_BYTES),
        Some(0),
        "no extended set: the classic one counts"
    );
}

/// PortCountersExtended with all it can have: one MAD does, and nothing of it is 16 bits wide.
#[test]
fn errors_in_64_bits() {
    let mut data = [0; PMA_DATA_BYTES];
    // The offsets of the specification's table in bytes, each with a value of its own.
    let fields = [
        (&metric::TRANSMIT_DATA_BYTES, 8),
        (&metric::MULTICAST_RECEIVE_PACKETS, 64),
        (&metric::SYMBOL_ERROR, 72),
        (&metric::LINK_ERROR_RECOVERY, 80),
        (&metric::LINK_DOWNED, 88),
        (&metric::RECEIVE_ERRORS, 96),
        (&metric::RECEIVE_REMOTE_PHYSICAL_ERRORS, 104),
        (&metric::RECEIVE_SWITCH_RELAY_ERRORS, 112),
        (&metric::TRANSMIT_DISCARDS, 120),
        (&metric::TRANSMIT_CONSTRAINT_ERRORS, 128),
        (&metric::RECEIVE_CONSTRAINT_ERRORS, 136),
        (&metric::LOCAL_LINK_INTEGRITY_ERRORS, 144),
        (&metric::EXCESSIVE_BUFFER_OVERRUN_ERRORS, 152),
        (&metric::VL15_DROPPED, 160),
        (&metric::TRANSMIT_WAIT, 168),
        (&metric::QP1_DROPPED, 176),
    ];
    for (_, byte) in fields {
        data[byte..byte + 8].copy_from_slice(&(0x1_0000_0000 * byte as u64 + 0xFFFF).to_be_bytes());
    }
    let mut counters = Counters::default();
    let info = classes(0x9200, 1 << 1);
    let taken = counters.decode(PortCounterSet::Extended, &data, &info).unwrap();
    for (metric, byte) in fields {
        let words = if metric.name == "transmit_data_bytes" { 4 } else { 1 };
        let expected = (0x1_0000_0000 * byte as u128 + 0xFFFF) * words;
        assert_eq!(value(&counters, metric), Some(expected), "{}", metric.name);
    }
    assert_eq!(taken.metrics.count_ones(), 22);
    assert!(counters.decode(PortCounterSet::Extended, &data[..183], &info).is_err());
    // The same bytes from an agent that does not say so.
    let mut counters = Counters::default();
    counters.decode(PortCounterSet::Extended, &data, &classes(0x9200, 0)).unwrap();
    assert_eq!(value(&counters, &metric::SYMBOL_ERROR), None);
}

#[test]
fn details_are_where_the_tables_say() {
    let mut data = [0; PMA_DATA_BYTES];
    for (place, chunk) in data[4..16].chunks_mut(2).enumerate() {
        chunk.copy_from_slice(&(place as u16 + 1).to_be_bytes());
    }
    let info = ClassPortInfo::default();
    let mut counters = Counters::default();
    counters.decode(PortCounterSet::ReceiveErrorDetails, &data, &info).unwrap();
    assert_eq!(value(&counters, &metric::LOCAL_PHYSICAL_ERRORS), Some(1));
    assert_eq!(value(&counters, &metric::LOOPING_ERRORS), Some(6));
    assert_eq!(value(&counters, &metric::INACTIVE_DISCARDS), None);
    counters.decode(PortCounterSet::DiscardDetails, &data, &info).unwrap();
    assert_eq!(value(&counters, &metric::INACTIVE_DISCARDS), Some(1));
    assert_eq!(value(&counters, &metric::SWITCH_HOQ_LIFETIME_LIMIT_DISCARDS), Some(4));
    counters.decode(PortCounterSet::FlowControl, &data, &info).unwrap();
    assert_eq!(value(&counters, &metric::TRANSMIT_FLOW_PACKETS), Some(0x1_0002));
    counters.decode(PortCounterSet::Operations, &data, &info).unwrap();
    assert_eq!(value(&counters, &metric::OPERATION_RECEIVE_DATA), Some(0x3_0004));
}

#[test]
fn error_correction_by_port_or_by_lane() {
    let mut data = [0; PMA_DATA_BYTES];
    data[16..18].copy_from_slice(&5_u16.to_be_bytes());
    for lane in 0..4 {
        data[44 + lane * 4..48 + lane * 4].copy_from_slice(&10_u32.to_be_bytes());
        data[92 + lane * 4..96 + lane * 4].copy_from_slice(&(lane as u32).to_be_bytes());
    }
    let mut counters = Counters::default();
    let info = classes(1 << 14, 0);
    counters.decode(PortCounterSet::ExtendedSpeeds, &data, &info).unwrap();
    assert_eq!(value(&counters, &metric::SYNC_HEADER_ERRORS), Some(5));
    assert_eq!(value(&counters, &metric::FEC_CORRECTED_BLOCKS), Some(40), "the sum over lanes");
    assert_eq!(value(&counters, &metric::FEC_UNCORRECTED_BLOCKS), Some(6));
    assert_eq!(value(&counters, &metric::FEC_CORRECTED_SYMBOLS), None);
    data[140..144].copy_from_slice(&1000_u32.to_be_bytes());
    data[144..148].copy_from_slice(&7_u32.to_be_bytes());
    data[148..152].copy_from_slice(&1234_u32.to_be_bytes());
    counters.decode(PortCounterSet::ExtendedSpeeds, &data, &info).unwrap();
    assert_eq!(value(&counters, &metric::FEC_CORRECTED_BLOCKS), Some(1000), "Reed-Solomon: of the port");
    assert_eq!(value(&counters, &metric::FEC_UNCORRECTED_BLOCKS), Some(7));
    assert_eq!(value(&counters, &metric::FEC_CORRECTED_SYMBOLS), Some(1234));
}

#[test]
fn a_clear_is_seen_even_of_one_counter_and_after_an_outage() {
    let info = classes(0x1200, 0);
    let mut data = [0; PMA_DATA_BYTES];
    data[4..6].copy_from_slice(&9_u16.to_be_bytes());
    data[40..44].copy_from_slice(&70_u32.to_be_bytes());
    let mut counters = Counters::default();
    assert!(!counters.decode(PortCounterSet::Classic, &data, &info).unwrap().went_back, "the first reading");
    assert!(!counters.decode(PortCounterSet::Classic, &data, &info).unwrap().went_back);
    counters.discard(PortCounterSet::Classic, &info);
    assert!(counters.is_empty(), "not read: absent");
    data[4..6].copy_from_slice(&8_u16.to_be_bytes());
    data[40..44].copy_from_slice(&80_u32.to_be_bytes());
    assert!(
        counters.decode(PortCounterSet::Classic, &data, &info).unwrap().went_back,
        "held against the last"
    );
    data[4..6].fill(0xFF);
    assert!(!counters.decode(PortCounterSet::Classic, &data, &info).unwrap().went_back);
    data[4..6].copy_from_slice(&0xFFFE_u16.to_be_bytes());
    let taken = counters.decode(PortCounterSet::Classic, &data, &info).unwrap();
    assert!(taken.went_back, "a saturated counter that counts again was cleared");
}

#[test]
fn parts_make_the_same_counters() {
    let info = classes(0x1200, 0);
    let mut data = [0; PMA_DATA_BYTES];
    data[4..6].fill(0xFF);
    data[6] = 3;
    let mut counters = Counters::default();
    counters.decode(PortCounterSet::Classic, &data, &info).unwrap();
    let (known, saturated, values) = counters.parts();
    let mut values = values.collect::<Vec<_>>().into_iter();
    let mut again = Counters::from_parts(known, saturated, || values.next()).unwrap();
    assert!(again.is_empty(), "read by another process: only to be held against");
    assert_eq!(values.next(), None);
    data[6] = 2;
    assert!(again.decode(PortCounterSet::Classic, &data, &info).unwrap().went_back);
    assert_eq!(Counters::from_parts(1 << METRICS, 0, || Some(0)), None);
    assert_eq!(Counters::from_parts(1, 0, || None), None);
}

#[test]
fn the_catalogue_has_the_end_of_every_counter() {
    use crate::mad::pma::fields::fields;
    let capabilities = classes(1 << 12 | 1 << 14 | 1 << 15, 0);
    let mut ends: BTreeMap<&str, u64> = BTreeMap::new();
    for set in PortCounterSet::ALL {
        fields(set, &capabilities, |table| {
            for field in table {
                let end = ends.entry(counter_metrics()[field.index].name).or_insert(u64::MAX);
                *end = field.largest().min(*end);
            }
        });
    }
    for metric in counter_metrics().iter().filter(|metric| metric.end().is_some()) {
        assert_eq!(metric.end(), ends.get(metric.name).copied(), "{}", metric.name);
    }
}
