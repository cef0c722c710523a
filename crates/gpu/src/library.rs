//! Opening a vendor's library at run time: what can go wrong, and looking functions up.
#![allow(unsafe_code)] // loading a library runs its code: each block says why it holds

use std::cell::RefCell;
use std::path::Path;

use crate::frame::ProblemKind;
use crate::reader::GivenUp;

/// Why a library can't be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There is no such library.
    #[error("cannot open {path}: {cause}; on a node without GPUs of this vendor this is to be expected")]
    Missing {
        /// What was to be opened.
        path: String,
        /// The loader's words.
        cause: String,
    },
    /// There is something of that name, and the loader refuses it.
    #[error("cannot open {path}: {cause}; use the driver's own library")]
    Refused {
        /// What was to be opened.
        path: String,
        /// The loader's words.
        cause: String,
    },
    /// The library opens but is too old, or is another one.
    #[error("{path} has no function {symbol}: it is too old, or another library; use the driver's own")]
    MissingSymbol {
        /// What was opened.
        path: String,
        /// The function that is not there.
        symbol: &'static str,
    },
}

impl From<OpenError> for GivenUp {
    fn from(error: OpenError) -> Self {
        let kind = match error {
            OpenError::Missing { .. } => ProblemKind::LibraryMissing,
            OpenError::Refused { .. } | OpenError::MissingSymbol { .. } => ProblemKind::LibraryUnusable,
        };
        (kind, error.to_string())
    }
}

/// A loaded library. Function pointers taken from it must not outlive it.
pub struct LoadedLibrary {
    library: libloading::Library,
    path: String,
    missing: RefCell<Vec<&'static str>>,
}

impl LoadedLibrary {
    /// Opens a library by a path, or by a name that the dynamic loader finds.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let shown = path.display().to_string();
        // SAFETY: loading runs the library's initialisers. The path comes from the site's configuration, and the
        // process does nothing else than talk to that library.
        match unsafe { libloading::Library::new(path) } {
            Ok(library) => Ok(Self { library, path: shown, missing: RefCell::default() }),
            Err(error) => Err(refusal(&shown, &error)),
        }
    }

    /// Looks a function up.
    ///
    /// # Safety
    /// `T` must be the function pointer type that the vendor's header declares for `symbol`.
    pub unsafe fn optional<T: Copy>(&self, symbol: &'static str) -> Option<T> {
        // SAFETY: the caller vouches for the type.
        let found = unsafe { self.library.get::<T>(symbol) }.ok().map(|found| *found);
        if found.is_none() {
            self.missing.borrow_mut().push(symbol);
        }
        found
    }

    /// The functions that were looked up and are not there.
    pub fn missing(&self) -> Vec<&'static str> {
        self.missing.borrow().clone()
    }

    /// The same, naming the function where it is not there.
    ///
    /// # Safety
    /// As [`LoadedLibrary::optional`].
    pub unsafe fn required<T: Copy>(&self, symbol: &'static str) -> Result<T, OpenError> {
        // SAFETY: as the caller vouches.
        let found = unsafe { self.optional(symbol) };
        found.ok_or_else(|| OpenError::MissingSymbol { path: self.path.clone(), symbol })
    }
}

/// Declares the calls of a library as a structure, with an `open` that looks each up: those without which it is of no use,
/// and those that older ones lack. The types must be those that the vendor's header declares for the names.
macro_rules! calls {
    (
        $(#[$about:meta])*
        struct $calls:ident {
            $($call:ident: $type:ty = $symbol:literal,)*
        }
        $(optional {
            $($maybe:ident: $maybe_type:ty = $maybe_symbol:literal,)*
        })?
    ) => {
        $(#[$about])*
        struct $calls {
            $($call: $type,)*
            $($($maybe: Option<$maybe_type>,)*)?
            // The pointers are of it.
            _keep_loaded: $crate::library::LoadedLibrary,
        }

        impl $calls {
            fn open(path: &std::path::Path) -> Result<Self, $crate::library::OpenError> {
                let opened = $crate::library::LoadedLibrary::open(path)?;
                // SAFETY: each name is looked up as the type that the vendor's header declares for it; the pointers live
                // beside the library.
                unsafe {
                    Ok(Self {
                        $($call: opened.required($symbol)?,)*
                        $($($maybe: opened.optional($maybe_symbol),)*)?
                        _keep_loaded: opened,
                    })
                }
            }
        }
    };
}
pub(crate) use calls;

/// Why the loader did not open a library. The cause is below the error, and describes a missing file in words only.
fn refusal(path: &str, error: &libloading::Error) -> OpenError {
    let cause = std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
    // The loader begins with the name of the file that it means: of this one, or of one that this one needs.
    let cause =
        cause.strip_prefix(path).map_or(cause.as_str(), |rest| rest.trim_start_matches(": ")).to_owned();
    let path = path.to_owned();
    if cause.starts_with("cannot open shared object file: No such file") {
        OpenError::Missing { path, cause }
    } else {
        OpenError::Refused { path, cause }
    }
}

/// Text up to the first NUL, or the whole buffer where a library forgot it.
#[must_use]
pub fn text(buffer: &[u8]) -> String {
    let end = buffer.iter().position(|byte| *byte == 0).unwrap_or(buffer.len());
    String::from_utf8_lossy(&buffer[..end]).into_owned()
}
