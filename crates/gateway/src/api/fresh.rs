//! A value that is read once for all requests within a short time.

use crate::api_error::ApiError;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// The last value, and when it was read.
#[derive(Debug)]
pub struct CachedValue<T> {
    held: Mutex<Option<(Instant, Arc<T>)>>,
    age: Duration,
}

impl<T> CachedValue<T> {
    /// A value counts as fresh for so long.
    pub fn new(age: Duration) -> CachedValue<T> {
        CachedValue { held: Mutex::default(), age }
    }

    /// The value; where it is too old, one of the requests reads it and the others wait.
    ///
    /// # Errors
    /// Those of reading; the next request tries again.
    pub async fn get(&self, read: impl AsyncFnOnce() -> Result<T, ApiError>) -> Result<Arc<T>, ApiError> {
        let mut held = self.held.lock().await;
        if let Some((since, value)) = held.as_ref()
            && since.elapsed() < self.age
        {
            return Ok(value.clone());
        }
        // Its age counts from before the reading: the value may be as old.
        let begun = Instant::now();
        let value = Arc::new(read().await?);
        *held = Some((begun, value.clone()));
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[tokio::test]
    async fn one_reading_serves_all() {
        let reads = AtomicU32::new(0);
        let fresh = CachedValue::new(Duration::from_secs(3600));
        let query = || {
            fresh.get(async || {
                tokio::task::yield_now().await;
                Ok(reads.fetch_add(1, Ordering::Relaxed))
            })
        };
        let all = futures::future::join_all((0..10).map(|_| query())).await;
        assert!(all.into_iter().all(|value| *value.unwrap() == 0));
        let never = CachedValue::new(Duration::ZERO);
        for expected in [1, 2] {
            let value = never.get(async || Ok(reads.fetch_add(1, Ordering::Relaxed))).await.unwrap();
            assert_eq!(*value, expected);
        }
        assert!(never.get(async || Err::<u32, _>(ApiError::method())).await.is_err());
    }
}
