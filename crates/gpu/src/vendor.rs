//! The vendors' libraries that GPUs can be read by, behind one inventory and one kind of reader.

use std::path::Path;

use crate::frame::ProblemKind;
use crate::nvml::NvmlOptions;
use crate::reader::{GivenUp, Reader};
use crate::{amd_smi, dcgm, level_zero, nvml};

/// Which library.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Vendor {
    /// NVIDIA's NVML: the default.
    #[default]
    Nvml,
    /// NVIDIA's DCGM, where its daemon runs and holds the performance monitor.
    Dcgm,
    /// AMD's SMI library: xGMI links.
    AmdSmi,
    /// Intel's Level Zero Sysman: Xe links.
    LevelZero,
}

impl Vendor {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Nvml, Self::Dcgm, Self::AmdSmi, Self::LevelZero];

    /// Name in records, in the configuration and on the sampler's command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Nvml => "nvml",
            Self::Dcgm => "dcgm",
            Self::AmdSmi => "amd_smi",
            Self::LevelZero => "level_zero",
        }
    }

    /// The library's name, which the dynamic loader finds.
    #[must_use]
    pub fn library(self) -> &'static str {
        match self {
            Self::Nvml => "libnvidia-ml.so.1",
            Self::Dcgm => "libdcgm.so.4",
            Self::AmdSmi => "libamd_smi.so",
            Self::LevelZero => "libze_loader.so.1",
        }
    }

    /// Opens the library, starts it, and runs `body` with its reader.
    ///
    /// # Errors
    /// The library can't be opened or does not start; else what `body` says.
    pub fn with_reader<T>(
        self,
        library: &Path,
        options: NvmlOptions,
        body: &mut dyn FnMut(&mut dyn Reader) -> T,
    ) -> Result<T, GivenUp> {
        let done = match self {
            Self::Nvml => nvml::with_reader(library, options, body),
            Self::Dcgm => dcgm::with_reader(library, body),
            Self::AmdSmi => amd_smi::with_reader(library, body),
            Self::LevelZero => level_zero::with_reader(library, body),
        };
        done.map_err(|(kind, text)| match kind {
            ProblemKind::LibraryMissing => {
                (kind, format!("{text}; otherwise set {}.library to its path", self.name()))
            }
            _ => (kind, text),
        })
    }
}
