//! Records of the fabric's inventory.

use super::*;

/// Ports of a node of the fabric.
const NODE_PORTS_MAX: usize = 256;
/// LID mask control of a port: three bits (IBTA 14.2.5.6).
const LMC_MAX: u32 = 7;
/// Forwarding table: 48 Ki unicast LIDs (IBTA 4.1.1).
const FORWARDING_MAX: usize = 48 << 10;
/// Multicast LIDs, 0xC000 to 0xFFFE.
const MULTICAST_MAX: usize = 16 << 10;
/// Members of a multicast group: ports of a subnet have 48 Ki unicast LIDs (IBTA 4.1.1).
const MULTICAST_MEMBERS_MAX: usize = 48 << 10;
/// Bytes of a multicast GID (IBTA 4.1.1).
const MGID_BYTES: usize = 16;
/// Join states are four bits (IBTA 15.2.5.17), service levels as well (7.7.1).
const FOUR_BITS: u32 = 15;

impl Checked for IbNodeInfo {
    fn check(&mut self, check: &mut Check) -> Result<(), Rejection> {
        check.generation(self.generation)?;
        optional(&self.r#type)?;
        clean(&mut self.description);
        for value in [self.lid, self.device_id, self.vendor_id] {
            small(value)?;
        }
        at_most(self.ports.len(), NODE_PORTS_MAX)?;
        at_most(self.linear_forwarding_table.len(), FORWARDING_MAX)?;
        optional(self.routing.as_deref().unwrap_or_default())?;
        self.ports.iter().try_for_each(|port| {
            number(port.port.max(port.remote_port.unwrap_or(0)), PORT_MAX)?;
            small(port.lid)?;
            number(port.lmc.unwrap_or_default(), LMC_MAX)?;
            large(port.rate_bytes_per_second)?;
            [&port.state, &port.physical_state, &port.width, &port.speed]
                .into_iter()
                .try_for_each(|text| optional(text))
        })
    }
}

impl Checked for IbTopologyMark {
    fn check(&mut self, check: &mut Check) -> Result<(), Rejection> {
        check.generation(self.generation)?;
        check.generation(self.time)
    }
}

impl Checked for IbMulticastTable {
    fn check(&mut self, check: &mut Check) -> Result<(), Rejection> {
        check.generation(self.generation)?;
        at_most(self.entries.len(), MULTICAST_MAX)?;
        self.entries.iter().try_for_each(|entry| {
            number(entry.mlid, u16::MAX)?;
            at_most(entry.ports.len(), NODE_PORTS_MAX)
        })
    }
}

impl Checked for IbMulticastGroup {
    fn check(&mut self, check: &mut Check) -> Result<(), Rejection> {
        check.generation(self.generation)?;
        if self.mgid.len() != MGID_BYTES {
            return Err(Rejection::Size);
        }
        optional(&self.name)?;
        number(self.mlid.max(self.pkey), u16::MAX)?;
        number(self.service_level, FOUR_BITS)?;
        small(self.mtu_bytes.unwrap_or(0).max(self.member_count.unwrap_or(0)))?;
        large(self.rate_bytes_per_second.unwrap_or(0))?;
        at_most(self.members.len(), MULTICAST_MEMBERS_MAX)?;
        self.members.iter().try_for_each(|member| number(member.join_state, FOUR_BITS))
    }
}

impl Checked for IbMulticastMark {
    fn check(&mut self, check: &mut Check) -> Result<(), Rejection> {
        check.generation(self.generation)?;
        small(self.groups)
    }
}
