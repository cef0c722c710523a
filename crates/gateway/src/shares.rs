//! Fair sharing between readers: how many requests and connections one of them may have at a time.
//!
//! A reader is a user of this machine, a user whom the reverse proxy names, or an address. However much one sends,
//! others find a place.

use crate::api_error::ApiError;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Requests of one reader that wait or are answered, and answers that are on their way to it: a browser has six at a time.
pub const IN_FLIGHT_EACH_MAX: usize = 32;

/// The same of all readers: each holds memory for its answer.
pub const IN_FLIGHT_MAX: usize = 256;

/// How long a request waits for its reader's share.
const PATIENCE: Duration = Duration::from_secs(5);

/// Requests of one reader that are worked on at a time, of so many parallel ones: half.
#[must_use]
pub const fn each(parallel: usize) -> usize {
    if parallel < 2 { 1 } else { parallel / 2 }
}

/// Who reads, as far as it can be distinguished.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Reader {
    /// A user of this machine.
    Local(u32),
    /// A user whom the reverse proxy names.
    Proxied(Arc<str>),
    /// Everybody at an address; of IPv6 everybody in a network of 64 bits, which one machine has to itself.
    Address(IpAddr),
}

impl std::fmt::Display for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Reader::Local(user) => write!(f, "local:{user}"),
            Reader::Proxied(user) => write!(f, "proxy:{user}"),
            Reader::Address(address) => write!(f, "address:{address}"),
        }
    }
}

impl Reader {
    /// By an address.
    #[must_use]
    pub fn at(address: IpAddr) -> Reader {
        Reader::Address(match address.to_canonical() {
            IpAddr::V6(address) if !address.is_loopback() => {
                let network = u128::from(address) & !u128::from(u64::MAX);
                IpAddr::V6(network.into())
            }
            other => other,
        })
    }
}

/// A place among the parallel requests; a handler that goes on after its answer has begun keeps it.
#[derive(Clone, Debug)]
pub struct RequestSlot(#[allow(dead_code)] Arc<Place>);

/// Counted as long as it waits or works, and then with a share.
#[derive(Debug)]
struct Place {
    _share: OwnedSemaphorePermit,
    _total: OwnedSemaphorePermit,
    entered: ShareEntry,
}

/// One who waits for or has a share: the share's semaphore goes with the last.
#[derive(Debug)]
struct ShareEntry {
    reader: Reader,
    of: Arc<Shares>,
}

type ByReader = HashMap<Reader, (usize, Arc<Semaphore>)>;

/// Shares of parallel requests.
#[derive(Debug)]
pub struct Shares {
    each: usize,
    total: Arc<Semaphore>,
    by: Mutex<ByReader>,
}

impl Shares {
    /// Of so many parallel requests that the database answers each reader has half, and twice as many are worked on or
    /// wait for a connection.
    #[must_use]
    pub fn new(parallel: usize) -> Arc<Shares> {
        let total = Arc::new(Semaphore::new(parallel * 2));
        Arc::new(Shares { each: each(parallel), total, by: Mutex::default() })
    }

    /// A place, as soon as the reader has one.
    ///
    /// # Errors
    /// It has none for a while.
    pub async fn enter(self: &Arc<Self>, reader: &Reader) -> Result<RequestSlot, ApiError> {
        let share = {
            let mut by = self.by.lock().unwrap_or_else(PoisonError::into_inner);
            let entry = by.entry(reader.clone()).or_insert_with(|| (0, Arc::new(Semaphore::new(self.each))));
            entry.0 += 1;
            entry.1.clone()
        };
        let entered = ShareEntry { reader: reader.clone(), of: Arc::clone(self) };
        let total = self.total.clone();
        let both = async {
            Ok::<_, tokio::sync::AcquireError>((share.acquire_owned().await?, total.acquire_owned().await?))
        };
        match tokio::time::timeout(PATIENCE, both).await {
            Ok(Ok((_share, _total))) => Ok(RequestSlot(Arc::new(Place { _share, _total, entered }))),
            _ => Err(ApiError::busy(format!(
                "{} requests of this reader are worked on, its share of query.parallel_max",
                entered.of.each
            ))),
        }
    }
}

impl Drop for ShareEntry {
    fn drop(&mut self) {
        let mut by = self.of.by.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = by.get_mut(&self.reader) {
            entry.0 -= 1;
            if entry.0 == 0 {
                by.remove(&self.reader);
            }
        }
    }
}

impl RequestSlot {
    /// Whose it is.
    #[must_use]
    pub fn reader(&self) -> &Reader {
        &self.0.entered.reader
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_reader_has_half_and_others_find_a_place() {
        let shares = Shares::new(8);
        let (one, other) = (Reader::Local(1), Reader::Local(2));
        let mut held = Vec::new();
        for _ in 0..4 {
            held.push(shares.enter(&one).await.unwrap());
        }
        assert!(shares.enter(&one).await.is_err());
        assert_eq!(shares.enter(&other).await.unwrap().reader(), &other);
        held.pop();
        assert!(shares.enter(&one).await.is_ok());
        drop(held);
        assert!(shares.by.lock().unwrap().is_empty(), "nothing is left of who has gone");
        assert_eq!(shares.total.available_permits(), 16);
    }

    #[test]
    fn a_machine_with_many_addresses_is_one_reader() {
        let at = |text: &str| Reader::at(text.parse().unwrap());
        assert_eq!(at("2001:db8::1"), at("2001:db8::ffff:2"));
        assert_ne!(at("2001:db8::1"), at("2001:db8:0:1::1"));
        assert_eq!(at("::ffff:10.0.0.1"), at("10.0.0.1"));
        assert_ne!(at("::1"), at("::2"));
    }
}
