//! NVML, opened at run time: our own declarations of the few calls used, and a safe face on them.
//!
//! Names, numbers, sizes and offsets are facts of NVIDIA's `nvml.h` (API version 12), checked against the
//! header of CUDA 12.9; nothing of that header is copied. This folder must be used in the sampler's process alone:
//! a wedged driver never returns from a call.
#![allow(unsafe_code)] // foreign functions: each block says why it holds

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::path::Path;

use crate::code::Code;
use crate::field::FieldValue;
use crate::frame::ProblemKind;
use crate::library::{LoadedLibrary, OpenError};
use crate::reader::{GivenUp, Reader};

mod fabric;
mod gpm;
mod gpu;
mod plan;
mod reader;
mod refusals;
mod survey;
mod unfold;
mod xid;

pub use gpm::GpmPcie;
pub use gpu::{ComputeProcess, Gpu};
pub use reader::{NvmlOptions, NvmlReader};

/// `nvmlNvlinkVersion_t` of NVLink 5.0: from here on links count bytes in [`XMIT_BYTES`](crate::field::XMIT_BYTES).
pub const NVLINK_VERSION_5_0: u32 = 7;

const UUID_BYTES: usize = 96; // NVML_DEVICE_UUID_V2_BUFFER_SIZE
const NAME_BYTES: usize = 96; // NVML_DEVICE_NAME_V2_BUFFER_SIZE
const VERSION_BYTES: usize = 80; // NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE, and that of NVML's own version

/// `nvmlPciInfo_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct PciInfo {
    bus_id_legacy: [c_char; 16],
    domain: c_uint,
    bus: c_uint,
    device: c_uint,
    device_id: c_uint,
    subsystem_id: c_uint,
    bus_id: [c_char; 32],
}

// What nvml.h gives on the platforms NVML exists on (64-bit Linux). A mistake here would corrupt memory.
const _: () = assert!(size_of::<PciInfo>() == 68 && std::mem::offset_of!(PciInfo, domain) == 16);
const _: () = assert!(std::mem::offset_of!(PciInfo, bus_id) == 36);

/// `nvmlProcessInfo_t`, which versions 2 and 3 of the call fill.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct ProcessInfo {
    pid: c_uint,
    used_memory: u64,
    gpu_instance: c_uint,
    compute_instance: c_uint,
}
const _: () = assert!(size_of::<ProcessInfo>() == 24 && std::mem::offset_of!(ProcessInfo, used_memory) == 8);

/// The newest version of the list of processes.
const PROCESSES_V3: &str = "nvmlDeviceGetComputeRunningProcesses_v3";
/// Space for the processes of one GPU at the first try; a node runs a few on each.
const PROCESSES_FIRST: usize = 64;
/// Most processes of one GPU that are listed: what a few hundred ranks sharing it come to, many times over.
const PROCESSES_MAX: usize = 16_384;

type Handle = *mut c_void;
type NoArguments = unsafe extern "C" fn() -> u32;
type SystemText = unsafe extern "C" fn(*mut c_char, c_uint) -> u32;
type DeviceText = unsafe extern "C" fn(Handle, *mut c_char, c_uint) -> u32;
type OutNumber = unsafe extern "C" fn(*mut c_uint) -> u32;
type HandleByIndex = unsafe extern "C" fn(c_uint, *mut Handle) -> u32;
type DeviceNumber = unsafe extern "C" fn(Handle, *mut c_uint) -> u32;
type DevicePci = unsafe extern "C" fn(Handle, *mut PciInfo) -> u32;
type LinkNumber = unsafe extern "C" fn(Handle, c_uint, *mut c_uint) -> u32;
type LinkPci = unsafe extern "C" fn(Handle, c_uint, *mut PciInfo) -> u32;
type DeviceProcesses = unsafe extern "C" fn(Handle, *mut c_uint, *mut ProcessInfo) -> u32;
type DeviceTwoNumbers = unsafe extern "C" fn(Handle, *mut c_uint, *mut c_uint) -> u32;
type PartByIndex = unsafe extern "C" fn(Handle, c_uint, *mut Handle) -> u32;
type FieldValues = unsafe extern "C" fn(Handle, c_int, *mut FieldValue) -> u32;

/// An opened library. Nothing can be queried before [`Library::start`].
pub struct Library {
    init: NoArguments,
    shutdown: NoArguments,
    count: OutNumber,
    handle: HandleByIndex,
    uuid: DeviceText,
    fields: FieldValues,
    link_state: LinkNumber,
    driver_version: Option<SystemText>,
    nvml_version: Option<SystemText>,
    name: Option<DeviceText>,
    pci: Option<DevicePci>,
    minor: Option<DeviceNumber>,
    pcie_generation: Option<DeviceNumber>,
    pcie_width: Option<DeviceNumber>,
    link_version: Option<LinkNumber>,
    remote_pci: Option<LinkPci>,
    remote_type: Option<LinkNumber>,
    processes: Option<DeviceProcesses>,
    mig_mode: Option<DeviceTwoNumbers>,
    mig_count_max: Option<DeviceNumber>,
    mig_handle: Option<PartByIndex>,
    gpu_instance: Option<DeviceNumber>,
    compute_instance: Option<DeviceNumber>,
    fabric: Option<fabric::DeviceFabric>,
    gpm: Option<gpm::Calls>,
    xid: Option<xid::Calls>,
    opened: LoadedLibrary,
}

impl Library {
    /// Opens the library by a path, or by a name that the dynamic loader finds.
    ///
    /// # Errors
    /// When it can't be loaded or lacks one of the functions without which nothing can be read.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let opened = LoadedLibrary::open(path)?;
        // SAFETY: each name is looked up as the type that nvml.h declares for it, and the library stays loaded as long
        // as the pointers: both live in `Library`.
        unsafe {
            Ok(Self {
                init: opened.required("nvmlInit_v2")?,
                shutdown: opened.required("nvmlShutdown")?,
                count: opened.required("nvmlDeviceGetCount_v2")?,
                handle: opened.required("nvmlDeviceGetHandleByIndex_v2")?,
                uuid: opened.required("nvmlDeviceGetUUID")?,
                fields: opened.required("nvmlDeviceGetFieldValues")?,
                link_state: opened.required("nvmlDeviceGetNvLinkState")?,
                driver_version: opened.optional("nvmlSystemGetDriverVersion"),
                nvml_version: opened.optional("nvmlSystemGetNVMLVersion"),
                name: opened.optional("nvmlDeviceGetName"),
                pci: opened.optional("nvmlDeviceGetPciInfo_v3"),
                minor: opened.optional("nvmlDeviceGetMinorNumber"),
                pcie_generation: opened.optional("nvmlDeviceGetMaxPcieLinkGeneration"),
                pcie_width: opened.optional("nvmlDeviceGetMaxPcieLinkWidth"),
                link_version: opened.optional("nvmlDeviceGetNvLinkVersion"),
                remote_pci: opened.optional("nvmlDeviceGetNvLinkRemotePciInfo_v2"),
                remote_type: opened.optional("nvmlDeviceGetNvLinkRemoteDeviceType"),
                // Both fill the same structure; the first version of the call fills another.
                processes: opened
                    .optional(PROCESSES_V3)
                    .or_else(|| opened.optional("nvmlDeviceGetComputeRunningProcesses_v2")),
                mig_mode: opened.optional("nvmlDeviceGetMigMode"),
                mig_count_max: opened.optional("nvmlDeviceGetMaxMigDeviceCount"),
                mig_handle: opened.optional("nvmlDeviceGetMigDeviceHandleByIndex"),
                gpu_instance: opened.optional("nvmlDeviceGetGpuInstanceId"),
                compute_instance: opened.optional("nvmlDeviceGetComputeInstanceId"),
                fabric: opened.optional(fabric::CALL),
                gpm: gpm::Calls::find(&opened),
                xid: xid::Calls::find(&opened),
                opened,
            })
        }
    }

    /// The optional functions that it lacks. Of the two versions of the list of processes the second one counts.
    #[must_use]
    pub fn missing(&self) -> Vec<&'static str> {
        let is_there = |name: &&str| *name == PROCESSES_V3 && self.processes.is_some();
        self.opened.missing().into_iter().filter(|name| !is_there(name)).collect()
    }

    /// Initialises NVML. No context is made on a GPU and no lock taken.
    ///
    /// # Errors
    /// NVML's code: no driver, a driver of another version, no permission.
    pub fn start(&self) -> Result<Session<'_>, Code> {
        // SAFETY: takes no argument and may be called at any time.
        checked(unsafe { (self.init)() }).map(|()| Session { library: self })
    }
}

/// See [`Vendor::with_reader`](crate::Vendor::with_reader).
pub(crate) fn with_reader<T>(
    library: &Path,
    options: NvmlOptions,
    body: &mut dyn FnMut(&mut dyn Reader) -> T,
) -> Result<T, GivenUp> {
    let library = Library::open(library)?;
    let session = library.start().map_err(|code| {
        (ProblemKind::DriverUnavailable, format!("NVML does not start: {code}; {}", code.remedy()))
    })?;
    Ok(body(&mut NvmlReader::new(&session, options)))
}

/// NVML between initialisation and shutdown.
pub struct Session<'l> {
    library: &'l Library,
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        // SAFETY: pairs with the initialisation that made this value. Its result changes nothing.
        unsafe { (self.library.shutdown)() };
    }
}

impl<'l> Session<'l> {
    /// The driver's version, for instance `580.65.06`.
    #[must_use]
    pub fn driver_version(&self) -> Option<String> {
        system_text(self.library.driver_version)
    }

    /// NVML's own version.
    #[must_use]
    pub fn nvml_version(&self) -> Option<String> {
        system_text(self.library.nvml_version)
    }

    /// How many GPUs there are.
    pub fn gpu_count(&self) -> Result<u32, Code> {
        let mut count: c_uint = 0;
        // SAFETY: the pointer is to a live unsigned int.
        checked(unsafe { (self.library.count)(&raw mut count) })?;
        Ok(count)
    }

    /// The GPU at an index below [`Session::gpu_count`].
    ///
    /// # Errors
    /// NVML's code: a GPU can be lost or forbidden by itself.
    pub fn gpu(&self, index: u32) -> Result<Gpu<'l, '_>, Code> {
        let mut handle: Handle = std::ptr::null_mut();
        // SAFETY: the pointer is to a live handle; the index is NVML's to check.
        checked(unsafe { (self.library.handle)(index, &raw mut handle) })?;
        Ok(Gpu { library: self.library, handle, _session: std::marker::PhantomData })
    }
}

const EMPTY_PCI_INFO: PciInfo = PciInfo {
    bus_id_legacy: [0; 16],
    domain: 0,
    bus: 0,
    device: 0,
    device_id: 0,
    subsystem_id: 0,
    bus_id: [0; 32],
};

fn checked(code: u32) -> Result<(), Code> {
    if Code(code) == Code::SUCCESS { Ok(()) } else { Err(Code(code)) }
}

fn system_text(call: Option<SystemText>) -> Option<String> {
    let mut buffer: [c_char; VERSION_BYTES] = [0; VERSION_BYTES];
    // SAFETY: the buffer has the length that is given.
    checked(unsafe { call?(buffer.as_mut_ptr(), VERSION_BYTES as c_uint) }).ok()?;
    Some(text(&buffer))
}

fn pci_text(info: &PciInfo) -> String {
    text(&info.bus_id).to_ascii_lowercase()
}

/// Text up to the first NUL, or the whole buffer where a library forgot it.
fn text(buffer: &[c_char]) -> String {
    // SAFETY: c_char and u8 have one size, and any byte is a valid u8.
    let bytes = unsafe { std::slice::from_raw_parts(buffer.as_ptr().cast::<u8>(), buffer.len()) };
    match CStr::from_bytes_until_nul(bytes) {
        Ok(text) => text.to_string_lossy().into_owned(),
        Err(_) => String::from_utf8_lossy(bytes).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_named_with_the_remedy() {
        let error = Library::open(Path::new("/nowhere/libnvidia-ml.so.1")).err().expect("nothing there");
        let text = error.to_string();
        assert!(
            text.contains("/nowhere/libnvidia-ml.so.1") && text.contains("this is to be expected"),
            "{text}"
        );
        assert!(matches!(error, OpenError::Missing { .. }) && text.contains("No such file"), "{text}");
    }

    #[test]
    fn a_file_that_is_no_library_is_refused_in_the_loaders_words() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        std::fs::write(file.path(), "no library").expect("written");
        let error = Library::open(file.path()).err().expect("no library");
        assert!(matches!(error, OpenError::Refused { .. }), "{error}");
        assert!(error.to_string().contains("file too short") || error.to_string().contains("ELF"), "{error}");
    }

    #[test]
    fn a_library_that_is_not_nvml_is_refused_by_the_function_it_lacks() {
        let error = Library::open(Path::new("libc.so.6")).err().expect("libc is no NVML");
        assert!(matches!(error, OpenError::MissingSymbol { symbol: "nvmlInit_v2", .. }), "{error}");
    }
}
