//! Where the simulator's programs lie.

use std::path::{Path, PathBuf};

/// The programs are not in the prefix.
#[derive(Debug, thiserror::Error)]
#[error(
    "{program} is not in {bin}: make the prefix with `cargo xtask prefix`, or name another one in THROUGHLINE_PREFIX"
)]
pub struct ToolsMissing {
    program: &'static str,
    bin: String,
}

/// A prefix with ibsim, opensm, infiniband-diags and libumad2sim.
#[derive(Clone, Debug)]
pub struct SimTools {
    prefix: PathBuf,
}

impl SimTools {
    /// The programs of a prefix: `bin/ibsim`, `bin/opensm`, `bin/ibnetdiscover` and its family, and
    /// `lib/libumad2sim.so`.
    ///
    /// # Errors
    /// [`ToolsMissing`] names what is not there.
    pub fn at(prefix: &Path) -> Result<SimTools, ToolsMissing> {
        let tools = SimTools { prefix: prefix.to_owned() };
        let needed = ["ibsim", "opensm", "ibnetdiscover"].map(|name| (name, tools.program(name)));
        for (program, path) in needed.into_iter().chain([("libumad2sim.so", tools.umad2sim())]) {
            if !path.exists() {
                return Err(ToolsMissing { program, bin: prefix.display().to_string() });
            }
        }
        Ok(tools)
    }

    /// A program of the prefix.
    #[must_use]
    pub fn program(&self, name: &str) -> PathBuf {
        self.prefix.join("bin").join(name)
    }

    /// The library to preload.
    #[must_use]
    pub fn umad2sim(&self) -> PathBuf {
        self.libraries().join("libumad2sim.so")
    }

    /// The folder of the libraries that it needs.
    #[must_use]
    pub fn libraries(&self) -> PathBuf {
        self.prefix.join("lib")
    }
}
