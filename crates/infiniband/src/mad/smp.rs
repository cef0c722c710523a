//! Attributes of subnet management (IBTA volume 1, 14.2.5). Pure decoding.

use super::{SMP_DATA_BYTES, TooShort, be16, be32, be64, expect, field};
use throughline_sample::Guid;
use throughline_sample::admission::is_deceptive;

/// LIDs in one block of a linear forwarding table (14.2.5.10).
pub const LFT_BLOCK_LIDS: usize = 64;
/// Entry of a forwarding table that drops packets (14.2.5.10).
pub const LFT_NO_PORT: u8 = 255;

/// Kind of a node (14.2.5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NodeKind {
    /// Channel adapter.
    Ca,
    /// Switch.
    Switch,
    /// Router.
    Router,
}

impl NodeKind {
    /// The name used in JSON and in records.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            NodeKind::Ca => "ca",
            NodeKind::Switch => "switch",
            NodeKind::Router => "router",
        }
    }
}

/// NodeInfo (14.2.5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeInfo {
    /// Kind; anything unknown is treated as an end node.
    pub kind: NodeKind,
    /// Physical ports, without port 0.
    pub port_count: u8,
    /// System image GUID.
    pub system_guid: Guid,
    /// Node GUID.
    pub node_guid: Guid,
    /// GUID of the port that the request came in by.
    pub port_guid: Guid,
    /// Device ID.
    pub device_id: u16,
    /// Port that the request came in by.
    pub local_port: u8,
    /// Vendor ID, 24 bits.
    pub vendor_id: u32,
}

impl NodeInfo {
    /// Decodes the attribute's data.
    ///
    /// # Errors
    /// [`TooShort`] below 40 bytes.
    pub fn decode(data: &[u8]) -> Result<NodeInfo, TooShort> {
        expect(data, "NodeInfo", 40)?;
        Ok(NodeInfo {
            kind: match data[2] {
                2 => NodeKind::Switch,
                3 => NodeKind::Router,
                _ => NodeKind::Ca,
            },
            port_count: data[3],
            system_guid: Guid(be64(data, 4)),
            node_guid: Guid(be64(data, 12)),
            port_guid: Guid(be64(data, 20)),
            device_id: be16(data, 30),
            local_port: data[36],
            vendor_id: field(data, 296, 24) as u32,
        })
    }
}

/// NodeDescription (14.2.5.2): text up to its first NUL; bytes that are not UTF-8, control characters and those that
/// reorder or hide text are replaced, so that it can be printed and stored anywhere.
#[must_use]
pub fn node_description(data: &[u8]) -> String {
    let text = &data[..data.len().min(SMP_DATA_BYTES)];
    let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
    let text = String::from_utf8_lossy(&text[..end]);
    text.chars().map(|c| if is_deceptive(c) { '\u{FFFD}' } else { c }).collect()
}

/// Logical state of a port (14.2.5.6, PortState).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PortState {
    /// No link.
    Down,
    /// Link, not yet configured: only SMPs pass.
    Initialize,
    /// Configured, data not yet allowed.
    Armed,
    /// Data pass.
    Active,
}

impl PortState {
    /// The reverse of [`PortState::name`]; short forms of the tools are known, too.
    #[must_use]
    pub fn by_name(name: &str) -> Option<PortState> {
        match name {
            "Down" | "DWN" | "DOWN" => Some(PortState::Down),
            "Initialize" | "Init" | "INI" | "INIT" => Some(PortState::Initialize),
            "Armed" | "ARM" => Some(PortState::Armed),
            "Active" | "ACT" => Some(PortState::Active),
            _ => None,
        }
    }

    /// The name as infiniband-diags print it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            PortState::Down => "Down",
            PortState::Initialize => "Initialize",
            PortState::Armed => "Armed",
            PortState::Active => "Active",
        }
    }

    /// From the number in PortInfo.
    #[must_use]
    pub fn by_number(number: u8) -> Option<PortState> {
        PortState::decode(u64::from(number))
    }

    fn decode(value: u64) -> Option<PortState> {
        match value {
            1 => Some(PortState::Down),
            2 => Some(PortState::Initialize),
            3 => Some(PortState::Armed),
            4 => Some(PortState::Active),
            _ => None,
        }
    }
}

/// Physical state of a port (14.2.5.6, PortPhysicalState): the number as it is, with its names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PhysicalState(pub u8);

impl PhysicalState {
    /// The reverse of [`PhysicalState::name`].
    #[must_use]
    pub fn by_name(name: &str) -> Option<PhysicalState> {
        (1..=7).map(PhysicalState).find(|state| state.name() == name)
    }

    /// The link is up.
    pub const LINK_UP: PhysicalState = PhysicalState(5);

    /// The name as infiniband-diags print it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self.0 {
            1 => "Sleep",
            2 => "Polling",
            3 => "Disabled",
            4 => "PortConfigurationTraining",
            5 => "LinkUp",
            6 => "LinkErrorRecovery",
            7 => "PhyTest",
            _ => "Unknown",
        }
    }

    /// Whether the link is up.
    #[must_use]
    pub const fn is_link_up(self) -> bool {
        self.0 == Self::LINK_UP.0
    }
}

/// What is used of PortInfo (14.2.5.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortInfo {
    /// Subnet prefix (GidPrefix).
    pub gid_prefix: u64,
    /// Base LID; meaningful on port 0 of a switch and on end ports.
    pub lid: u16,
    /// LID of the master subnet manager.
    pub sm_lid: u16,
    /// CapabilityMask.
    pub capabilities: u32,
    /// Port that the request came in by.
    pub local_port: u8,
    /// LinkWidthActive as it is: 1, 2, 4, 8, 16 for 1x, 4x, 8x, 12x, 2x.
    pub width_active: u8,
    /// Logical state; `None` for a value that the specification does not have.
    pub state: Option<PortState>,
    /// Physical state.
    pub physical_state: PhysicalState,
    /// LID mask control.
    pub lmc: u8,
    /// LinkSpeedActive as it is: 1, 2, 4 for SDR, DDR, QDR.
    pub speed_active: u8,
    /// LinkSpeedExtActive as it is: 1, 2, 4, 8 for FDR, EDR, HDR, NDR; 0 for none.
    pub extended_speed_active: u8,
    /// LinkSpeedExtActive2 as it is: 1 for XDR; 0 for none, and on devices that do not have it, where it is
    /// reserved.
    pub extended_speed_2_active: u8,
    /// Whether a QDR link runs at FDR10. Not in PortInfo: discovery queries [`MlnxExtPortInfo`] for it.
    pub is_fdr10: bool,
    /// What the port can do.
    pub supported: LinkMasks,
    /// What of it the port is set to use.
    pub enabled: LinkMasks,
}

/// Widths and speeds as PortInfo's bit masks (14.2.5.6): the same bits as in the active values. All 0 where
/// they are not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkMasks {
    /// Widths.
    pub width: u8,
    /// Speeds up to QDR.
    pub speed: u8,
    /// Speeds from FDR on; meaningful where the node has extended speeds.
    pub extended_speed: u8,
}

impl PortInfo {
    /// CapabilityMask bit 14: the extended speed fields are meaningful. On a switch it is port 0 that has it.
    pub const CAPABILITY_EXTENDED_SPEEDS: u32 = 1 << 14;
    /// LinkSpeedExtActive2: 200 Gbit/s a lane. Its place and value are those that the Linux mlx5 driver reads
    /// (bits 1 and 2 of byte 56); IBTA volume 1, release 1.8 names them.
    pub const EXTENDED_SPEED_2_XDR: u8 = 1;

    /// Decodes the attribute's data.
    ///
    /// # Errors
    /// [`TooShort`] below 64 bytes.
    pub fn decode(data: &[u8]) -> Result<PortInfo, TooShort> {
        expect(data, "PortInfo", SMP_DATA_BYTES)?;
        Ok(PortInfo {
            gid_prefix: be64(data, 8),
            lid: be16(data, 16),
            sm_lid: be16(data, 18),
            capabilities: be32(data, 20),
            local_port: data[28],
            width_active: data[31],
            state: PortState::decode(field(data, 260, 4)),
            physical_state: PhysicalState(field(data, 264, 4) as u8),
            lmc: field(data, 277, 3) as u8,
            speed_active: field(data, 280, 4) as u8,
            extended_speed_active: field(data, 496, 4) as u8,
            extended_speed_2_active: field(data, 449, 2) as u8,
            is_fdr10: false,
            supported: LinkMasks {
                width: data[30],
                speed: field(data, 256, 4) as u8,
                extended_speed: field(data, 500, 4) as u8,
            },
            enabled: LinkMasks {
                width: data[29],
                speed: field(data, 284, 4) as u8,
                extended_speed: match field(data, 507, 5) as u8 {
                    EXTENDED_SPEEDS_DISABLED => 0,
                    enabled => enabled & 0xF,
                },
            },
        })
    }

    /// Whether the port has a link, so that a neighbour can be queried.
    #[must_use]
    pub fn is_linked(&self) -> bool {
        self.physical_state.is_link_up() && self.state != Some(PortState::Down)
    }
}

/// What is used of MlnxExtPortInfo, a vendor's attribute of the class of subnet management (0xFF90; its layout
/// is that of libibmad's `fields.c`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MlnxExtPortInfo {
    /// LinkSpeedActive: bit 0 is FDR10.
    pub speed_active: u8,
}

impl MlnxExtPortInfo {
    /// Decodes the attribute's data.
    ///
    /// # Errors
    /// [`TooShort`] below 16 bytes.
    pub fn decode(data: &[u8]) -> Result<MlnxExtPortInfo, TooShort> {
        expect(data, "MlnxExtPortInfo", 16)?;
        Ok(MlnxExtPortInfo { speed_active: data[15] })
    }

    /// Whether the link runs at FDR10.
    #[must_use]
    pub const fn is_fdr10(&self) -> bool {
        self.speed_active & 1 != 0
    }

    /// Whether a device is known to have the attribute: Mellanox's switches and adapters from SwitchX and
    /// ConnectX-3 on and what Bull sells of them, by the device IDs for which infiniband-diags queries it
    /// (`ibdiag_common.c`, `is_mlnx_ext_port_info_supported`). Others may let it time out.
    #[must_use]
    pub const fn is_known_of(vendor_id: u32, device_id: u16) -> bool {
        const MELLANOX: u32 = 0x2C9;
        const BULL: u32 = 0x119F;
        match vendor_id {
            MELLANOX => {
                let is_switch =
                    matches!(device_id, 0xC738..=0xC73B | 0xC839 | 0xCB20 | 0xCF08 | 0xCF09 | 0xD2F0);
                is_switch || matches!(device_id, 0x1003..=0x101B | 0xA2D2)
            }
            BULL => {
                let is_switch = matches!(device_id, 0x1B02 | 0x1B50 | 0x1BA0 | 0x1BD0..=0x1BD5 | 0x1BF0);
                let is_old = matches!(device_id, 0x1B33 | 0x1B73 | 0x1B40 | 0x1B41 | 0x1B60 | 0x1B61);
                let is_new =
                    matches!(device_id, 0x1B83 | 0x1B93 | 0x1B94 | 0x1BB4 | 0x1BB5 | 0x1BC4..=0x1BC6);
                is_switch || is_old || is_new
            }
            _ => false,
        }
    }
}

/// LinkSpeedExtEnabled's value for none (14.2.5.6).
const EXTENDED_SPEEDS_DISABLED: u8 = 30;

/// What is used of SwitchInfo (14.2.5.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SwitchInfo {
    /// LIDs that the linear forwarding table can hold.
    pub linear_capacity: u16,
    /// Highest LID with an entry; nothing is read beyond it.
    pub linear_top: u16,
    /// Multicast forwarding table entries.
    pub multicast_capacity: u16,
    /// Highest multicast LID with an entry, where the switch says so; 0 where it does not, [`NO_MULTICAST`] where
    /// it has none.
    pub multicast_top: u16,
    /// Whether port 0 is an enhanced one, which has counters.
    pub enhanced_port_0: bool,
    /// PortStateChange: a port's state changed since the subnet manager last took note of it.
    pub port_state_change: bool,
}

impl SwitchInfo {
    /// Decodes the attribute's data.
    ///
    /// # Errors
    /// [`TooShort`] below 20 bytes.
    pub fn decode(data: &[u8]) -> Result<SwitchInfo, TooShort> {
        expect(data, "SwitchInfo", 20)?;
        Ok(SwitchInfo {
            linear_capacity: be16(data, 0),
            multicast_capacity: be16(data, 4),
            multicast_top: be16(data, 18),
            linear_top: be16(data, 6),
            enhanced_port_0: field(data, 132, 1) == 1,
            port_state_change: field(data, 93, 1) == 1,
        })
    }

    /// Blocks of the multicast forwarding table to be read: up to the highest entry where the switch reports it, else
    /// all that it can have.
    #[must_use]
    pub fn multicast_blocks(&self) -> u16 {
        let most = self.multicast_capacity.min(MAX_MULTICAST_LID - MIN_MULTICAST_LID + 1);
        let entries = match self.multicast_top {
            // Below the range only "none" has a meaning; what says something else is not believed.
            NO_MULTICAST => 0,
            top if top > NO_MULTICAST => most.min(top.saturating_sub(NO_MULTICAST)),
            _ => most,
        };
        entries.div_ceil(MFT_BLOCK_LIDS as u16)
    }

    /// Blocks of the linear forwarding table in use.
    #[must_use]
    pub fn linear_blocks(&self) -> u16 {
        // A switch without a configured table says top 0: LID 0 is reserved, so there is nothing to read.
        if self.linear_top == 0 {
            0
        } else {
            self.linear_top.min(MAX_UNICAST_LID) / LFT_BLOCK_LIDS as u16 + 1
        }
    }
}

/// LIDs in one block of a multicast forwarding table (14.2.5.12).
pub const MFT_BLOCK_LIDS: usize = 32;
/// Ports in one block of a multicast forwarding table (14.2.5.12): one position of it.
pub const MFT_POSITION_PORTS: usize = 16;
/// Smallest multicast LID (4.1.3).
pub const MIN_MULTICAST_LID: u16 = 0xC000;
/// Largest multicast LID (4.1.3).
pub const MAX_MULTICAST_LID: u16 = 0xFFFE;
/// MulticastFDBTop of a switch without any entry (14.2.5.4): the LID below the smallest.
pub const NO_MULTICAST: u16 = MIN_MULTICAST_LID - 1;

/// Largest unicast LID (4.1.3).
pub const MAX_UNICAST_LID: u16 = 0xBFFF;

/// SMInfo (14.2.5.13): what a subnet manager says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmInfo {
    /// GUID of its port.
    pub guid: Guid,
    /// Grows as long as it works; what it counts is its own affair.
    pub activity: u32,
    /// Priority, 0 to 15: the highest one is master.
    pub priority: u8,
    /// State.
    pub state: SmState,
}

impl SmInfo {
    /// Decodes the attribute's data.
    ///
    /// # Errors
    /// [`TooShort`] below 21 bytes.
    pub fn decode(data: &[u8]) -> Result<SmInfo, TooShort> {
        expect(data, "SMInfo", 21)?;
        Ok(SmInfo {
            guid: Guid(be64(data, 0)),
            activity: be32(data, 16),
            priority: data[20] >> 4,
            state: SmState(data[20] & 0x0F),
        })
    }
}

/// State of a subnet manager (14.2.5.13, SMState): the number as it is, with its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmState(pub u8);

impl SmState {
    /// The one that manages the subnet.
    pub const MASTER: SmState = SmState(3);

    /// The name as infiniband-diags print it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self.0 {
            0 => "not active",
            1 => "discovering",
            2 => "standby",
            3 => "master",
            _ => "unknown",
        }
    }
}
