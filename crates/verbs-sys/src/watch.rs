//! The watch itself, over rdma-sys.

use crate::{Error, PortEvent};
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::time::Duration;

/// One device, opened to read its asynchronous events. Used by one thread at a time.
pub struct Watch {
    device: String,
    port: u8,
    context: *mut rdma_sys::ibv_context,
}

// SAFETY: libibverbs allows a context to be used from any thread; the pointer is this value's alone.
unsafe impl Send for Watch {}

/// The devices, freed when dropped.
struct Devices {
    list: *mut *mut rdma_sys::ibv_device,
    count: usize,
}

impl Devices {
    fn get(device: &str) -> Result<Devices, Error> {
        let mut count = 0;
        // SAFETY: the count is written by the call; the list is checked below.
        let list = unsafe { rdma_sys::ibv_get_device_list(&raw mut count) };
        if list.is_null() {
            let cause = std::io::Error::last_os_error();
            // Without the kernel's module there are no verbs at all: no device either.
            if matches!(cause.raw_os_error(), Some(libc::ENOSYS | libc::ENOENT)) {
                return Err(Error::NoDevice { device: device.to_owned(), known: "none".to_owned() });
            }
            return Err(Error::Call { call: "ibv_get_device_list", device: device.to_owned(), cause });
        }
        Ok(Devices { list, count: usize::try_from(count).unwrap_or(0) })
    }

    fn iter(&self) -> impl Iterator<Item = (String, *mut rdma_sys::ibv_device)> + '_ {
        (0..self.count).map(|index| {
            // SAFETY: the list has `count` entries, each valid until it is freed.
            let device = unsafe { *self.list.add(index) };
            // SAFETY: the name is NUL-terminated and lives as long as the device.
            let name = unsafe { CStr::from_ptr(rdma_sys::ibv_get_device_name(device)) };
            (name.to_string_lossy().into_owned(), device)
        })
    }
}

impl Drop for Devices {
    fn drop(&mut self) {
        // SAFETY: from ibv_get_device_list, freed once.
        unsafe { rdma_sys::ibv_free_device_list(self.list) };
    }
}

impl Watch {
    /// Opens a device by name to watch one of its ports.
    ///
    /// # Errors
    /// [`Error::NoDevice`], or a call failed.
    pub fn open(device: &str, port: u8) -> Result<Watch, Error> {
        let devices = Devices::get(device)?;
        let Some((_, found)) = devices.iter().find(|(name, _)| name == device) else {
            let known: Vec<String> = devices.iter().map(|(name, _)| name).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return Err(Error::NoDevice { device: device.to_owned(), known });
        };
        // SAFETY: a device of the list, which is freed only after this call.
        let context = unsafe { rdma_sys::ibv_open_device(found) };
        if context.is_null() {
            let cause = std::io::Error::last_os_error();
            return Err(Error::Call { call: "ibv_open_device", device: device.to_owned(), cause });
        }
        let watch = Watch { device: device.to_owned(), port, context };
        // SAFETY: an open descriptor of this context.
        let result = unsafe { libc::fcntl(watch.descriptor(), libc::F_SETFL, libc::O_NONBLOCK) };
        if result < 0 {
            return Err(watch.failed("fcntl"));
        }
        Ok(watch)
    }

    fn descriptor(&self) -> libc::c_int {
        // SAFETY: the context is open as long as this value.
        unsafe { (*self.context).async_fd }
    }

    fn failed(&self, call: &'static str) -> Error {
        Error::Call { call, device: self.device.clone(), cause: std::io::Error::last_os_error() }
    }

    /// The next event of the port, waiting at most `wait`; events of queues and of other ports are left out.
    ///
    /// # Errors
    /// A call failed: the device is gone.
    pub fn next(&mut self, wait: Duration) -> Result<Option<PortEvent>, Error> {
        let mut polled = libc::pollfd { fd: self.descriptor(), events: libc::POLLIN, revents: 0 };
        let wait = libc::c_int::try_from(wait.as_millis()).unwrap_or(libc::c_int::MAX);
        // SAFETY: one valid structure.
        let ready = unsafe { libc::poll(&raw mut polled, 1, wait) };
        if ready < 0 && std::io::Error::last_os_error().kind() != std::io::ErrorKind::Interrupted {
            return Err(self.failed("poll"));
        }
        if ready <= 0 {
            return Ok(None);
        }
        let mut event = MaybeUninit::<rdma_sys::ibv_async_event>::zeroed();
        // SAFETY: an open context; the call fills the structure.
        if unsafe { rdma_sys::ibv_get_async_event(self.context, event.as_mut_ptr()) } != 0 {
            return match std::io::Error::last_os_error().kind() {
                std::io::ErrorKind::WouldBlock | std::io::ErrorKind::Interrupted => Ok(None),
                _ => Err(self.failed("ibv_get_async_event")),
            };
        }
        let event = event.as_mut_ptr();
        // SAFETY: filled above. The number is read as an integer, since a newer library can have others than
        // the enumeration; an event of a port has the port's number where others have pointers.
        let (number, port) = unsafe {
            (
                (&raw const (*event).event_type).cast::<u32>().read(),
                (&raw const (*event).element).cast::<libc::c_int>().read(),
            )
        };
        // SAFETY: each event that was got is acknowledged once.
        unsafe { rdma_sys::ibv_ack_async_event(event) };
        Ok(PortEvent::from_number(number).filter(|_| port == libc::c_int::from(self.port)))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // SAFETY: opened by this value, closed once.
        unsafe { rdma_sys::ibv_close_device(self.context) };
    }
}
