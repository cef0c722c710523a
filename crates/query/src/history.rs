//! Samples of the past as the series that Prometheus knows: names, labels, values by time.
//!
//! [`families`] lists what can be requested, from the catalogue; [`HistoryQuery::series`] finds the series of one family in the
//! inventory; [`HistoryQuery::read`] hands their samples on, one series after the other, ordered by labels. A series has the
//! name and labels that it has in a daemon's `/metrics`, and as `instance` what a scrape gives it: the node's name, or
//! the subnet's prefix.
//!
//! Of bytes and speeds of ports and NVLinks there is a sample a minute too (the store's rollups), retained longer than readings:
//! they answer where readings are gone, and for the increase over ranges so long that a minute is little of them. Where a series begins
//! or ends in such a range, the readings there are read besides ([`refine`]).
//!
//! Of ports and NVLinks there are blocks besides (the store's encoded chunks): what they have is not read from rows. [`BlockCache`] has those
//! that were read lately.
//!
//! `throughline_mpi_*` are totals of a node since its agent's start. They can't be made of the ranks' own rows, which do
//! not report when that was; so agents report them among the figures about themselves, and those are read back.

mod blocks;
mod cache;
mod copy;
mod ends;
mod family;
mod infos;
mod range_windows;
mod refine;
mod round;
mod row_stream;
mod samples;
mod series;
mod series_lookup;
pub mod tail;

pub use cache::BlockCache;
pub use family::{Family, families};
pub use range_windows::RangeWindows;
pub use samples::{Samples, Thinning};
pub use series::{Equal, Series};
pub(crate) use series_lookup::of_ids;
pub use throughline_packed::prometheus::Chunk;

use crate::Horizons;
use crate::row_rules::Gaps;
use ends::Ends;
use family::Place;
use samples::Form;
use series::SampleLocation;

use std::sync::Arc;
use std::time::{Duration, Instant};
use throughline_store::Error;
use tokio_postgres::Client;

/// Samples of two rounds of series, which are in memory at once: 32 MB.
const HELD_SAMPLES: u64 = 2_000_000;

/// Series of a round at most: the first ones are on their way while the next are read. The first round has as many as there
/// may be with a sample a second, as it is not known how many samples each has.
const ROUND: usize = 500;

/// A range of time, both ends included; milliseconds since 1970, as Prometheus counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The beginning.
    pub from: i64,
    /// The end.
    pub to: i64,
}

/// What was requested: a family, a range of time, and how dense.
#[derive(Clone, Copy, Debug)]
pub struct HistoryQuery<'a> {
    /// Which name.
    pub family: &'a Family,
    /// When.
    pub range: Range,
    /// How many of the samples.
    pub thinning: Thinning,
    /// Samples that may be read from the database.
    pub limit: u64,
    /// Which time is in which tables.
    pub horizons: Horizons,
    /// What was read before.
    pub cache: &'a BlockCache,
    /// How long each answer of the database is waited for.
    pub patience: Duration,
    /// Whether chunks are taken as they are packed: [`Samples::chunks`], not [`Samples::points`].
    pub takes_chunks: bool,
}

/// What stopped a reading.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// The database.
    #[error(transparent)]
    Database(#[from] Error),
    /// The range has more samples than may be read for one query.
    #[error("more than {0} samples")]
    TooMany(u64),
    /// Not the binary form of COPY, or not a chunk.
    #[error(
        "the database sent rows that are not in PostgreSQL's binary form of COPY, or chunks that end too early"
    )]
    Damaged,
    /// A block is not what was written. Rows answer where there is none, if they are there.
    #[error(
        "a block in {table} is damaged; DELETE FROM internal.{table} WHERE {id} AND time = to_timestamp({begin}) {effect}"
    )]
    DamagedBlock {
        /// The table.
        table: &'static str,
        /// Which port or GPU, as a condition.
        id: String,
        /// When the block begins, seconds since 1970.
        begin: i64,
        /// What answers then.
        effect: &'static str,
    },
    /// The reader of the samples can't hold more.
    #[error("an answer in one message of more than 4 GiB")]
    TooLarge,
    /// The reader of the samples has gone.
    #[error("the reader has gone")]
    Gone,
}

/// Takes series one after the other.
pub trait SeriesSink: Send {
    /// The next one, which has samples.
    fn take(
        &mut self,
        series: &Series,
        samples: &Samples,
    ) -> impl Future<Output = Result<(), HistoryError>> + Send;
}

impl HistoryQuery<'_> {
    /// The series that there may be in the range, ordered by labels. Labels in `equal` must have a value: others than those
    /// may be left out.
    ///
    /// # Errors
    /// The database's.
    pub async fn series(&self, client: &Client, equal: &[Equal<'_>]) -> Result<Arc<[Series]>, Error> {
        let keys = self.family.keys();
        if let Some(known) = keys.and_then(|keys| self.cache.series(keys)) {
            return Ok(known);
        }
        let now = Instant::now();
        let found = self.in_time(series_lookup::find(client, self.family, self.range, equal)).await?.into();
        if let Some(keys) = keys.filter(|_| equal.is_empty()) {
            self.cache.insert_series(keys, now, &found);
        }
        Ok(found)
    }

    /// Whether any sample of a series lies in the range. Looks at the newest few hundred rows of it only.
    ///
    /// # Errors
    /// The database's.
    pub async fn has_samples(&self, client: &Client, series: &Series) -> Result<bool, Error> {
        self.in_time(copy::has_samples(client, self, series)).await
    }

    async fn in_time<T>(&self, request: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let answer = tokio::time::timeout(self.patience, request).await;
        answer.unwrap_or_else(|_| Err(Error::late("reading history", self.patience.as_secs())))
    }

    /// Reads the samples of these series and hands each that has any on. The number of samples that were
    /// read, before thinning. Where an increase would need more than the limit, minutes answer if they are enough for it.
    ///
    /// # Errors
    /// [`HistoryError`]; what was handed on until then is incomplete.
    pub async fn read(
        &self,
        client: &Client,
        series: &[Series],
        to: &mut impl SeriesSink,
    ) -> Result<u64, HistoryError> {
        let mut is_begun = false;
        let read = self.read_rounds(client, series, to, &mut is_begun).await;
        let coarser = match self.thinning {
            Thinning::Increase(windows) => windows.coarser(),
            Thinning::None => None,
        };
        match (read, coarser) {
            (Err(HistoryError::TooMany(_)), Some(windows)) if !is_begun => {
                let coarse = HistoryQuery { thinning: Thinning::Increase(windows), ..*self };
                coarse.read_rounds(client, series, to, &mut is_begun).await
            }
            (read, _) => read,
        }
    }

    async fn read_rounds(
        &self,
        client: &Client,
        series: &[Series],
        to: &mut impl SeriesSink,
        is_begun: &mut bool,
    ) -> Result<u64, HistoryError> {
        let seconds = (self.range.to - self.range.from).unsigned_abs() / 1000;
        let (mut read, mut done, mut last) = (0, 0, None);
        let gaps = self.gaps(client, series).await?;
        let ends = Ends::read(client, self).await?;
        while done < series.len() {
            let each = if done == 0 { seconds } else { read / done as u64 };
            let round = usize::try_from(HELD_SAMPLES / 2 / each.max(1)).unwrap_or(usize::MAX).clamp(1, ROUND);
            let round = &series[done..series.len().min(done + round)];
            done += round.len();
            // While one round is handed on, the database reads the next one.
            *is_begun |= last.is_some();
            let next = self.fetch(client, round, &gaps, self.limit - read);
            let (next, handed) = tokio::join!(next, self.hand_on(last.take(), (&gaps, &ends), to));
            let (held, ()) = (next?, handed?);
            read += held.iter().map(Samples::len).sum::<u64>();
            // Series of a family are alike: what the rest will have is known before anything is handed on, so that a
            // refusal comes instead of an answer and not in the middle of it.
            if read / done as u64 * series.len() as u64 > self.limit {
                return Err(HistoryError::TooMany(self.limit));
            }
            last = Some((round, held));
        }
        self.hand_on(last, (&gaps, &ends), to).await?;
        Ok(read)
    }

    /// The largest gaps of the things that these series are of, for what is filled: gaps of counters.
    async fn gaps(&self, client: &Client, series: &[Series]) -> Result<Gaps, Error> {
        let Place::Column { metric, .. } = &self.family.place else { return Ok(Gaps::default()) };
        if !self.family.is_counter() {
            return Ok(Gaps::default());
        }
        let range = (self.range.from, self.range.to);
        let named = series.iter().filter_map(|series| Some((series.id()?, series.sender()?)));
        self.in_time(Gaps::of_things(client, metric.table, named, range)).await
    }

    async fn fetch(
        &self,
        client: &Client,
        round: &[Series],
        gaps: &Gaps,
        limit: u64,
    ) -> Result<Vec<Samples>, HistoryError> {
        match round.first().map(|series| &series.known) {
            Some(SampleLocation::Valid(_)) => Ok(infos::samples(round, self.range)),
            _ => refine::samples(client, self, round, gaps, limit).await,
        }
    }

    async fn hand_on(
        &self,
        round: Option<(&[Series], Vec<Samples>)>,
        (gaps, ends): (&Gaps, &Ends),
        to: &mut impl SeriesSink,
    ) -> Result<(), HistoryError> {
        let Some((series, held)) = round else { return Ok(()) };
        let form = copy::form(self);
        for (series, mut samples) in series.iter().zip(held) {
            let largest_gap = series.id().map_or(form.largest_gap, |id| gaps.of(id));
            samples.finish(&Form { largest_gap, ..form }).ok_or(HistoryError::Damaged)?;
            if !samples.is_empty() {
                ends.put(series.sender(), &mut samples);
                to.take(series, &samples).await?;
            }
        }
        Ok(())
    }
}
