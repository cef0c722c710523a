//! Subscription to traps and their Reports: InformInfo (IBTA volume 1, 13.4.8.3) and Notice (13.4.8.2). Pure.

use super::{Query, TEMPLATE_BYTES, attribute};
use crate::mad::{TooShort, be16, be32, be64, expect, field};
use throughline_sample::Guid;

/// Trap numbers of generic traps (14.2.5.1, table "Traps").
pub mod trap {
    /// A port came into service.
    pub const IN_SERVICE: u16 = 64;
    /// A port went out of service.
    pub const OUT_OF_SERVICE: u16 = 65;
    /// A multicast group was created.
    pub const GROUP_CREATED: u16 = 66;
    /// A multicast group was deleted.
    pub const GROUP_DELETED: u16 = 67;
    /// The state of a link of a switch changed.
    pub const LINK_STATE: u16 = 128;
    /// Local link integrity threshold reached.
    pub const LINK_INTEGRITY: u16 = 129;
    /// Excessive buffer overrun threshold reached.
    pub const BUFFER_OVERRUN: u16 = 130;
    /// Flow control update watchdog timer expired.
    pub const FLOW_CONTROL: u16 = 131;
    /// Capability mask, or node description, or speeds, or SM priority changed.
    pub const CAPABILITY: u16 = 144;
    /// System image GUID changed.
    pub const SYSTEM_GUID: u16 = 145;
    /// Bad M_Key.
    pub const BAD_M_KEY: u16 = 256;
    /// Bad P_Key.
    pub const BAD_P_KEY: u16 = 257;
    /// Bad Q_Key.
    pub const BAD_Q_KEY: u16 = 258;
    /// Bad P_Key seen by a switch.
    pub const BAD_SWITCH_P_KEY: u16 = 259;
}

/// Who produced a notice (13.4.8.2, ProducerType).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Producer {
    /// Channel adapter.
    Ca,
    /// Switch.
    Switch,
    /// Router.
    Router,
    /// Class manager: the subnet manager itself.
    Manager,
    /// Anything else.
    Other(u32),
}

impl Producer {
    const fn decode(value: u32) -> Producer {
        match value {
            1 => Producer::Ca,
            2 => Producer::Switch,
            3 => Producer::Router,
            4 => Producer::Manager,
            other => Producer::Other(other),
        }
    }
}

/// What a notice is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A port or group by GID.
    Gid(u128),
    /// The node or port with this LID; the port's number where it is reported.
    Lid {
        /// LID.
        lid: u16,
        /// Port.
        port: Option<u8>,
    },
    /// Nothing that is understood here.
    Unknown,
}

/// Notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Whether the specification defines its meaning; otherwise a vendor does.
    pub is_generic: bool,
    /// 0 fatal, 1 urgent, 2 security, 3 subnet management, 4 informational.
    pub severity: u8,
    /// Producer of a generic one, else `Other` with the vendor's ID.
    pub producer: Producer,
    /// Trap number, or the device's ID.
    pub number: u16,
    /// LID of the issuer.
    pub issuer_lid: u16,
    /// GID of the issuer.
    pub issuer: u128,
    /// The object that it reports on.
    pub subject: Subject,
    /// New capability mask of trap 144.
    pub capabilities: Option<u32>,
}

impl Notice {
    /// Decodes the attribute's data.
    ///
    /// # Errors
    /// [`TooShort`] below 80 bytes.
    pub fn decode(data: &[u8]) -> Result<Notice, TooShort> {
        expect(data, "Notice", 80)?;
        let is_generic = data[0] & 0x80 != 0;
        let producer = field(data, 8, 24) as u32;
        let number = be16(data, 4);
        // Data details begin at byte 10; their layout depends on the trap.
        let subject = match number {
            _ if !is_generic => Subject::Unknown,
            trap::IN_SERVICE..=trap::GROUP_DELETED => Subject::Gid(gid(data, 16)),
            trap::LINK_STATE => Subject::Lid { lid: be16(data, 10), port: None },
            trap::LINK_INTEGRITY..=trap::FLOW_CONTROL => {
                Subject::Lid { lid: be16(data, 12), port: Some(data[14]) }
            }
            trap::CAPABILITY | trap::SYSTEM_GUID | trap::BAD_M_KEY => {
                Subject::Lid { lid: be16(data, 12), port: None }
            }
            trap::BAD_P_KEY | trap::BAD_Q_KEY | trap::BAD_SWITCH_P_KEY => {
                Subject::Lid { lid: be16(data, 12), port: None }
            }
            _ => Subject::Unknown,
        };
        Ok(Notice {
            is_generic,
            severity: data[0] & 0x7F,
            producer: if is_generic { Producer::decode(producer) } else { Producer::Other(producer) },
            number,
            issuer_lid: be16(data, 6),
            issuer: gid(data, 64),
            subject,
            capabilities: (is_generic && number == trap::CAPABILITY).then(|| be32(data, 16)),
        })
    }

    /// The GUID of its subject: of the port or group named by GID.
    #[must_use]
    pub fn guid(&self) -> Option<Guid> {
        match self.subject {
            Subject::Gid(gid) => Some(Guid(gid as u64)),
            _ => None,
        }
    }
}

fn gid(data: &[u8], at: usize) -> u128 {
    u128::from(be64(data, at)) << 64 | u128::from(be64(data, at + 8))
}

/// InformInfo: what is subscribed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InformInfo {
    /// Subscribe, or end the subscription.
    pub subscribe: bool,
    /// Trap number; `None` for all generic traps. Those about keys (256 to 259) are only for the trusted.
    pub number: Option<u16>,
    /// Queue pair to which Reports go: 1. Queried for only when a subscription ends.
    pub queue_pair: u32,
}

/// Response time value: 4.096 us x 2^19, about 2 s, in which Reports are answered (13.4.6.2).
const RESPONSE_TIME: u32 = 19;
/// Any trap, type or LID.
const ANY_16: u16 = 0xFFFF;
/// Any producer.
const ANY_24: [u8; 3] = [0xFF; 3];

impl InformInfo {
    /// The request's data: a SubnAdmSet without component mask.
    #[must_use]
    pub fn query(&self) -> Query {
        let mut data = [0; TEMPLATE_BYTES];
        // GID 0: LIDs decide, and this range is all of them.
        data[16..18].copy_from_slice(&ANY_16.to_be_bytes());
        data[22] = 1; // IsGeneric
        data[23] = u8::from(self.subscribe);
        data[24..26].copy_from_slice(&ANY_16.to_be_bytes());
        data[26..28].copy_from_slice(&self.number.unwrap_or(ANY_16).to_be_bytes());
        data[28..32].copy_from_slice(&(self.queue_pair << 8 | RESPONSE_TIME).to_be_bytes());
        data[33..36].copy_from_slice(&ANY_24);
        Query { attribute: attribute::INFORM_INFO, component_mask: 0, template: data }
    }

    /// Whether an answer's data says that the subscription holds.
    #[must_use]
    pub fn is_subscribed(data: &[u8]) -> bool {
        data.get(23).is_some_and(|subscribe| *subscribe == 1)
    }
}
