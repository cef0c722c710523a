//! Opening the libraries, and which of them can't be used, without a call where a call would crash.

use std::path::{Path, PathBuf};

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

use crate::cuda::Cuda;
use crate::cupti::{CUPTI_SUCCESS, Cupti};

/// The library that libcupti looks for by its name when metrics are first requested.
const PERFWORKS: &str = "libnvperf_host.so";

/// `CUPTI_API_VERSION` of CUDA 12.6, the oldest with the PM Sampling calls declared here.
pub const OLDEST: u32 = 24;

/// Releases that can't be used, newest first: a function that came with each, and why. Their calls, even
/// `cuptiGetVersion`, crash or fail, so that they are recognized by what they export. Tried on PyPI's packages.
const KNOWN_BAD: [(&str, &str, &str); 3] = [
    ("cuptiClockControlLock", "13.4 or later", "13.4.92 and 13.5.25 answer 999 (unknown) to every call"),
    ("cuptiGetTimestamp_v2", "13.3", "13.3.75 answers 999 (unknown) to every call"),
    ("cuptiProfilerHostGetSinglePassSets", "13.2", "13.2.86 crashes in its first call"),
];

/// Why a library can't be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There is no such library.
    #[error("cannot open {path}: {cause}; {remedy}")]
    Missing {
        /// What was to be opened.
        path: String,
        /// The loader's words.
        cause: String,
        /// What to do.
        remedy: &'static str,
    },
    /// There is something of that name, and the loader refuses it.
    #[error("cannot open {path}: {cause}")]
    Refused {
        /// What was to be opened.
        path: String,
        /// The loader's words.
        cause: String,
    },
    /// A function that is needed is not there.
    #[error("{path} has no function {symbol}: {remedy}")]
    MissingSymbol {
        /// What was opened.
        path: String,
        /// The function.
        symbol: &'static str,
        /// What to do.
        remedy: &'static str,
    },
    /// A release that is known not to work.
    #[error("{path} is CUPTI {release}, which cannot be used: {reason}; use CUPTI of CUDA 12.6 to 13.1")]
    KnownBad {
        /// What was opened.
        path: String,
        /// Its release.
        release: &'static str,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// It does not tell its version, or an old one.
    #[error("{path}: cuptiGetVersion gives {version} and code {code}; use CUPTI of CUDA 12.6 to 13.1")]
    Version {
        /// What was opened.
        path: String,
        /// What it reported.
        version: u32,
        /// `CUptiResult`.
        code: u32,
    },
}

/// Opens CUDA's driver library, which comes with the kernel driver.
pub fn open_cuda(path: &Path) -> Result<Cuda, OpenError> {
    let library = open(path, RTLD_NOW, "it comes with the NVIDIA driver")?;
    // SAFETY: looks names up; the types are those of cuda.h.
    let cuda = unsafe { Cuda::from_library(library) };
    let remedy = "it is not the driver's libcuda";
    let cuda = cuda.map_err(|_| missing(path, "cuInit", remedy))?;
    if cuda.cuInit.is_err() {
        return Err(missing(path, "cuInit", remedy));
    }
    Ok(cuda)
}

/// Opens libcupti, with the library of metrics beside it, and returns its `cuptiGetVersion`. Nothing is requested of a
/// release that is known to be bad.
///
/// # Errors
/// It is not there, is not libcupti, or can't be used.
pub fn open_cupti(path: &Path) -> Result<(Cupti, u32), OpenError> {
    let shown = || path.display().to_string();
    if let Some(perfworks) = beside(path) {
        // It must stay, and libcupti finds it by its name then. Whether it opens shows in the calls that need it.
        if let Ok(library) = open(&perfworks, RTLD_NOW | RTLD_GLOBAL, "") {
            std::mem::forget(library);
        }
    }
    let library =
        open(path, RTLD_NOW, "install CUPTI of CUDA 12.6 to 13.1, or set cupti.library to its path")?;
    for (symbol, release, reason) in KNOWN_BAD {
        // SAFETY: looked up, never called nor read.
        if unsafe { library.get::<*const u8>(symbol) }.is_ok() {
            return Err(OpenError::KnownBad { path: shown(), release, reason });
        }
    }
    // SAFETY: looks names up; the types are those of CUPTI's headers.
    let cupti = unsafe { Cupti::from_library(library) };
    let remedy = "it is not CUPTI";
    let cupti = cupti.map_err(|_| missing(path, "cuptiGetVersion", remedy))?;
    let Ok(get_version) = cupti.cuptiGetVersion else { return Err(missing(path, "cuptiGetVersion", remedy)) };
    let mut version = 0;
    // SAFETY: takes a pointer to a live number and may be called at any time.
    let code = unsafe { get_version(&raw mut version) };
    if code != CUPTI_SUCCESS || version < OLDEST {
        return Err(OpenError::Version { path: shown(), version, code });
    }
    Ok((cupti, version))
}

/// The library of metrics beside a libcupti that is named by its path.
fn beside(path: &Path) -> Option<PathBuf> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty())?;
    Some(folder.join(PERFWORKS)).filter(|file| file.exists())
}

fn missing(path: &Path, symbol: &'static str, remedy: &'static str) -> OpenError {
    OpenError::MissingSymbol { path: path.display().to_string(), symbol, remedy }
}

fn open(path: &Path, flags: i32, remedy: &'static str) -> Result<Library, OpenError> {
    // SAFETY: loading runs the library's initialisers. The path comes from the site's configuration, and the process
    // does nothing else than talk to that library.
    unsafe { Library::open(Some(path), flags) }.map_err(|error| {
        let path = path.display().to_string();
        let cause = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
        // The loader begins with the name of the file that it means: of this one, or of one that this one needs.
        let cause =
            cause.strip_prefix(&path).map_or(cause.as_str(), |rest| rest.trim_start_matches(": ")).to_owned();
        if cause.starts_with("cannot open shared object file: No such file") {
            OpenError::Missing { path, cause, remedy }
        } else {
            OpenError::Refused { path, cause }
        }
    })
}
