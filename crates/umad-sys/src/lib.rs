//! libibumad: declarations, opened at run time, and the few safe calls that a crawler needs.
//!
//! libibumad is opened with `dlopen`, so that programs start on machines without it. The calls go through the
//! dynamic linker, so a preloaded simulator (libumad2sim) observes them. Nothing here knows what a MAD says.
#![allow(unsafe_code)] // Foreign functions; each block has its reason.

mod agent;
pub mod raw;

use agent::Buffer;
pub use agent::{Agent, Peer, ReceiveOutcome};

use libc::{c_char, c_int};
use std::ffi::{CStr, CString};
use std::sync::Arc;

/// Bytes of a MAD (IBTA volume 1, 13.4.2).
pub const MAD_BYTES: usize = 256;
/// Bytes before the MAD in the present kernel interface; older ones have fewer.
const HEADER_BYTES: usize = size_of::<raw::IbUserMad>();
/// Environment variable with another path or name of the library.
pub const LIBRARY_VARIABLE: &str = "THROUGHLINE_LIBIBUMAD";
/// The library's name where the variable is not set: the ABI of rdma-core.
pub const LIBRARY_NAME: &str = "libibumad.so.3";
/// Longest message that is taken whole: the tables of a subnet of 48,000 LIDs stay below it. More than this is
/// an error, since nothing else takes a message off the kernel's queue.
pub const MESSAGE_BYTES_MAX: usize = 64 << 20;
/// Bits of a method mask (`IB_MGMT_MAX_METHODS` in the kernel).
const METHODS: usize = 128;
/// Bits of one word of a method mask.
const WORD_BITS: usize = libc::c_long::BITS as usize;

/// Why a call did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The library is not there.
    #[error(
        "can't open {name}: {cause}; install libibumad (package libibumad3, or rdma-core), or set {LIBRARY_VARIABLE} to its path"
    )]
    NoLibrary {
        /// What was opened.
        name: String,
        /// What the dynamic linker said.
        cause: String,
    },
    /// There is no such device or port.
    #[error(
        "no InfiniBand device {what}: {cause}; `ls /sys/class/infiniband` shows the devices, and the kernel module ib_umad must be loaded"
    )]
    NoDevice {
        /// What was requested.
        what: String,
        /// The system's reason.
        cause: std::io::Error,
    },
    /// The device file may not be opened.
    #[error(
        "no permission to open the umad device of {what}: {cause}; run as root or as a member of the group that owns /dev/infiniband/umad*"
    )]
    NoPermission {
        /// What was opened.
        what: String,
        /// The system's reason.
        cause: std::io::Error,
    },
    /// The kernel or the simulator refused to register a management class.
    #[error("can't register management class {class:#04x} on {what}: {cause}")]
    Register {
        /// The device and port.
        what: String,
        /// The management class.
        class: u8,
        /// The system's reason.
        cause: std::io::Error,
    },
    /// Any other failure.
    #[error("{call} failed on {what}: {cause}")]
    Io {
        /// The function.
        call: &'static str,
        /// The device and port.
        what: String,
        /// The system's reason.
        cause: std::io::Error,
    },
}

/// The opened library.
pub struct Library {
    get_port: raw::UmadGetPort,
    release_port: raw::UmadReleasePort,
    open_port: raw::UmadOpenPort,
    close_port: raw::UmadClosePort,
    size: raw::UmadSize,
    register: raw::UmadRegister,
    unregister: raw::UmadUnregister,
    send: raw::UmadSend,
    recv: raw::UmadRecv,
    // Last field: the functions above point into it.
    _library: libloading::Library,
}

/// What is registered with a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registration<'a> {
    /// Management class.
    pub class: u8,
    /// Version of the class.
    pub version: u8,
    /// Version of RMPP that the kernel does for this agent: 0 for none, 1 for what there is. With 1, answers
    /// of many segments arrive as one message.
    pub rmpp_version: u8,
    /// Methods of requests that are to be delivered here, each below 128. Without any, only replies arrive.
    pub methods: &'a [u8],
}

/// A local port as libibumad describes it; numbers in host byte order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortAttributes {
    /// Adapter, for instance `mlx5_0`.
    pub ca_name: String,
    /// Port number, from 1.
    pub port: u8,
    /// Base LID; 0 before the subnet manager gave one.
    pub lid: u16,
    /// LID of the subnet manager.
    pub sm_lid: u16,
    /// Service level to the subnet manager.
    pub sm_sl: u8,
    /// Logical state: 1 down, 2 initialize, 3 armed, 4 active.
    pub state: u32,
    /// Subnet prefix of GID 0.
    pub subnet_prefix: u64,
    /// Port GUID.
    pub port_guid: u64,
    /// `InfiniBand` or `Ethernet`.
    pub link_layer: String,
}

impl Library {
    /// Opens libibumad.
    ///
    /// # Errors
    /// [`Error::NoLibrary`] when it or one of its functions is not there.
    pub fn open() -> Result<Arc<Library>, Error> {
        let name = std::env::var(LIBRARY_VARIABLE).unwrap_or_else(|_| LIBRARY_NAME.to_owned());
        let missing =
            |error: libloading::Error| Error::NoLibrary { name: name.clone(), cause: error.to_string() };
        // SAFETY: libibumad's initialisers have no requirements; the path is the administrator's.
        let library = unsafe { libloading::Library::new(&name) }.map_err(missing)?;
        macro_rules! function {
            ($symbol:literal, $kind:ty) => {
                // SAFETY: the type is that of the header's declaration; the library outlives the pointer,
                // because both live in one `Library`.
                *unsafe { library.get::<$kind>($symbol) }.map_err(missing)?
            };
        }
        let init = function!(b"umad_init\0", raw::UmadInit);
        let opened = Library {
            get_port: function!(b"umad_get_port\0", raw::UmadGetPort),
            release_port: function!(b"umad_release_port\0", raw::UmadReleasePort),
            open_port: function!(b"umad_open_port\0", raw::UmadOpenPort),
            close_port: function!(b"umad_close_port\0", raw::UmadClosePort),
            size: function!(b"umad_size\0", raw::UmadSize),
            register: function!(b"umad_register\0", raw::UmadRegister),
            unregister: function!(b"umad_unregister\0", raw::UmadUnregister),
            send: function!(b"umad_send\0", raw::UmadSend),
            recv: function!(b"umad_recv\0", raw::UmadRecv),
            _library: library,
        };
        // SAFETY: no arguments; it may be called more than once.
        unsafe { init() };
        Ok(Arc::new(opened))
    }

    /// Describes a port. Without a name: the first adapter with an active port. Port 0: its first active port.
    ///
    /// # Errors
    /// [`Error::NoDevice`] when there is none.
    pub fn port(&self, ca_name: Option<&str>, port: u8) -> Result<PortAttributes, Error> {
        let what = describe(ca_name, port);
        let name = match ca_name.map(CString::new).transpose() {
            Ok(name) => name,
            Err(_) => {
                let cause = std::io::Error::from_raw_os_error(libc::EINVAL);
                return Err(Error::NoDevice { what, cause });
            }
        };
        // SAFETY: all fields of the structure are integers and a pointer, valid as zeroes.
        let mut attributes: raw::UmadPort = unsafe { std::mem::zeroed() };
        let name_pointer = name.as_ref().map_or(std::ptr::null(), |name| name.as_ptr());
        // SAFETY: the name is NULL or NUL-terminated; the structure has the header's layout.
        let result = unsafe { (self.get_port)(name_pointer, c_int::from(port), &raw mut attributes) };
        if result != 0 {
            return Err(Error::NoDevice { what, cause: cause_of(result) });
        }
        let found = PortAttributes {
            ca_name: text(&attributes.ca_name),
            port: u8::try_from(attributes.portnum).unwrap_or(0),
            lid: attributes.base_lid as u16,
            sm_lid: attributes.sm_lid as u16,
            sm_sl: attributes.sm_sl as u8,
            state: attributes.state,
            subnet_prefix: u64::from_be(attributes.gid_prefix),
            port_guid: u64::from_be(attributes.port_guid),
            link_layer: text(&attributes.link_layer),
        };
        // SAFETY: filled by umad_get_port above, released once.
        unsafe { (self.release_port)(&raw mut attributes) };
        Ok(found)
    }

    /// Opens a port for one management class: one descriptor, one registered agent.
    ///
    /// # Errors
    /// [`Error::NoDevice`], [`Error::NoPermission`] or [`Error::Register`]; the last one with EBUSY where
    /// another program of this machine has one of the methods on this port.
    pub fn open_agent(
        self: &Arc<Self>,
        ca_name: &str,
        port: u8,
        registration: &Registration<'_>,
    ) -> Result<Agent, Error> {
        let what = describe(Some(ca_name), port);
        let Ok(name) = CString::new(ca_name) else {
            let cause = std::io::Error::from_raw_os_error(libc::EINVAL);
            return Err(Error::NoDevice { what, cause });
        };
        // SAFETY: a NUL-terminated name; the result is a descriptor or negative.
        let descriptor = unsafe { (self.open_port)(name.as_ptr(), c_int::from(port)) };
        if descriptor < 0 {
            let cause = std::io::Error::last_os_error();
            return Err(match cause.raw_os_error() {
                Some(libc::EACCES | libc::EPERM) => Error::NoPermission { what, cause },
                _ => Error::NoDevice {
                    what,
                    cause: if cause.raw_os_error() == Some(0) { cause_of(descriptor) } else { cause },
                },
            });
        }
        let mut agent = Agent {
            library: Arc::clone(self),
            what,
            descriptor,
            id: -1,
            header_bytes: 0,
            idle_failures: 0,
            buffer: Buffer::of(MAD_BYTES),
        };
        let Registration { class, version, rmpp_version, methods } = *registration;
        let mut mask = method_mask(methods);
        // Who only queries and never serves has no mask at all.
        let mask = if methods.is_empty() { std::ptr::null_mut() } else { mask.as_mut_ptr() };
        // SAFETY: an open descriptor; the mask is NULL or as long as the header says.
        agent.id = unsafe {
            (self.register)(descriptor, c_int::from(class), c_int::from(version), rmpp_version, mask)
        };
        if agent.id < 0 {
            let cause = match std::io::Error::last_os_error() {
                cause if cause.raw_os_error() == Some(0) => cause_of(agent.id),
                cause => cause,
            };
            return Err(Error::Register { what: agent.what.clone(), class, cause });
        }
        // SAFETY: no arguments.
        agent.header_bytes = unsafe { (self.size)() };
        if agent.header_bytes > HEADER_BYTES {
            let cause = std::io::Error::other(format!(
                "{} bytes before a MAD; {HEADER_BYTES} known",
                agent.header_bytes
            ));
            return Err(Error::Io { call: "umad_size", what: agent.what.clone(), cause });
        }
        Ok(agent)
    }
}

/// Has the kernel close all descriptors but the standard ones when this process executes a program. libumad2sim's
/// sockets would stay open otherwise, and the next program with this process id could not bind them.
///
/// # Errors
/// The kernel does not know the call (before 5.11).
pub fn close_descriptors_on_exec() -> std::io::Result<()> {
    const FIRST: libc::c_uint = 3;
    const LAST: libc::c_uint = libc::c_uint::MAX;
    // SAFETY: it only sets a flag of descriptors, no matter who owns them.
    let result = unsafe { libc::syscall(libc::SYS_close_range, FIRST, LAST, libc::CLOSE_RANGE_CLOEXEC) };
    if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// The mask that `umad_register` takes. Numbers beyond it can't be registered and are left out.
fn method_mask(methods: &[u8]) -> [libc::c_long; METHODS / WORD_BITS] {
    let mut mask = [0; METHODS / WORD_BITS];
    for method in methods.iter().map(|method| usize::from(*method)).filter(|method| *method < METHODS) {
        mask[method / WORD_BITS] |= 1 << (method % WORD_BITS);
    }
    mask
}

/// Text of a C character array, up to its NUL or its end.
fn text(characters: &[c_char]) -> String {
    let bytes: Vec<u8> = characters.iter().map(|c| *c as u8).chain([0]).collect();
    CStr::from_bytes_until_nul(&bytes).map(|text| text.to_string_lossy().into_owned()).unwrap_or_default()
}

/// A device and port in words.
fn describe(ca_name: Option<&str>, port: u8) -> String {
    match (ca_name, port) {
        (None, 0) => "with an InfiniBand port".to_owned(),
        (None, port) => format!("with port {port}"),
        (Some(name), 0) => name.to_owned(),
        (Some(name), port) => format!("{name} port {port}"),
    }
}

/// The reason behind a negative return value.
fn cause_of(result: c_int) -> std::io::Error {
    let code = if result < -1 { -result } else { libc::ENODEV };
    std::io::Error::from_raw_os_error(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_named_with_the_remedy() {
        let error = Error::NoLibrary { name: "libx.so".to_owned(), cause: "not found".to_owned() };
        let message = error.to_string();
        assert!(message.contains("libx.so") && message.contains(LIBRARY_VARIABLE), "{message}");
    }

    #[test]
    fn masks_have_a_bit_for_each_method() {
        assert_eq!(method_mask(&[]), [0; METHODS / WORD_BITS]);
        let mask = method_mask(&[6, 127, 200]);
        let bits: u32 = mask.iter().map(|word| word.count_ones()).sum();
        assert_eq!((mask[0], bits), (1 << 6, 2));
        assert_eq!(mask[METHODS / WORD_BITS - 1] >> (WORD_BITS - 1) & 1, 1);
    }

    #[test]
    fn names_end_at_their_nul() {
        let mut name = [0 as c_char; raw::UMAD_CA_NAME_LEN];
        name[0] = b'm' as c_char;
        name[1] = b'x' as c_char;
        assert_eq!(text(&name), "mx");
        assert_eq!(text(&[b'a' as c_char; 4]), "aaaa");
    }
}
