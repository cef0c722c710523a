//! One descriptor of a port: sending MADs and taking what arrives, single MADs and whole messages.
//!
//! It knows nothing of what a MAD says, and waits for no answer.

use crate::{Error, HEADER_BYTES, Library, MAD_BYTES, MESSAGE_BYTES_MAX, raw};
use libc::c_int;
use std::mem::offset_of;
use std::sync::Arc;
use std::time::Duration;

/// Receives in a row that may fail with EIO before it counts as an error: the simulator's `poll` answers EIO
/// when it was woken for nothing, and a few of those come in a burst.
const MAX_IDLE_FAILURES: u32 = 1000;

/// Header and message, aligned as the kernel's structure is.
pub(crate) struct Buffer(Vec<u64>);

impl Buffer {
    /// One for messages of this many bytes.
    pub(crate) fn of(message_bytes: usize) -> Buffer {
        Buffer(vec![0; (HEADER_BYTES + message_bytes).div_ceil(size_of::<u64>())])
    }

    fn message_bytes(&self) -> usize {
        self.0.len() * size_of::<u64>() - HEADER_BYTES
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: integers without padding, read as the bytes that they consist of.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), self.0.len() * size_of::<u64>()) }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; any bytes are integers.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), self.0.len() * size_of::<u64>()) }
    }

    /// The four bytes at an offset of the header.
    fn word(&self, at: usize) -> [u8; 4] {
        let bytes = self.bytes();
        [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]
    }
}

/// The peer of a MAD, in host byte order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// Local identifier; 0xFFFF for a directed route.
    pub lid: u16,
    /// Queue pair: 0 for SMPs, 1 for the rest.
    pub queue_pair: u32,
    /// Queue key: 0x80010000 for queue pair 1.
    pub queue_key: u32,
    /// Service level.
    pub service_level: u8,
}

/// What a receive brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveOutcome {
    /// Nothing yet.
    Nothing,
    /// A MAD, with the kernel's status (0, or the errno with which the request that it echoes failed).
    Mad {
        /// Kernel status.
        status: u32,
    },
}

/// One descriptor of a port with one management class. Not shared between threads at once.
pub struct Agent {
    pub(crate) library: Arc<Library>,
    pub(crate) what: String,
    pub(crate) descriptor: c_int,
    pub(crate) id: c_int,
    pub(crate) header_bytes: usize,
    pub(crate) idle_failures: u32,
    pub(crate) buffer: Buffer,
}

impl Agent {
    /// Sends one MAD; the kernel gives a request up after `timeout`, without repeating it. What expects no
    /// answer, as a reply does, is sent with a `timeout` of zero.
    ///
    /// # Errors
    /// [`Error::Io`]; nothing was sent then.
    pub fn send(&mut self, mad: &[u8; MAD_BYTES], peer: &Peer, timeout: Duration) -> Result<(), Error> {
        let header = raw::IbUserMad {
            addr: raw::IbMadAddr {
                qpn: peer.queue_pair.to_be(),
                qkey: peer.queue_key.to_be(),
                lid: peer.lid.to_be(),
                sl: peer.service_level,
                ..raw::IbMadAddr::default()
            },
            ..raw::IbUserMad::default()
        };
        // SAFETY: plain integers without padding (checked against the header), read as bytes.
        let header_bytes: [u8; HEADER_BYTES] = unsafe { std::mem::transmute(header) };
        let buffer = self.buffer.bytes_mut();
        buffer[..self.header_bytes].copy_from_slice(&header_bytes[..self.header_bytes]);
        buffer[self.header_bytes..self.header_bytes + MAD_BYTES].copy_from_slice(mad);
        let timeout_ms = c_int::try_from(timeout.as_millis()).unwrap_or(c_int::MAX);
        let pointer = self.buffer.bytes_mut().as_mut_ptr().cast();
        // SAFETY: the buffer holds header and MAD; libibumad reads umad_size() + MAD_BYTES bytes of it.
        let result = unsafe {
            (self.library.send)(self.descriptor, self.id, pointer, MAD_BYTES as c_int, timeout_ms, 0)
        };
        if result < 0 {
            let cause = std::io::Error::last_os_error();
            return Err(Error::Io { call: "umad_send", what: self.what.clone(), cause });
        }
        Ok(())
    }

    /// Takes one MAD, waiting at most `wait` (to the millisecond, at most; 0: not at all).
    /// A MAD shorter than 256 bytes is filled up with zeroes.
    ///
    /// # Errors
    /// [`Error::Io`] for anything but "nothing yet".
    pub fn recv(&mut self, mad: &mut [u8; MAD_BYTES], wait: Duration) -> Result<ReceiveOutcome, Error> {
        let Some((status, length)) = self.take(wait)? else { return Ok(ReceiveOutcome::Nothing) };
        let length = length.min(MAD_BYTES);
        mad[..length].copy_from_slice(&self.buffer.bytes()[self.header_bytes..self.header_bytes + length]);
        mad[length..].fill(0);
        Ok(ReceiveOutcome::Mad { status })
    }

    /// Takes one message of any length up to [`MESSAGE_BYTES_MAX`] into `message`, waiting as [`Agent::recv`]
    /// does, and reports who sent it.
    ///
    /// # Errors
    /// As [`Agent::recv`], and when the message is longer.
    pub fn recv_message(
        &mut self,
        message: &mut Vec<u8>,
        wait: Duration,
    ) -> Result<(ReceiveOutcome, Peer), Error> {
        message.clear();
        let Some((status, length)) = self.take(wait)? else {
            return Ok((ReceiveOutcome::Nothing, Peer::default()));
        };
        message.extend_from_slice(&self.buffer.bytes()[self.header_bytes..self.header_bytes + length]);
        let word = |at| u32::from_be_bytes(self.buffer.word(at));
        let address = offset_of!(raw::IbUserMad, addr);
        let from = Peer {
            queue_pair: word(address + offset_of!(raw::IbMadAddr, qpn)),
            queue_key: word(address + offset_of!(raw::IbMadAddr, qkey)),
            lid: (word(address + offset_of!(raw::IbMadAddr, lid)) >> 16) as u16,
            service_level: self.buffer.bytes()[address + offset_of!(raw::IbMadAddr, sl)],
        };
        Ok((ReceiveOutcome::Mad { status }, from))
    }

    /// Reads what waits into the buffer: kernel status and length of the message; `None` when there is nothing.
    fn take(&mut self, wait: Duration) -> Result<Option<(u32, usize)>, Error> {
        loop {
            let space = self.buffer.message_bytes();
            let mut length = c_int::try_from(space).unwrap_or(c_int::MAX);
            let wait_ms = c_int::try_from(wait.as_millis()).unwrap_or(c_int::MAX);
            let pointer = self.buffer.bytes_mut().as_mut_ptr().cast();
            // SAFETY: the buffer has space for umad_size() + length bytes.
            let result = unsafe { (self.library.recv)(self.descriptor, pointer, &raw mut length, wait_ms) };
            if result >= 0 {
                self.idle_failures = 0;
                let length = usize::try_from(length).unwrap_or(0).min(space);
                let status = self.buffer.word(offset_of!(raw::IbUserMad, status));
                return Ok(Some((u32::from_ne_bytes(status), length)));
            }
            let cause = std::io::Error::last_os_error();
            let code = cause.raw_os_error().filter(|code| *code != 0).unwrap_or(-result);
            match code {
                libc::EAGAIN | libc::ETIMEDOUT | libc::EINTR => return Ok(None),
                libc::EIO if self.idle_failures < MAX_IDLE_FAILURES => {
                    self.idle_failures += 1;
                    return Ok(None);
                }
                // The message is longer than the buffer, stays in the queue, and its length is in the header.
                libc::ENOSPC => self.grow(length)?,
                _ => return Err(Error::Io { call: "umad_recv", what: self.what.clone(), cause }),
            }
        }
    }

    /// Makes space for a message of this many bytes.
    fn grow(&mut self, needed: c_int) -> Result<(), Error> {
        let space = self.buffer.message_bytes();
        let needed = usize::try_from(needed).unwrap_or(0);
        if needed <= space || needed > MESSAGE_BYTES_MAX {
            let cause = std::io::Error::other(format!(
                "a message of {needed} bytes is waiting; {MESSAGE_BYTES_MAX} are the most that are taken"
            ));
            return Err(Error::Io { call: "umad_recv", what: self.what.clone(), cause });
        }
        self.buffer = Buffer::of(needed);
        Ok(())
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // SAFETY: opened and, where the number is not negative, registered by this value; done once.
        unsafe {
            if self.id >= 0 {
                (self.library.unregister)(self.descriptor, self.id);
            }
            (self.library.close_port)(self.descriptor);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_hold_header_and_message() {
        for bytes in [MAD_BYTES, 257, 100_000] {
            let mut buffer = Buffer::of(bytes);
            assert!(buffer.message_bytes() >= bytes && buffer.message_bytes() < bytes + 8);
            assert_eq!(buffer.bytes_mut().len(), buffer.message_bytes() + HEADER_BYTES);
        }
    }
}
