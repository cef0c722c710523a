//! The declarations of `infiniband/umad.h` that are used here, and nothing else of it.
//!
//! Layouts are checked against the installed header by `tests/layout.rs`. No function here is safe to call
//! without reading the header; the safe calls are in the crate's root.

use libc::{c_char, c_int, c_long, c_uint, c_void};

/// Bytes of an adapter's name with its final NUL (`UMAD_CA_NAME_LEN`).
pub const UMAD_CA_NAME_LEN: usize = 20;

/// Where a MAD goes to or came from (`ib_mad_addr_t`, 44 bytes). Multi-byte fields are big-endian,
/// except `pkey_index`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct IbMadAddr {
    /// Queue pair, big-endian.
    pub qpn: u32,
    /// Queue key, big-endian.
    pub qkey: u32,
    /// Local identifier, big-endian.
    pub lid: u16,
    /// Service level.
    pub sl: u8,
    /// Source path bits.
    pub path_bits: u8,
    /// 1 if a global route header is present.
    pub grh_present: u8,
    /// Index of the source GID.
    pub gid_index: u8,
    /// Hop limit of the global route header.
    pub hop_limit: u8,
    /// Traffic class of the global route header.
    pub traffic_class: u8,
    /// Destination GID.
    pub gid: [u8; 16],
    /// Flow label, big-endian.
    pub flow_label: u32,
    /// Index into the port's partition key table, host byte order.
    pub pkey_index: u16,
    /// Unused.
    pub reserved: [u8; 6],
}

/// What stands before a MAD in a read or write of a umad device (`ib_user_mad_t`, 64 bytes).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct IbUserMad {
    /// The registered agent.
    pub agent_id: u32,
    /// 0, or the errno of a request that failed (110, ETIMEDOUT: no answer).
    pub status: u32,
    /// Time until the kernel gives a request up, in milliseconds.
    pub timeout_ms: u32,
    /// How often the kernel repeats a request.
    pub retries: u32,
    /// Length of header and MAD in bytes.
    pub length: u32,
    /// Peer.
    pub addr: IbMadAddr,
}

/// A local port (`umad_port_t`).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct UmadPort {
    /// Adapter, NUL-terminated.
    pub ca_name: [c_char; UMAD_CA_NAME_LEN],
    /// Port number.
    pub portnum: c_int,
    /// Base LID.
    pub base_lid: c_uint,
    /// LID mask control.
    pub lmc: c_uint,
    /// LID of the subnet manager.
    pub sm_lid: c_uint,
    /// Service level to the subnet manager.
    pub sm_sl: c_uint,
    /// Logical state: 1 down, 2 initialize, 3 armed, 4 active.
    pub state: c_uint,
    /// Physical state: 5 link up.
    pub phys_state: c_uint,
    /// Rate in Gbit/s.
    pub rate: c_uint,
    /// Capability mask, big-endian.
    pub capmask: u32,
    /// Subnet prefix, big-endian.
    pub gid_prefix: u64,
    /// Port GUID, big-endian.
    pub port_guid: u64,
    /// Entries of `pkeys`.
    pub pkeys_size: c_uint,
    /// Partition keys, owned by libibumad.
    pub pkeys: *mut u16,
    /// `InfiniBand` or `Ethernet`, NUL-terminated.
    pub link_layer: [c_char; UMAD_CA_NAME_LEN],
}

/// `int umad_init(void)`.
pub type UmadInit = unsafe extern "C" fn() -> c_int;
/// `int umad_get_port(const char *ca_name, int portnum, umad_port_t *port)`.
pub type UmadGetPort = unsafe extern "C" fn(*const c_char, c_int, *mut UmadPort) -> c_int;
/// `int umad_release_port(umad_port_t *port)`.
pub type UmadReleasePort = unsafe extern "C" fn(*mut UmadPort) -> c_int;
/// `int umad_open_port(const char *ca_name, int portnum)`.
pub type UmadOpenPort = unsafe extern "C" fn(*const c_char, c_int) -> c_int;
/// `int umad_close_port(int portid)`.
pub type UmadClosePort = unsafe extern "C" fn(c_int) -> c_int;
/// `size_t umad_size(void)`: bytes before the MAD, known after a port was opened.
pub type UmadSize = unsafe extern "C" fn() -> usize;
/// `int umad_register(int portid, int mgmt_class, int mgmt_version, uint8_t rmpp_version, long method_mask[])`.
pub type UmadRegister = unsafe extern "C" fn(c_int, c_int, c_int, u8, *mut c_long) -> c_int;
/// `int umad_unregister(int portid, int agentid)`.
pub type UmadUnregister = unsafe extern "C" fn(c_int, c_int) -> c_int;
/// `int umad_send(int portid, int agentid, void *umad, int length, int timeout_ms, int retries)`.
pub type UmadSend = unsafe extern "C" fn(c_int, c_int, *mut c_void, c_int, c_int, c_int) -> c_int;
/// `int umad_recv(int portid, void *umad, int *length, int timeout_ms)`.
pub type UmadRecv = unsafe extern "C" fn(c_int, *mut c_void, *mut c_int, c_int) -> c_int;
