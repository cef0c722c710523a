//! By which names NVIDIA's profilers are known. Pure.
//!
//! Sources: the files that Nsight Compute, Nsight Systems, CUDA's toolkit and datacenter-gpu-manager install, and NVIDIA's
//! guides of these tools. `libcupti.so` alone is no sign, as programs link it that profile nothing (PyTorch): it opens
//! `libnvperf_host.so` itself when it is to use the performance monitor. Nor are `libInterceptorInjectionTarget.so` and
//! `libTreeLauncherTargetInjection.so`, which Compute Sanitizer brings as well: it uses no performance monitor.

/// Programs: the command lines of Nsight Compute (today's name and that before 2020), Nsight Systems and of CUDA's profiler up to
/// version 12.
pub const PROGRAMS: [&str; 4] = ["ncu", "nv-nsight-cu-cli", "nsys", "nvprof"];

/// How names of programs begin that have one for each version: the load generator of DCGM, which profiles what it generates.
///
/// `nv-hostengine` and `dcgmi` are no signs: the former always runs on a node with DCGM, whether it profiles or not, and the
/// latter only asks it. Where it has the performance monitor CUPTI answers 26 (busy).
pub const PROGRAM_BEGINNINGS: [&str; 1] = ["dcgmproftester"];

/// Libraries that profilers have in the programs that they profile, or in themselves; each may have a version behind its name.
///
/// `libnvperf_host.so` makes configurations of the performance monitor (Nsight, and CUPTI when it profiles; DCGM's own is called
/// `libnvperf_dcgm_host.so`); the others are put into programs by Nsight Compute, Nsight Systems (two) and nvprof.
pub const LIBRARIES: [&str; 5] = [
    "libnvperf_host.so",
    "libcuda-injection.so",
    "libToolsInjection64.so",
    "libToolsInjectionProxy64.so",
    "libcuinj64.so",
];

/// The kernel keeps so many bytes of a program's name.
const COMMAND_BYTES: usize = 15;

/// Whether a process of this command name, as the kernel keeps it, runs a profiler.
#[must_use]
pub fn is_profiler(command: &str) -> bool {
    let stored = |name: &str| command == &name[..name.len().min(COMMAND_BYTES)];
    PROGRAMS.into_iter().any(stored) || PROGRAM_BEGINNINGS.iter().any(|begin| command.starts_with(begin))
}

/// The sign of a profiler in a piece of `/proc/PID/maps` that ends at the end of a line: the name of a file that is mapped.
pub(super) fn sign_in(maps: &[u8]) -> Option<String> {
    maps.split(|byte| *byte == b'\n').find_map(|line| {
        // Addresses, permissions, offset, device and inode hold no slash.
        let path = &line[line.iter().position(|byte| *byte == b'/')?..];
        let file = path.rsplit(|byte| *byte == b'/').next()?;
        let file = file.strip_suffix(b" (deleted)").unwrap_or(file);
        is_sign(file).then(|| String::from_utf8_lossy(file).into_owned())
    })
}

/// Whether a file of this name, when it is mapped, is a profiler or put into a program by one.
fn is_sign(file: &[u8]) -> bool {
    let is_version = |rest: &[u8]| rest.is_empty() || rest.starts_with(b".");
    LIBRARIES.iter().any(|name| file.strip_prefix(name.as_bytes()).is_some_and(is_version))
        || PROGRAMS.iter().any(|name| file == name.as_bytes())
        || PROGRAM_BEGINNINGS.iter().any(|begin| file.starts_with(begin.as_bytes()))
}
