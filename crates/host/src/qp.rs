//! Which process has queue pairs on which port of this host's adapters: queried of the kernel by netlink.
//!
//! The same query as `rdma resource show qp` of iproute2, without that program: its output changes with its
//! version, the kernel's interface does not, and a node need not have it. Numbers are facts of the kernel's
//! `rdma/rdma_netlink.h` and `linux/netlink.h`. The kernel reports process ids to a privileged reader in the first
//! PID namespace; queue pairs of the kernel itself have none. Messages are built and read by pure functions.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto, setsockopt, socket,
    sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike};

const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 0x1;
/// NLM_F_ROOT | NLM_F_MATCH.
const NLM_F_DUMP: u16 = 0x300;
/// RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command): the client in the upper bits.
const NLDEV: u16 = 5 << 10;
const CMD_GET: u16 = NLDEV + 1;
const CMD_RES_QP_GET: u16 = NLDEV + 10;
const ATTR_DEV_INDEX: u16 = 1;
const ATTR_DEV_NAME: u16 = 2;
const ATTR_PORT_INDEX: u16 = 3;
const ATTR_RES_QP: u16 = 19;
const ATTR_RES_QP_ENTRY: u16 = 20;
const ATTR_RES_PID: u16 = 28;
/// NLA_F_NESTED and NLA_F_NET_BYTEORDER are no part of an attribute's type.
const ATTR_TYPE_MASK: u16 = 0x3fff;
/// Length, type, flags, sequence, port.
const HEADER_BYTES: usize = 16;
/// The kernel fills one page or, where the reader has space, up to 32 KiB a message.
const BUFFER_BYTES: usize = 64 << 10;
/// Longest time for one query; a dump of 100,000 queue pairs takes a fraction of a second.
const LIMIT: Duration = Duration::from_secs(5);
/// Most adapters queried; a node has a few, and up to some hundred virtual functions.
const DEVICES_MAX: usize = 256;
/// What a kernel without adapters says of where processes have queue pairs.
const NO_ADAPTERS: &str = "no_adapters";
/// Most processes stored.
const PROCESSES_MAX: usize = 65_536;

/// For each process the ports on which it has queue pairs, as DEVICE/PORT, the one with most first.
pub type PortsOfProcesses = BTreeMap<u32, Vec<String>>;

/// Queries the kernel.
///
/// # Errors
/// Why there is no answer, in one word: `not_supported` by an old kernel, `no_permission`, `no_answer`,
/// `not_understood`, and `no_adapters` by one that has none: adapters of a node may be observed by another kernel than the
/// agent's (a `sysfs.root` of a host below a virtual machine, or of the demo), and this one knows nothing of them.
pub fn ports_of_processes() -> Result<PortsOfProcesses, &'static str> {
    let socket = match open() {
        Err(error) if error.raw_os_error() == Some(nix::libc::EPROTONOSUPPORT) => return Err(NO_ADAPTERS),
        opened => opened.map_err(|error| reason(&error))?,
    };
    let mut devices = BTreeMap::new();
    query(&socket, CMD_GET, None, &mut |message| {
        if devices.len() < DEVICES_MAX
            && let Some((index, name)) = device(message)
        {
            devices.insert(index, name);
        }
    })
    .map_err(|error| reason(&error))?;
    if devices.is_empty() {
        return Err(NO_ADAPTERS);
    }
    let mut counts = Counts::default();
    for (index, name) in &devices {
        let requested = query(&socket, CMD_RES_QP_GET, Some(*index), &mut |message| {
            queue_pairs(message, &mut |port, pid| counts.add(name, port, pid));
        });
        match requested {
            Ok(()) => {}
            // A device that goes away while it is queried.
            Err(error) if error.raw_os_error() == Some(nix::libc::ENODEV) => {}
            Err(error) => return Err(reason(&error)),
        }
    }
    Ok(counts.ports())
}

/// How many queue pairs each process has on each port.
#[derive(Default)]
struct Counts(BTreeMap<u32, BTreeMap<String, usize>>);

impl Counts {
    fn add(&mut self, device: &str, port: u32, pid: u32) {
        if self.0.len() < PROCESSES_MAX || self.0.contains_key(&pid) {
            *self.0.entry(pid).or_default().entry(format!("{device}/{port}")).or_default() += 1;
        }
    }

    fn ports(self) -> PortsOfProcesses {
        let ports = self.0.into_iter().map(|(pid, counts)| {
            let mut counts: Vec<_> = counts.into_iter().collect();
            counts.sort_by(|(a, many), (b, more)| more.cmp(many).then_with(|| a.cmp(b)));
            (pid, counts.into_iter().map(|(port, _)| port).collect())
        });
        ports.collect()
    }
}

fn reason(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "no_permission",
        io::ErrorKind::InvalidData => "not_understood",
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => "no_answer",
        _ => "not_supported",
    }
}

fn open() -> io::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC;
    let socket = socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkRDMA)?;
    setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::seconds(1))?;
    Ok(socket)
}

/// Sends one request for all there is and hands each answer's attributes on.
fn query(socket: &OwnedFd, command: u16, device: Option<u32>, each: &mut dyn FnMut(&[u8])) -> io::Result<()> {
    let message = request(command, device);
    sendto(socket.as_raw_fd(), &message, &NetlinkAddr::new(0, 0), MsgFlags::empty())?;
    let deadline = Instant::now() + LIMIT;
    let mut buffer = vec![0; BUFFER_BYTES];
    while Instant::now() < deadline {
        let length = recv(socket.as_raw_fd(), &mut buffer, MsgFlags::empty())?;
        if read_messages(&buffer[..length], command, each)? {
            return Ok(());
        }
    }
    Err(io::ErrorKind::TimedOut.into())
}

fn request(command: u16, device: Option<u32>) -> Vec<u8> {
    let mut attributes = Vec::new();
    if let Some(index) = device {
        attributes.extend(8_u16.to_ne_bytes());
        attributes.extend(ATTR_DEV_INDEX.to_ne_bytes());
        attributes.extend(index.to_ne_bytes());
    }
    let length = HEADER_BYTES + attributes.len(); // 16 or 24
    let mut message = Vec::new();
    message.extend((length as u32).to_ne_bytes());
    message.extend(command.to_ne_bytes());
    message.extend((NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes());
    message.extend([0; 8]); // sequence and port: the kernel's to fill, and one query is open at a time
    message.extend(attributes);
    message
}

/// Reads what came in one datagram; true when that was the end.
fn read_messages(mut data: &[u8], command: u16, each: &mut dyn FnMut(&[u8])) -> io::Result<bool> {
    let damaged = || io::Error::from(io::ErrorKind::InvalidData);
    while !data.is_empty() {
        let length = u32_at(data, 0).and_then(|length| usize::try_from(length).ok()).ok_or_else(damaged)?;
        let message = data.get(..length).filter(|_| length >= HEADER_BYTES).ok_or_else(damaged)?;
        let body = &message[HEADER_BYTES..];
        match u16_at(message, 4).ok_or_else(damaged)? {
            NLMSG_DONE => return Ok(true),
            NLMSG_ERROR => {
                // A negative errno; 0 acknowledges.
                let code = u32_at(body, 0).ok_or_else(damaged)?.cast_signed();
                return if code == 0 {
                    Ok(true)
                } else {
                    Err(io::Error::from_raw_os_error(code.saturating_neg()))
                };
            }
            kind if kind == command => each(body),
            _ => {}
        }
        data = data.get(aligned(length)..).unwrap_or_default();
    }
    Ok(false)
}

/// Index and name of a device.
fn device(message: &[u8]) -> Option<(u32, String)> {
    let (mut index, mut name) = (None, None);
    for (kind, data) in Attributes(message) {
        match kind {
            ATTR_DEV_INDEX => index = u32_at(data, 0),
            ATTR_DEV_NAME => name = Some(String::from_utf8_lossy(data).trim_end_matches('\0').to_owned()),
            _ => {}
        }
    }
    Some((index?, name?))
}

/// Port and process of each queue pair that has both. Those of the kernel have no process.
fn queue_pairs(message: &[u8], each: &mut dyn FnMut(u32, u32)) {
    let nested = |data: &[u8], wanted: u16, each: &mut dyn FnMut(&[u8])| {
        Attributes(data).filter(|(kind, _)| *kind == wanted).for_each(|(_, data)| each(data));
    };
    nested(message, ATTR_RES_QP, &mut |table| {
        nested(table, ATTR_RES_QP_ENTRY, &mut |entry| {
            let (mut port, mut pid) = (None, None);
            for (kind, data) in Attributes(entry) {
                match kind {
                    ATTR_PORT_INDEX => port = u32_at(data, 0),
                    ATTR_RES_PID => pid = u32_at(data, 0),
                    _ => {}
                }
            }
            if let (Some(port), Some(pid)) = (port, pid.filter(|pid| *pid != 0)) {
                each(port, pid);
            }
        });
    });
}

/// Attributes one after the other: u16 length with these 4 bytes, u16 type, value, padding to 4 bytes.
struct Attributes<'a>(&'a [u8]);

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let length = usize::from(u16_at(self.0, 0)?);
        let kind = u16_at(self.0, 2)? & ATTR_TYPE_MASK;
        let value = self.0.get(4..length)?;
        self.0 = self.0.get(aligned(length)..).unwrap_or_default();
        Some((kind, value))
    }
}

fn aligned(length: usize) -> usize {
    length.next_multiple_of(4)
}

fn u16_at(data: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(data.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(data: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(data.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests;
