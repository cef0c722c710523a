//! What is made of files that are renewed while the process runs, as certificates are.

use std::fmt::Display;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// Changes with a file: device, inode, length, time of the last change in nanoseconds.
type Stamp = Option<(u64, u64, u64, i64, i64)>;

/// Made anew when one of its files has changed; while that fails, what was made before holds on.
pub struct ReloadingValue<T> {
    paths: Vec<PathBuf>,
    make: Box<dyn Fn() -> Result<T, String> + Send + Sync>,
    current: Mutex<(Arc<T>, Vec<Stamp>)>,
}

impl<T> std::fmt::Debug for ReloadingValue<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReloadingValue").field("paths", &self.paths).finish_non_exhaustive()
    }
}

impl<T> ReloadingValue<T> {
    /// Makes the first one of these files.
    ///
    /// # Errors
    /// What `make` says.
    pub fn new<E: Display>(
        paths: Vec<PathBuf>,
        make: impl Fn() -> Result<T, E> + Send + Sync + 'static,
    ) -> Result<Self, E> {
        // Before the files are read: a change in between is then found at the next look.
        let stamps = stamps(&paths);
        let current = Mutex::new((Arc::new(make()?), stamps));
        let make = Box::new(move || make().map_err(|error| error.to_string()));
        Ok(Self { paths, make, current })
    }

    /// What holds now. Looks at the files: not for a thread that polls sockets.
    #[must_use]
    pub fn current(&self) -> Arc<T> {
        // What is under the lock is replaced whole.
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let stamps = stamps(&self.paths);
        if stamps != current.1 {
            // Once for each change: the next try comes with the next change.
            current.1 = stamps;
            match (self.make)() {
                Ok(made) => {
                    current.0 = Arc::new(made);
                    tracing::info!(files = ?self.paths, "renewed");
                }
                Err(error) => tracing::error!("{error}; what the files held before is used on"),
            }
        }
        current.0.clone()
    }
}

fn stamps(paths: &[PathBuf]) -> Vec<Stamp> {
    let stamp = |path: &PathBuf| {
        let facts = std::fs::metadata(path).ok()?;
        Some((facts.dev(), facts.ino(), facts.len(), facts.mtime(), facts.mtime_nsec()))
    };
    paths.iter().map(stamp).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn a_changed_file_holds_and_a_bad_one_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("number");
        std::fs::write(&path, "1").unwrap();
        let (of, times) = (path.clone(), Arc::new(AtomicUsize::new(0)));
        let counted = times.clone();
        let make = move || {
            counted.fetch_add(1, Ordering::Relaxed);
            std::fs::read_to_string(&of).unwrap_or_default().parse::<u32>()
        };
        let renewed = ReloadingValue::new(vec![path.clone()], make).unwrap();
        let all =
            [(None, 1, 1), (Some("22"), 22, 2), (Some("none"), 22, 3), (None, 22, 3), (Some("7"), 7, 4)];
        for (text, expected, tries) in all {
            if let Some(text) = text {
                std::fs::write(&path, text).unwrap();
            }
            assert_eq!((*renewed.current(), times.load(Ordering::Relaxed)), (expected, tries), "{text:?}");
        }
        std::fs::remove_file(&path).unwrap();
        assert_eq!(*renewed.current(), 7);
        assert!(ReloadingValue::new(vec![path], || "x".parse::<u32>()).is_err());
    }
}
