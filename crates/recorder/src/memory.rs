//! A folder in memory, for nodes without a disk: the ring is lost with the process.

use std::collections::BTreeMap;
use std::io::{Error, ErrorKind, Result};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use throughline_spool::{Storage, StorageFile};

type Content = Arc<Mutex<Vec<u8>>>;

/// Files in memory; open ones stay readable after they are removed.
#[derive(Debug, Default)]
pub struct MemoryStorage {
    files: Mutex<BTreeMap<String, Content>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Storage for MemoryStorage {
    fn list(&self) -> Result<Vec<String>> {
        Ok(lock(&self.files).keys().cloned().collect())
    }

    fn create(&self, name: &str) -> Result<Box<dyn StorageFile>> {
        let mut files = lock(&self.files);
        if files.contains_key(name) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        let content = Content::default();
        files.insert(name.to_owned(), content.clone());
        Ok(Box::new(MemoryFile(content)))
    }

    fn open(&self, name: &str) -> Result<Box<dyn StorageFile>> {
        let content = lock(&self.files).get(name).cloned().ok_or(ErrorKind::NotFound)?;
        Ok(Box::new(MemoryFile(content)))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let mut files = lock(&self.files);
        let content = files.remove(from).ok_or(ErrorKind::NotFound)?;
        files.insert(to.to_owned(), content);
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<()> {
        lock(&self.files).remove(name).map(|_| ()).ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn sync_dir(&self) -> Result<()> {
        Ok(())
    }
}

struct MemoryFile(Content);

impl StorageFile for MemoryFile {
    fn len(&self) -> Result<u64> {
        Ok(lock(&self.0).len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let content = lock(&self.0);
        let start = usize::try_from(offset).map_or(content.len(), |offset| offset.min(content.len()));
        let count = buffer.len().min(content.len() - start);
        buffer[..count].copy_from_slice(&content[start..start + count]);
        Ok(count)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        let start = usize::try_from(offset).map_err(|_| Error::from(ErrorKind::FileTooLarge))?;
        let mut content = lock(&self.0);
        let end = start + bytes.len();
        if content.len() < end {
            content.resize(end, 0);
        }
        content[start..end].copy_from_slice(bytes);
        Ok(())
    }

    fn sync_data(&self) -> Result<()> {
        Ok(())
    }
}
