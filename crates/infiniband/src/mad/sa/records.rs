//! Records of the subnet administrator (IBTA volume 1, 15.2.5). Pure decoding.

use crate::mad::{
    LFT_BLOCK_LIDS, NodeInfo, PortInfo, SwitchInfo, TooShort, be16, be32, be64, expect, field,
    node_description,
};
use throughline_sample::Guid;

/// A GID: subnet prefix and port GUID, or a multicast address.
pub type Gid = u128;

fn gid(data: &[u8], at: usize) -> Gid {
    u128::from(be64(data, at)) << 64 | u128::from(be64(data, at + 8))
}

/// NodeRecord (15.2.5.2): one for each LID range, so one for each port of a channel adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRecord {
    /// LID of the port that NodeInfo describes.
    pub lid: u16,
    /// NodeInfo.
    pub info: NodeInfo,
    /// NodeDescription.
    pub description: String,
}

impl NodeRecord {
    /// Decodes a record.
    ///
    /// # Errors
    /// [`TooShort`] below 108 bytes.
    pub fn decode(data: &[u8]) -> Result<NodeRecord, TooShort> {
        expect(data, "NodeRecord", 108)?;
        Ok(NodeRecord {
            lid: be16(data, 0),
            info: NodeInfo::decode(&data[4..44])?,
            description: node_description(&data[44..108]),
        })
    }
}

/// PortInfoRecord (15.2.5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortInfoRecord {
    /// LID of the end port, or of a switch's port 0.
    pub lid: u16,
    /// Number of the port.
    pub port: u8,
    /// PortInfo.
    pub info: PortInfo,
}

impl PortInfoRecord {
    /// Decodes a record.
    ///
    /// # Errors
    /// [`TooShort`] below 68 bytes.
    pub fn decode(data: &[u8]) -> Result<PortInfoRecord, TooShort> {
        expect(data, "PortInfoRecord", 68)?;
        Ok(PortInfoRecord { lid: be16(data, 0), port: data[2], info: PortInfo::decode(&data[4..68])? })
    }
}

/// SwitchInfoRecord (15.2.5.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchInfoRecord {
    /// LID of the switch.
    pub lid: u16,
    /// SwitchInfo.
    pub info: SwitchInfo,
}

impl SwitchInfoRecord {
    /// Decodes a record.
    ///
    /// # Errors
    /// [`TooShort`] below 24 bytes.
    pub fn decode(data: &[u8]) -> Result<SwitchInfoRecord, TooShort> {
        expect(data, "SwitchInfoRecord", 24)?;
        Ok(SwitchInfoRecord { lid: be16(data, 0), info: SwitchInfo::decode(&data[4..])? })
    }
}

/// LinkRecord (15.2.5.13): one direction of a cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkRecord {
    /// LID of the node at this end.
    pub from_lid: u16,
    /// Its port.
    pub from_port: u8,
    /// Port at the other end.
    pub to_port: u8,
    /// LID of the node at the other end.
    pub to_lid: u16,
}

impl LinkRecord {
    /// Decodes a record.
    ///
    /// # Errors
    /// [`TooShort`] below 6 bytes.
    pub fn decode(data: &[u8]) -> Result<LinkRecord, TooShort> {
        expect(data, "LinkRecord", 6)?;
        Ok(LinkRecord {
            from_lid: be16(data, 0),
            from_port: data[2],
            to_port: data[3],
            to_lid: be16(data, 4),
        })
    }
}

/// LinearForwardingTableRecord (15.2.5.6): one block of a switch's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForwardingBlock {
    /// LID of the switch.
    pub lid: u16,
    /// Number of the block.
    pub block: u16,
    /// Output ports of its LIDs.
    pub ports: [u8; LFT_BLOCK_LIDS],
}

impl ForwardingBlock {
    /// Decodes a record.
    ///
    /// # Errors
    /// [`TooShort`] below 72 bytes.
    pub fn decode(data: &[u8]) -> Result<ForwardingBlock, TooShort> {
        expect(data, "LinearForwardingTableRecord", 8 + LFT_BLOCK_LIDS)?;
        let mut ports = [0; LFT_BLOCK_LIDS];
        ports.copy_from_slice(&data[8..8 + LFT_BLOCK_LIDS]);
        Ok(ForwardingBlock { lid: be16(data, 0), block: be16(data, 2), ports })
    }
}

/// LIDs in one block of a multicast forwarding table (14.2.5.12).
pub const MFT_BLOCK_LIDS: usize = 32;

/// MulticastForwardingTableRecord (15.2.5.8): 16 ports of 32 multicast LIDs of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MulticastBlock {
    /// LID of the switch.
    pub lid: u16,
    /// Number of the block: its first LID is 0xC000 + 32 x block.
    pub block: u16,
    /// Position: bit 0 of a mask is port 16 x position.
    pub position: u8,
    /// Mask of output ports for each LID.
    pub masks: [u16; MFT_BLOCK_LIDS],
}

impl MulticastBlock {
    /// Decodes a record.
    ///
    /// # Errors
    /// [`TooShort`] below 72 bytes.
    pub fn decode(data: &[u8]) -> Result<MulticastBlock, TooShort> {
        expect(data, "MulticastForwardingTableRecord", 8 + 2 * MFT_BLOCK_LIDS)?;
        Ok(MulticastBlock {
            lid: be16(data, 0),
            block: be16(data, 2) & 0x01FF,
            position: field(data, 16, 4) as u8,
            masks: std::array::from_fn(|entry| be16(data, 8 + 2 * entry)),
        })
    }
}

/// SMInfoRecord (15.2.5.19): a subnet manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmInfoRecord {
    /// LID of its port.
    pub lid: u16,
    /// What it says of itself.
    pub info: crate::mad::SmInfo,
}

impl SmInfoRecord {
    /// Decodes a record.
    ///
    /// # Errors
    /// [`TooShort`] below 25 bytes.
    pub fn decode(data: &[u8]) -> Result<SmInfoRecord, TooShort> {
        expect(data, "SMInfoRecord", 25)?;
        Ok(SmInfoRecord { lid: be16(data, 0), info: crate::mad::SmInfo::decode(&data[4..])? })
    }
}

/// MCMemberRecord (15.2.5.17): a member of a multicast group; or the group, where the asker is not trusted: then
/// the port's GID is 0 and nothing is said of how it takes part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct McMember {
    /// Multicast GID.
    pub group: Gid,
    /// GID of the member's port; 0 where it is not reported.
    pub port: Gid,
    /// Queue key; `None` where only files report the group, which lack it.
    pub queue_key: Option<u32>,
    /// Multicast LID.
    pub mlid: u16,
    /// MTU as coded: 1 to 5 for 256 to 4096 bytes.
    pub mtu: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Partition key.
    pub pkey: u16,
    /// Rate as coded (14.2.5.6, 15.2.5.17).
    pub rate: u8,
    /// Service level.
    pub service_level: u8,
    /// Flow label.
    pub flow_label: u32,
    /// Hop limit.
    pub hop_limit: u8,
    /// Scope: 2 link-local, 5 site-local, 14 global.
    pub scope: u8,
    /// Bits: 1 full member, 2 non-member, 4 send-only; 0 where it is not reported.
    pub join_state: u8,
    /// Whether somebody else joined for it.
    pub is_proxy: bool,
}

impl McMember {
    /// Decodes a record.
    ///
    /// # Errors
    /// [`TooShort`] below 50 bytes.
    pub fn decode(data: &[u8]) -> Result<McMember, TooShort> {
        expect(data, "MCMemberRecord", 50)?;
        Ok(McMember {
            group: gid(data, 0),
            port: gid(data, 16),
            queue_key: Some(be32(data, 32)),
            mlid: be16(data, 36),
            // The upper two bits of these say how a value compares, in requests.
            mtu: data[38] & 0x3F,
            traffic_class: data[39],
            pkey: be16(data, 40),
            rate: data[42] & 0x3F,
            service_level: field(data, 352, 4) as u8,
            flow_label: field(data, 356, 20) as u32,
            hop_limit: data[47],
            scope: data[48] >> 4,
            join_state: data[48] & 0x0F,
            is_proxy: data[49] & 0x80 != 0,
        })
    }

    /// GUID of the member's port; `None` where it is not reported.
    #[must_use]
    pub fn port_guid(&self) -> Option<Guid> {
        let guid = self.port as u64;
        (guid != 0).then_some(Guid(guid))
    }
}

/// PathRecord (15.2.5.16).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathRecord {
    /// Destination GID.
    pub destination: Gid,
    /// Source GID.
    pub source: Gid,
    /// Destination LID.
    pub destination_lid: u16,
    /// Source LID.
    pub source_lid: u16,
    /// Whether the way back is the same.
    pub is_reversible: bool,
    /// Partition key.
    pub pkey: u16,
    /// Service level.
    pub service_level: u8,
    /// MTU as coded.
    pub mtu: u8,
    /// Rate as coded.
    pub rate: u8,
}

impl PathRecord {
    /// Decodes a record.
    ///
    /// # Errors
    /// [`TooShort`] below 64 bytes.
    pub fn decode(data: &[u8]) -> Result<PathRecord, TooShort> {
        expect(data, "PathRecord", 64)?;
        Ok(PathRecord {
            destination: gid(data, 8),
            source: gid(data, 24),
            destination_lid: be16(data, 40),
            source_lid: be16(data, 42),
            is_reversible: data[49] & 0x80 != 0,
            pkey: be16(data, 50),
            service_level: data[53] & 0x0F,
            mtu: data[54] & 0x3F,
            rate: data[55] & 0x3F,
        })
    }
}
