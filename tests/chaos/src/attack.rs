//! Garbage at each socket that anybody may connect to, for a moment.

use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, UnixAddr, connect, send, socket};
use std::io::Write;
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::Duration;

/// Connections of one burst at each address; few, as the machine is shared with what is measured.
const CONNECTIONS: usize = 20;
/// How long silent connections stay open.
const HELD: Duration = Duration::from_secs(2);

/// Sends random bytes, half a request, and nothing at all. Whatever is refused is what was hoped for.
pub fn run(mpi_socket: &Path, addresses: &[String], seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut held = Vec::new();
    let mut held_local = Vec::new();
    for _ in 0..CONNECTIONS {
        for address in addresses {
            let Ok(mut stream) = TcpStream::connect(address) else { continue };
            let bytes: Vec<u8> = match random.u8(..3) {
                0 => (0..random.usize(1..4096)).map(|_| random.u8(..)).collect(),
                1 => b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\x12\x04".to_vec(),
                _ => Vec::new(),
            };
            let _ = stream.write_all(&bytes);
            held.push(stream);
        }
        let made = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None);
        if let (Ok(made), Ok(address)) = (made, UnixAddr::new(mpi_socket))
            && connect(made.as_raw_fd(), &address).is_ok()
        {
            let mut bytes: Vec<u8> = (0..random.usize(0..2048)).map(|_| random.u8(..)).collect();
            if bytes.len() > 8 {
                bytes[..6].copy_from_slice(b"TLM1\x02\x00");
            }
            let _ = send(made.as_raw_fd(), &bytes, MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT);
            held_local.push(made);
        }
    }
    std::thread::sleep(HELD);
}
