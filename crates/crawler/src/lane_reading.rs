//! Reads service levels of paths from the subnet administrator and lane mappings from switches, so that cycles of links
//! can be judged by lane.

use crate::engine::{Engine, EngineError};
use crate::sa::{Client, SaError};
use crate::smp_batch::{SmpGet, get_all};
use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use throughline_infiniband::mad::attribute;
use throughline_infiniband::mad::sa::{self, PathRecord};
use throughline_infiniband::route::{LaneMap, LanePairs, SwitchCrossing, decode_lane_map};
use throughline_infiniband::topology::Topology;

/// PathRecord (15.2.5.16): component numbers and bytes of destination LID, source LID and number of paths.
const DESTINATION_LID: (u32, usize) = (4, 40);
const SOURCE_LID: (u32, usize) = (5, 42);
const NUMBER_OF_PATHS: (u32, usize) = (12, 49);

/// The service level of each pair, `None` where the administrator knows no path or did not answer for it.
///
/// # Errors
/// [`SaError`]: no administrator, stopped, or the transport does not work.
pub fn read_service_levels(
    client: &mut Client,
    pairs: &LanePairs,
    stop: &AtomicBool,
) -> Result<Vec<Option<u8>>, SaError> {
    let query = |(source, destination): (u16, u16)| {
        sa::Query::all(sa::attribute::PATH)
            .with(DESTINATION_LID.0, DESTINATION_LID.1, &destination.to_be_bytes())
            .with(SOURCE_LID.0, SOURCE_LID.1, &source.to_be_bytes())
            .with(NUMBER_OF_PATHS.0, NUMBER_OF_PATHS.1, &[1])
    };
    let queries: Vec<sa::Query> = pairs.lids().map(query).collect();
    let mut levels = vec![None; queries.len()];
    client.get_many(&queries, stop, &mut |position, record| {
        let path = record.ok().flatten().and_then(|record| PathRecord::decode(record).ok());
        if let (Some(level), Some(path)) = (levels.get_mut(position), path) {
            *level = Some(path.service_level);
        }
    })?;
    Ok(levels)
}

/// The mapping of each crossing; those that a switch did not report are not there.
///
/// # Errors
/// [`EngineError`].
pub fn read_lane_maps(
    engine: &mut Engine,
    topology: &Topology,
    pairs: &LanePairs,
    stop: &AtomicBool,
) -> Result<HashMap<SwitchCrossing, LaneMap>, EngineError> {
    let crossings: Vec<SwitchCrossing> = pairs.crossings().into_iter().collect();
    let request = |(node, in_port, out_port): &SwitchCrossing| SmpGet {
        node: *node,
        attribute: attribute::SL_TO_VL_MAPPING,
        modifier: u32::from(*in_port) << 8 | u32::from(*out_port),
        is_trial: false,
    };
    let requests: Vec<SmpGet> = crossings.iter().map(request).collect();
    let mut maps = HashMap::new();
    get_all(engine, topology, &requests, stop, &mut |position, answer| {
        let map = answer.ok().and_then(decode_lane_map);
        if let (Some(crossing), Some(map)) = (crossings.get(position), map) {
            maps.insert(*crossing, map);
        }
    })?;
    Ok(maps)
}
