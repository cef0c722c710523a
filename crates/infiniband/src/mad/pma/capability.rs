//! What a performance management agent can do: ClassPortInfo (13.4.8.1, 16.1.3.1), and the masks of
//! PortSamplesControl (16.1.3.2), which say what of the optional attributes there is.

use super::PortCounterSet;
use crate::mad::{TooShort, be16, be32, expect, field};

/// What is used of the performance class's ClassPortInfo (13.4.8.1, 16.1.3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassPortInfo {
    /// CapabilityMask.
    pub capabilities: u16,
    /// CapabilityMask2, 27 bits.
    pub capabilities_2: u32,
    /// Where the agent really is, where it is elsewhere.
    pub redirection: Option<Redirection>,
}

/// Where requests of a class are to be sent (13.5.2): another LID, or only another queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Redirection {
    /// RedirectLID.
    pub lid: u16,
    /// RedirectQP, 24 bits.
    pub queue_pair: u32,
    /// RedirectQ_Key.
    pub queue_key: u32,
    /// RedirectP_Key.
    pub partition_key: u16,
    /// RedirectSL.
    pub service_level: u8,
}

impl ClassPortInfo {
    /// PortCountersExtended with unicast and multicast counters.
    const EXTENDED: u16 = 1 << 9;
    /// PortCountersExtended without unicast and multicast counters.
    const EXTENDED_WITHOUT_CASTS: u16 = 1 << 10;
    /// PortXmitWait.
    const XMIT_WAIT: u16 = 1 << 12;
    /// Reed-Solomon counters in PortExtendedSpeedsCounters.
    const RS_FEC: u16 = 1 << 14;
    /// QP1Dropped.
    const QP1_DROPPED: u16 = 1 << 15;
    /// CapabilityMask2: PortCountersExtended has the error counters, too, in 64 bits.
    const ADDITIONAL_EXTENDED: u32 = 1 << 1;

    /// Decodes the attribute's data.
    ///
    /// # Errors
    /// [`TooShort`] below 72 bytes.
    pub fn decode(data: &[u8]) -> Result<ClassPortInfo, TooShort> {
        expect(data, "ClassPortInfo", 72)?;
        // RedirectLID 0 is "by GID only", which would need a path query, or no redirection at all.
        let redirection = (be16(data, 28) != 0).then(|| Redirection {
            lid: be16(data, 28),
            partition_key: be16(data, 30),
            queue_pair: be32(data, 32) & 0x00FF_FFFF,
            queue_key: be32(data, 36),
            service_level: field(data, 200, 4) as u8,
        });
        Ok(ClassPortInfo {
            capabilities: be16(data, 2),
            capabilities_2: field(data, 32, 27) as u32,
            redirection,
        })
    }

    /// Whether PortCountersExtended can be read.
    #[must_use]
    pub const fn has_extended(&self) -> bool {
        self.capabilities & (Self::EXTENDED | Self::EXTENDED_WITHOUT_CASTS) != 0
    }

    /// Whether PortCountersExtended has unicast and multicast packets.
    #[must_use]
    pub const fn has_casts(&self) -> bool {
        self.capabilities & Self::EXTENDED != 0
    }

    /// Whether PortCountersExtended has the error counters and PortXmitWait in 64 bits, so that one MAD does.
    #[must_use]
    pub const fn has_extended_errors(&self) -> bool {
        self.has_extended() && self.capabilities_2 & Self::ADDITIONAL_EXTENDED != 0
    }

    /// Whether PortXmitWait is counted.
    #[must_use]
    pub const fn has_transmit_wait(&self) -> bool {
        self.capabilities & Self::XMIT_WAIT != 0
    }

    /// Whether QP1Dropped is counted.
    #[must_use]
    pub const fn has_qp1_dropped(&self) -> bool {
        self.capabilities & Self::QP1_DROPPED != 0
    }

    /// Whether PortExtendedSpeedsCounters has those of Reed-Solomon error correction.
    #[must_use]
    pub const fn has_rs_fec(&self) -> bool {
        self.capabilities & Self::RS_FEC != 0
    }
}

/// What is used of PortSamplesControl (16.1.3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SamplesControl {
    /// Tick: symbol times minus one.
    pub tick: u8,
    /// OptionMask: which optional counters there are.
    pub options: u64,
}

impl SamplesControl {
    /// Tick of NVIDIA's Quantum family, which counts once in 8 bytes of the whole port. NVIDIA's ibdiagnet
    /// manual, "Congestion Assessment on InfiniBand Links"; older switches report 31 and count by the lane, as
    /// the specification has it.
    const TICK_OF_WHOLE_PORT: u8 = 7;

    /// Decodes the attribute's data.
    ///
    /// # Errors
    /// [`TooShort`] below 64 bytes.
    pub fn decode(data: &[u8]) -> Result<SamplesControl, TooShort> {
        expect(data, "PortSamplesControl", 64)?;
        Ok(SamplesControl { tick: data[2], options: field(data, 96, 64) })
    }

    /// Bytes that a link of so many lanes could have carried in one tick of PortXmitWait.
    #[must_use]
    pub const fn tick_bytes(&self, lanes: u8) -> u64 {
        let symbols = self.tick as u64 + 1;
        if self.tick == Self::TICK_OF_WHOLE_PORT { symbols } else { symbols * lanes as u64 }
    }

    /// Whether an optional attribute is there, by the bits of its counters.
    #[must_use]
    pub const fn has(&self, set: PortCounterSet) -> bool {
        let bits: u64 = match set {
            PortCounterSet::Classic | PortCounterSet::Extended => return true,
            PortCounterSet::ReceiveErrorDetails => 0x3F << 6,
            PortCounterSet::DiscardDetails => 0xF << 12,
            PortCounterSet::Operations => 0x3 << 16,
            PortCounterSet::FlowControl => 0x3 << 18,
            PortCounterSet::VlOperationPackets => 1 << 20,
            PortCounterSet::VlOperationData => 1 << 21,
            PortCounterSet::VlFlowControlErrors => 1 << 22,
            PortCounterSet::VlTransmitWait => 1 << 23,
            PortCounterSet::ExtendedSpeeds => 1 << 28,
            PortCounterSet::VlCongestion => 1 << 48,
            PortCounterSet::SlTransmitData => 1 << 55,
            PortCounterSet::SlReceiveData => 1 << 56,
        };
        self.options & bits != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirection_is_read_where_it_stands() {
        let mut data = [0; 192];
        data[2..4].copy_from_slice(&0x1200_u16.to_be_bytes());
        data[4..8].copy_from_slice(&(2_u32 << 5 | 18).to_be_bytes());
        assert_eq!(ClassPortInfo::decode(&data).unwrap().redirection, None);
        data[25] = 0x30; // service level 3 beside traffic class and flow label
        data[28..30].copy_from_slice(&77_u16.to_be_bytes());
        data[30..32].copy_from_slice(&0xFFFF_u16.to_be_bytes());
        data[32..36].copy_from_slice(&0x0000_0234_u32.to_be_bytes());
        data[36..40].copy_from_slice(&0x8001_0000_u32.to_be_bytes());
        let info = ClassPortInfo::decode(&data).unwrap();
        assert!(info.has_extended() && info.has_transmit_wait() && info.has_extended_errors());
        let expected = Redirection {
            lid: 77,
            queue_pair: 0x234,
            queue_key: 0x8001_0000,
            partition_key: 0xFFFF,
            service_level: 3,
        };
        assert_eq!(info.redirection, Some(expected));
        assert!(ClassPortInfo::decode(&data[..71]).is_err());
    }

    #[test]
    fn ticks_are_bytes_of_the_link() {
        let of = |tick| SamplesControl { tick, options: 0 };
        assert_eq!(of(7).tick_bytes(4), 8, "Quantum: of the port, whatever its width");
        assert_eq!(of(31).tick_bytes(4), 128, "SwitchIB: of each lane");
        let some = SamplesControl { tick: 0, options: 1 << 7 | 1 << 55 };
        assert!(some.has(PortCounterSet::ReceiveErrorDetails) && some.has(PortCounterSet::SlTransmitData));
        assert!(!some.has(PortCounterSet::DiscardDetails) && some.has(PortCounterSet::Classic));
    }
}
