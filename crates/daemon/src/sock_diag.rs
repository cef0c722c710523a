//! One TCP socket of this machine and its owner, by the kernel's look-up (sock_diag(7)): layouts and numbers are those of
//! `linux/netlink.h`, `linux/sock_diag.h` and `linux/inet_diag.h`. No privilege is needed.

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto, socket,
};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;

/// Length of `nlmsghdr`.
const HEADER: usize = 16;
/// Length of `inet_diag_req_v2`.
const REQUEST: usize = 56;
/// Length of `inet_diag_msg`.
const ANSWER: usize = 72;
/// `SOCK_DIAG_BY_FAMILY`.
const BY_FAMILY: u16 = 20;
/// `NLMSG_ERROR`.
const ERROR: u16 = 2;
/// `NLM_F_REQUEST`: one socket; not a dump of all.
const ONE: u16 = 1;
/// `TCP_ESTABLISHED`.
const ESTABLISHED: u8 = 1;
/// Places in `inet_diag_msg`.
const STATE: usize = 1;
const UID: usize = 64;
const INODE: usize = 68;

/// The owner of the established socket that is bound to `local` and connected to `remote`; `None` where there is none, or its
/// process has closed it.
///
/// # Errors
/// The kernel has no sock_diag for TCP, or what it answers is not understood.
pub(crate) fn user_of(local: SocketAddr, remote: SocketAddr) -> Result<Option<u32>, Errno> {
    let netlink =
        socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkSockDiag)?;
    let request = request(local, remote);
    sendto(netlink.as_raw_fd(), &request, &NetlinkAddr::new(0, 0), MsgFlags::empty())?;
    let mut answer = [0; 512];
    // The kernel answers within the call that sends.
    let length = recv(netlink.as_raw_fd(), &mut answer, MsgFlags::MSG_DONTWAIT)?;
    owner(&answer[..length])
}

fn request(local: SocketAddr, remote: SocketAddr) -> [u8; HEADER + REQUEST] {
    let octets = |address: SocketAddr| match address.ip().to_canonical() {
        IpAddr::V4(ip) => {
            let mut all = [0; 16];
            all[..4].copy_from_slice(&ip.octets());
            all
        }
        IpAddr::V6(ip) => ip.octets(),
    };
    let family = if local.ip().to_canonical().is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let mut request = [0; HEADER + REQUEST];
    let mut at = 0;
    let mut put = |bytes: &[u8]| {
        request[at..at + bytes.len()].copy_from_slice(bytes);
        at += bytes.len();
    };
    put(&u32::try_from(HEADER + REQUEST).unwrap_or(0).to_ne_bytes());
    put(&BY_FAMILY.to_ne_bytes());
    put(&ONE.to_ne_bytes());
    put(&[0; 8]); // number and sender
    put(&[u8::try_from(family).unwrap_or(0), u8::try_from(libc::IPPROTO_TCP).unwrap_or(0), 0, 0]);
    put(&u32::MAX.to_ne_bytes()); // states
    put(&local.port().to_be_bytes());
    put(&remote.port().to_be_bytes());
    put(&octets(local));
    put(&octets(remote));
    put(&[0; 4]); // any interface
    put(&[0xff; 8]); // no cookie
    request
}

fn owner(answer: &[u8]) -> Result<Option<u32>, Errno> {
    let word = |at: usize| Some(u32::from_ne_bytes(answer.get(at..at + 4)?.try_into().ok()?));
    let kind = answer.get(4..6).and_then(|bytes| bytes.try_into().ok()).map(u16::from_ne_bytes);
    match kind {
        Some(ERROR) => match word(HEADER).map(|code| Errno::from_raw(code.cast_signed().wrapping_neg())) {
            // Nor is there one that is closing.
            Some(Errno::ENOENT | Errno::ESTALE) => Ok(None),
            other => Err(other.unwrap_or(Errno::EBADMSG)),
        },
        Some(BY_FAMILY) if answer.len() >= HEADER + ANSWER => {
            let is_open = answer[HEADER + STATE] == ESTABLISHED && word(HEADER + INODE) != Some(0);
            Ok(word(HEADER + UID).filter(|_| is_open))
        }
        _ => Err(Errno::EBADMSG),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_socket_has_its_owner_and_one_that_is_gone_has_none() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(server) = TcpListener::bind(address) else { continue };
            let client = TcpStream::connect(server.local_addr().unwrap()).unwrap();
            let (_accepted, peer) = server.accept().unwrap();
            let own = server.local_addr().unwrap();
            let user = nix::unistd::geteuid().as_raw();
            assert_eq!(user_of(peer, own), Ok(Some(user)), "{address}");
            assert_eq!(user_of(own, peer), Ok(Some(user)), "{address}: the accepted end");
            drop(client);
            assert_eq!(user_of(peer, own), Ok(None), "{address}: its process has closed it");
            // A listener is no connection.
            let nobody = SocketAddr::new(peer.ip(), 9);
            assert_eq!(user_of(own, nobody), Ok(None), "{address}");
        }
    }

    #[test]
    fn what_is_not_understood_is_an_error() {
        assert_eq!(owner(&[]), Err(Errno::EBADMSG));
        assert_eq!(owner(&[0; HEADER]), Err(Errno::EBADMSG));
        let mut refused = [0; HEADER + 4];
        refused[4..6].copy_from_slice(&ERROR.to_ne_bytes());
        refused[HEADER..].copy_from_slice(&(-libc::EPERM).to_ne_bytes());
        assert_eq!(owner(&refused), Err(Errno::EPERM));
    }
}
