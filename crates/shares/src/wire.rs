//! Bytes on the wire of payload: headers by message and MTU, as a port's data counter counts them.
//!
//! PortXmitData counts the octets of a packet without its start delimiter and VCRC (IBTA volume 1, table 212). A packet of
//! the reliable connected service has LRH (8), BTH (12) and ICRC (4); the first one of an RDMA write also RETH (16).

/// Headers of each packet, bytes: LRH, BTH and ICRC.
pub const PACKET_HEADER_BYTES: u64 = 24;
/// An acknowledgement, bytes: a packet without payload, with AETH (4).
pub const ACKNOWLEDGEMENT_BYTES: u64 = PACKET_HEADER_BYTES + 4;

/// Headers of a multicast packet, bytes: it is an unreliable datagram with LRH (8), GRH (40), BTH (12), DETH (8) and ICRC (4)
/// (IBTA volume 1, 9.8.3 and 8.1: multicast has a GRH always).
pub const MULTICAST_HEADER_BYTES: u64 = 72;
/// The largest MTU, bytes (IBTA volume 1, 14.2.5.6): what a packet's payload has at most.
pub const LARGEST_MTU_BYTES: u64 = 4096;

/// Bytes that a port counts for `bytes` of payload in `messages` messages, at an MTU of `mtu` bytes.
///
/// Messages are taken to be of equal size; an empty message is one packet without payload.
#[must_use]
pub fn counted_bytes(bytes: u64, messages: u64, mtu: u64) -> u64 {
    if messages == 0 {
        return bytes;
    }
    let packets_each = (bytes / messages).div_ceil(mtu.max(1)).max(1);
    bytes + messages * packets_each * PACKET_HEADER_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_count_by_packet() {
        assert_eq!(counted_bytes(0, 10, 4096), 240);
        assert_eq!(counted_bytes(1024, 1, 4096), 1048);
        assert_eq!(counted_bytes(8192, 1, 4096), 8192 + 48);
        assert_eq!(counted_bytes(8193, 1, 4096), 8193 + 72);
        assert_eq!(counted_bytes(100, 0, 4096), 100);
    }
}
