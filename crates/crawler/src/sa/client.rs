//! The client of the subnet administrator: one query, a table, many queries at once, subscriptions, Reports.

use super::exchange::{Exchange, OnAnswer, Report, Settings, Stats};
use super::{DEFAULT_SM_KEY, SaError};
use crate::transport::Transport;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use throughline_infiniband::key::Key;
use throughline_infiniband::mad::sa::{
    Answer, InformInfo, METHOD_GET_TABLE, METHOD_SET, Query, SmInfoRecord, Status, attribute,
};
use throughline_infiniband::mad::{METHOD_GET, SmState};

/// The records of a table.
#[derive(Clone, Debug, Default)]
pub struct Records {
    message: Vec<u8>,
}

impl Records {
    /// Each record's bytes.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        Answer::read(&self.message).into_iter().flat_map(|answer| answer.records())
    }

    /// Each record decoded; those too short for it are left out.
    pub fn decoded<T, E>(&self, decode: impl Fn(&[u8]) -> Result<T, E>) -> impl Iterator<Item = T> {
        self.iter().filter_map(move |record| decode(record).ok())
    }
}

/// Gets the position of a query and its record, if there is one.
pub type OnRecord<'a> = dyn FnMut(usize, Result<Option<&[u8]>, SaError>) + 'a;

/// Queries the administrator of one subnet through one local port. Used by one thread.
pub struct Client {
    exchange: Exchange,
}

impl Client {
    /// A client that queries the manager at this LID.
    #[must_use]
    pub fn new(
        transport: Box<dyn Transport>,
        manager_lid: u16,
        service_level: u8,
        settings: Settings,
    ) -> Client {
        let mut exchange = Exchange::new(transport, settings);
        exchange.set_manager(manager_lid, service_level);
        Client { exchange }
    }

    /// The manager is at another LID now.
    pub fn set_manager(&mut self, lid: u16, service_level: u8) {
        self.exchange.set_manager(lid, service_level);
    }

    /// LID of the manager; 0 where there is none.
    #[must_use]
    pub fn manager_lid(&self) -> u16 {
        self.exchange.manager_lid()
    }

    /// SM_Key to request members with: the one of the settings, else [`DEFAULT_SM_KEY`].
    #[must_use]
    pub fn member_key(&self) -> Key {
        match self.exchange.key == Key::default() {
            true => Key::new(DEFAULT_SM_KEY),
            false => self.exchange.key,
        }
    }

    /// Another SM_Key to query with; the former one.
    pub(super) fn replace_key(&mut self, key: Key) -> Key {
        std::mem::replace(&mut self.exchange.key, key)
    }

    /// Does some work in which each request is sent once only.
    pub(crate) fn without_repeats<T>(&mut self, work: impl FnOnce(&mut Client) -> T) -> T {
        let retries = std::mem::take(&mut self.exchange.settings.retries);
        let result = work(self);
        self.exchange.settings.retries = retries;
        result
    }

    /// What was done so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.exchange.stats
    }

    /// One record; `None` where there is none.
    ///
    /// # Errors
    /// [`SaError`]; more than one record that matches is refused by the administrator.
    pub fn get(&mut self, query: &Query, stop: &AtomicBool) -> Result<Option<Vec<u8>>, SaError> {
        let mut found = None;
        self.get_many(std::slice::from_ref(query), stop, &mut |_, record| {
            found = Some(record.map(|r| r.map(<[u8]>::to_vec)))
        })?;
        found.unwrap_or(Ok(None))
    }

    /// One record for each query, several requests outstanding. `done` gets the position of the query and its
    /// outcome, in the order of the answers; `None` is no such record.
    ///
    /// # Errors
    /// [`SaError::NoManager`], [`SaError::Stopped`] or [`SaError::Transport`]; all others go to `done`.
    pub fn get_many(
        &mut self,
        queries: &[Query],
        stop: &AtomicBool,
        done: &mut OnRecord<'_>,
    ) -> Result<(), SaError> {
        let mut take = |index: usize, outcome: Result<Answer<'_>, SaError>| {
            done(
                index,
                match outcome {
                    Ok(answer) => Ok(Some(answer.data())),
                    Err(SaError::Refused { status: Status::NO_RECORDS, .. }) => Ok(None),
                    Err(error) => Err(error),
                },
            );
        };
        self.exchange.run(METHOD_GET, queries, stop, &mut take)
    }

    /// All records that match.
    ///
    /// # Errors
    /// [`SaError`]; [`SaError::Cut`] where long answers can't pass.
    pub fn table(&mut self, query: &Query, stop: &AtomicBool) -> Result<Records, SaError> {
        let mut found = None;
        let take: &mut OnAnswer<'_> = &mut |_, outcome| {
            found = Some(outcome.map(|answer| Records { message: answer.bytes().to_vec() }));
        };
        self.exchange.run(METHOD_GET_TABLE, std::slice::from_ref(query), stop, take)?;
        match found {
            // Some administrators say "no records" to GetTable, too.
            Some(Err(SaError::Refused { status: Status::NO_RECORDS, .. })) => Ok(Records::default()),
            Some(outcome) => outcome,
            None => Ok(Records::default()),
        }
    }

    /// Subscribes to a trap, or to all generic ones, so that Reports come. To be repeated: a new manager knows
    /// nothing of it.
    ///
    /// # Errors
    /// [`SaError`]; a subscription that is not confirmed is refused with status 0.
    pub fn subscribe(&mut self, number: Option<u16>, stop: &AtomicBool) -> Result<(), SaError> {
        let query = InformInfo { subscribe: true, number, queue_pair: 0 }.query();
        if self.set(&query, stop)? {
            return Ok(());
        }
        Err(SaError::Refused { attribute: attribute::INFORM_INFO, status: Status::OK })
    }

    /// Ends a subscription.
    ///
    /// # Errors
    /// [`SaError`].
    pub fn unsubscribe(&mut self, number: Option<u16>, stop: &AtomicBool) -> Result<(), SaError> {
        self.set(&InformInfo { subscribe: false, number, queue_pair: 1 }.query(), stop).map(drop)
    }

    fn set(&mut self, query: &Query, stop: &AtomicBool) -> Result<bool, SaError> {
        let mut found = None;
        let take: &mut OnAnswer<'_> =
            &mut |_, outcome| found = Some(outcome.map(|answer| InformInfo::is_subscribed(answer.data())));
        self.exchange.run(METHOD_SET, std::slice::from_ref(query), stop, take)?;
        found.unwrap_or(Ok(false))
    }

    /// The managers that the administrator knows; only itself where it says that it is master: that is one small answer,
    /// and a silent one is noticed after the time of a record, not of a table.
    ///
    /// # Errors
    /// [`SaError`].
    pub fn managers(&mut self, stop: &AtomicBool) -> Result<Vec<SmInfoRecord>, SaError> {
        let own = Query::of_lid(attribute::SM_INFO, self.manager_lid());
        let own = match self.get(&own, stop) {
            // Not all administrators answer a Get of this attribute.
            Err(SaError::Refused { .. }) => None,
            other => other?.and_then(|record| SmInfoRecord::decode(&record).ok()),
        };
        if own.is_some_and(|record| record.info.state == SmState::MASTER) {
            return Ok(own.into_iter().collect());
        }
        match self.table(&Query::all(attribute::SM_INFO), stop) {
            Err(SaError::Cut { .. }) => Ok(own.into_iter().collect()),
            other => Ok(other?.decoded(SmInfoRecord::decode).collect()),
        }
    }

    /// The next Report, waiting at most `wait`. It has been answered.
    ///
    /// # Errors
    /// [`SaError::Transport`] when receiving does not work any more.
    pub fn report(&mut self, wait: Duration) -> Result<Option<Report>, SaError> {
        self.exchange.report(wait)
    }
}
