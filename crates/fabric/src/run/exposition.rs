//! `/metrics`: the last sweep, with the names that infiniband_exporter's users query. Reads no device.

use super::shared::Shared;
use std::sync::Arc;
use std::time::Duration;
use throughline_daemon::{Expose, Page};
use throughline_fabric::mad::NodeKind;
use throughline_fabric::records::stored_values;
use throughline_fabric::topology::{Node, Port, Topology};
use throughline_sample::catalogue::{
    HCA_PORT_PREFIX, HCA_UPLINK_INFO, HCA_UPLINK_LABELS, SWITCH_PORT_PREFIX, SWITCH_UPLINK_INFO,
    SWITCH_UPLINK_LABELS,
};

/// A sweep older than this is not shown: absent is not old.
const STALE_AFTER: Duration = Duration::from_secs(150);

/// The last sweep on the page.
pub struct Exposition(pub Arc<Shared>);

impl Expose for Exposition {
    fn expose(&self, page: &mut Page) {
        let Some(last) = self.0.last().filter(|last| last.at.elapsed() < STALE_AFTER) else { return };
        for reading in last.readings.iter() {
            let prefix = match reading.kind {
                NodeKind::Switch => SWITCH_PORT_PREFIX,
                _ => HCA_PORT_PREFIX,
            };
            let (guid, port) = (reading.guid.to_string(), reading.port.to_string());
            let labels = [("guid", guid.as_str()), ("port", port.as_str())];
            for (metric, value) in stored_values(reading) {
                page.metric(metric, prefix, &labels, value);
            }
        }
        uplinks(page, &last.topology);
    }
}

fn uplinks(page: &mut Page, topology: &Topology) {
    for node in &topology.nodes {
        for port in node.physical_ports() {
            if let Some(remote) = port.remote {
                uplink(page, node, port, &topology.nodes[remote.node], remote.port);
            }
        }
    }
}

fn uplink(page: &mut Page, node: &Node, port: &Port, remote: &Node, remote_port: u8) {
    let (name, labels, help) = match node.kind {
        NodeKind::Switch => (SWITCH_UPLINK_INFO, SWITCH_UPLINK_LABELS, "The cable of a switch's port."),
        _ => (HCA_UPLINK_INFO, HCA_UPLINK_LABELS, "The cable of an adapter's port."),
    };
    let (guid, number) = (node.guid.to_string(), port.number.to_string());
    let (remote_guid, remote_number, remote_lid) =
        (remote.guid.to_string(), remote_port.to_string(), remote.lid().to_string());
    let kind = match remote.kind {
        NodeKind::Switch => "SW",
        NodeKind::Ca => "CA",
        NodeKind::Router => "RT",
    };
    let values = [
        guid.as_str(),
        &number,
        &node.description,
        &remote.description,
        &remote_guid,
        &remote_lid,
        &remote_number,
        kind,
    ];
    let labels: Vec<(&str, &str)> = labels.into_iter().zip(values).collect();
    page.info(name, help, &labels);
}
