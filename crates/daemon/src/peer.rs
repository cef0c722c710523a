//! Which user of this machine is at the other end of a connection, by the kernel's word.
//!
//! A Unix socket has the peer's credentials (SO_PEERCRED, unix(7)). For TCP over loopback both ends lie in the same
//! kernel, which looks the peer's socket up (sock_diag(7)); where it can't, `/proc/net/tcp` lists the socket with its owner
//! (proc_pid_net(5)), which takes milliseconds of a processor to read with a thousand connections.

use crate::Failure;
use nix::sys::socket::{getsockopt, sockopt};
use nix::unistd::{Gid, Group, Uid, User, getgrouplist};
use std::collections::BTreeSet;
use std::ffi::CString;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::path::Path;

/// TCP_ESTABLISHED of the kernel's `enum` (include/net/tcp_states.h), as `/proc/net/tcp` writes it.
const ESTABLISHED: &str = "01";

/// TCP_LISTEN of the same `enum`.
const LISTEN: &str = "0A";

/// Users of this machine who may do something: root and the user of this process always, and those named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalUsers {
    users: BTreeSet<u32>,
    groups: BTreeSet<u32>,
}

impl LocalUsers {
    /// From names or numbers of users, and of groups with `@` before them. `key` is the configuration's key.
    ///
    /// # Errors
    /// There is no such user or group (64).
    pub fn new<'a>(key: &str, names: impl IntoIterator<Item = &'a str>) -> Result<Self, Failure> {
        let mut all = Self::default();
        for name in names {
            let unknown = |what: &str| {
                let remedy = "name an account of this machine, a number, or @GROUP";
                Failure::usage(format!("{key}: there is no {what} '{name}'; {remedy}"))
            };
            if let Some(group) = name.strip_prefix('@') {
                let number = group.parse().ok().or_else(|| group_id(group));
                all.groups.insert(number.ok_or_else(|| unknown("group"))?);
            } else {
                let number = name.parse().ok().or_else(|| user_id(name));
                all.users.insert(number.ok_or_else(|| unknown("user"))?);
            }
        }
        Ok(all)
    }

    /// Whether a user is among them.
    #[must_use]
    pub fn contains(&self, uid: u32) -> bool {
        uid == 0
            || uid == nix::unistd::geteuid().as_raw()
            || self.users.contains(&uid)
            || (!self.groups.is_empty()
                && groups_of(uid).iter().any(|gid| self.groups.contains(&gid.as_raw())))
    }
}

fn user_id(name: &str) -> Option<u32> {
    Some(User::from_name(name).ok()??.uid.as_raw())
}

fn group_id(name: &str) -> Option<u32> {
    Some(Group::from_name(name).ok()??.gid.as_raw())
}

fn groups_of(uid: u32) -> Vec<Gid> {
    let Ok(Some(user)) = User::from_uid(Uid::from_raw(uid)) else { return Vec::new() };
    CString::new(user.name).ok().and_then(|name| getgrouplist(&name, user.gid).ok()).unwrap_or_default()
}

/// The user at the other end of a Unix socket; `None` where the kernel does not say.
pub fn user_of_unix(socket: &impl AsFd) -> Option<u32> {
    getsockopt(socket, sockopt::PeerCredentials).ok().map(|credentials| credentials.uid())
}

/// The user at the other end of a TCP connection over loopback, whose own end is `own` and whose other end is `peer`.
/// `None` for a peer on another machine and for one that has closed its end already. May read a file as long as the
/// machine has connections: not for a thread that polls sockets.
#[must_use]
pub fn user_of_loopback(own: SocketAddr, peer: SocketAddr) -> Option<u32> {
    let is_loopback = |address: SocketAddr| address.ip().to_canonical().is_loopback();
    if !(is_loopback(own) && is_loopback(peer)) {
        return None;
    }
    match crate::sock_diag::user_of(peer, own) {
        Ok(user) => user,
        Err(error) => {
            tracing::debug!(%error, "sock_diag does not say whose socket it is: /proc/net/tcp is read");
            user_in(Path::new("/proc/self/net"), own, peer)
        }
    }
}

fn user_in(folder: &Path, own: SocketAddr, peer: SocketAddr) -> Option<u32> {
    // A socket of the IPv6 family serves IPv4, too, and is listed in the file of its family.
    let files = [("tcp", false), ("tcp6", true)];
    files.iter().filter(|(_, six)| *six || !peer.ip().to_canonical().is_ipv6()).find_map(|(file, six)| {
        let text = std::fs::read_to_string(folder.join(file)).ok()?;
        let (local, remote) = (hexadecimal(peer, *six), hexadecimal(own, *six));
        text.lines().skip(1).find_map(|line| owner(line, &local, &remote))
    })
}

/// The user whose process listens at a TCP address of this machine, or at its port on all addresses.
#[must_use]
pub fn user_of_listener(address: SocketAddr) -> Option<u32> {
    let port = format!(":{:04X}", address.port());
    ["/proc/self/net/tcp", "/proc/self/net/tcp6"].iter().find_map(|file| {
        let text = std::fs::read_to_string(file).ok()?;
        text.lines().skip(1).find_map(|line| {
            let mut fields = line.split_ascii_whitespace().skip(1);
            let is_it = fields.next()?.ends_with(&port) && fields.nth(1)? == LISTEN;
            if is_it { fields.nth(3)?.parse().ok() } else { None }
        })
    })
}

/// The owner of an open connection. A socket that its process has closed has neither inode nor owner, and would read
/// as root's.
fn owner(line: &str, local: &str, remote: &str) -> Option<u32> {
    let mut fields = line.split_ascii_whitespace().skip(1);
    let is_it = fields.next()? == local && fields.next()? == remote && fields.next()? == ESTABLISHED;
    if !is_it {
        return None;
    }
    let uid = fields.nth(3)?.parse().ok()?;
    let inode: u64 = fields.nth(1)?.parse().ok()?;
    (inode != 0).then_some(uid)
}

/// An address as `/proc/net/tcp` writes it: 32-bit words of network order printed as numbers of the host.
fn hexadecimal(address: SocketAddr, six: bool) -> String {
    let octets = match (address.ip().to_canonical(), six) {
        (IpAddr::V4(ip), false) => ip.octets().to_vec(),
        (IpAddr::V4(ip), true) => ip.to_ipv6_mapped().octets().to_vec(),
        (IpAddr::V6(ip), _) => ip.octets().to_vec(),
    };
    let words = octets.chunks_exact(4).map(|word| {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(word);
        format!("{:08X}", u32::from_ne_bytes(bytes))
    });
    format!("{}:{:04X}", words.collect::<String>(), address.port())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn the_user_of_a_loopback_connection() {
        let own = nix::unistd::geteuid().as_raw();
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else { continue }; // A machine without IPv6.
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (server, peer) = listener.accept().unwrap();
            assert_eq!(user_of_loopback(server.local_addr().unwrap(), peer), Some(own), "{address}");
            drop(client);
            // Closed, its line reads as root's or is gone: nobody.
            assert_eq!(user_of_loopback(server.local_addr().unwrap(), peer), None, "{address}");
        }
    }

    #[test]
    fn a_client_of_the_ipv6_family_speaks_ipv4() {
        let folder = tempfile::tempdir().unwrap();
        let head =
            "sl local_address rem_address st tx_queue rx_queue tr tm->when retrnsmt uid timeout inode\n";
        let row = |st: &str, inode: u32| {
            format!(
                "{head}  0: 0000000000000000FFFF00000100007F:C350 0000000000000000FFFF00000100007F:24F4 {st} \
                 00000000:00000000 00:00000000 00000000  1001 0 {inode} 1 0\n"
            )
        };
        let user = |text: String| {
            std::fs::write(folder.path().join("tcp"), head).unwrap();
            std::fs::write(folder.path().join("tcp6"), text).unwrap();
            user_in(folder.path(), "127.0.0.1:9460".parse().unwrap(), "127.0.0.1:50000".parse().unwrap())
        };
        if cfg!(target_endian = "little") {
            assert_eq!(user(row("01", 77)), Some(1001));
            assert_eq!(user(row("01", 0)), None);
            assert_eq!(user(row("06", 77)), None);
        }
        let far = user_in(folder.path(), "10.0.0.1:1".parse().unwrap(), "10.0.0.2:2".parse().unwrap());
        assert_eq!(far, None);
    }

    #[test]
    fn who_is_among_them() {
        let own = nix::unistd::geteuid().as_raw();
        let users = LocalUsers::new("query.users", ["4242"]).unwrap();
        assert!(users.contains(0) && users.contains(own) && users.contains(4242));
        assert!(!users.contains(4243));
        let by_group = LocalUsers::new("query.users", ["@0"]).unwrap();
        assert!(by_group.contains(0) && !by_group.contains(4242));
        let error = LocalUsers::new("query.users", ["nobody-at-all"]).unwrap_err().to_string();
        assert!(error.contains("query.users") && error.contains("nobody-at-all"), "{error}");
    }
}
