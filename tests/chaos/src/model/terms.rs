//! Terms of the crawlers of one subnet, as `throughline_store::terms` has them in SQL: one transaction a call, times in
//! UTC microseconds.

use uuid::Uuid;

/// How long a term lasts that a crawler got by writing, and how long a batch of readings keeps one.
const LEASE_BY_WRITING: i64 = 30_000_000;
const LEASE_BY_READING: i64 = 5_000_000;

/// Records this far apart belong to one stretch of a crawler that has no term.
const STRETCH: i64 = 120_000_000;

#[derive(Clone, Debug)]
pub struct LeaderTerm {
    pub crawler: Uuid,
    pub began: i64,
    pub ended: Option<i64>,
    covered_to: i64,
    expires: i64,
}

#[derive(Debug, Default)]
pub struct LeaderTerms(pub Vec<LeaderTerm>);

impl LeaderTerms {
    fn present(&mut self) -> Option<&mut LeaderTerm> {
        self.0.iter_mut().find(|term| term.ended.is_none())
    }

    fn begin(&mut self, crawler: Uuid, since: i64, expires: i64) {
        if let Some(present) = self.present() {
            present.ended = Some((present.covered_to + 1).max(since));
        }
        let began = self.0.iter().filter_map(|term| term.ended).fold(since, i64::max);
        self.0.push(LeaderTerm { crawler, began, ended: None, covered_to: began, expires });
    }

    /// A crawler asks for the term, or gives it back; whether it has it.
    pub fn ask(&mut self, crawler: Uuid, since: i64, lease: i64, release: bool, now: i64) -> bool {
        match self.present() {
            Some(present) if present.crawler == crawler => {
                present.expires = if release { now } else { now + lease };
                !release
            }
            Some(present) if present.expires > now || release => false,
            None if release => false,
            _ => {
                self.begin(crawler, since, now + lease);
                true
            }
        }
    }

    /// A crawler writes readings of these times.
    pub fn claim(&mut self, crawler: Uuid, oldest: i64, newest: i64, now: i64) {
        match self.present() {
            Some(present) if present.crawler == crawler && present.began <= oldest => {
                present.covered_to = present.covered_to.max(newest.min(now));
                present.expires = present.expires.max(now + LEASE_BY_READING);
            }
            Some(present)
                if present.crawler != crawler && present.expires <= now && newest >= present.began =>
            {
                self.begin(crawler, oldest, now + LEASE_BY_WRITING);
            }
            None => self.begin(crawler, oldest, now + LEASE_BY_WRITING),
            Some(_) => self.note_past(crawler, oldest, newest),
        }
    }

    /// What it read before the present term: a past term of its own, where nobody else had one.
    fn note_past(&mut self, crawler: Uuid, oldest: i64, newest: i64) {
        let overlaps =
            |term: &LeaderTerm| term.began <= newest && term.ended.is_none_or(|ended| ended > oldest);
        if self.0.iter().any(overlaps) {
            return;
        }
        let before = self.0.iter_mut().filter(|term| term.ended.is_some_and(|ended| ended <= oldest));
        let last = before.max_by_key(|term| term.ended);
        match last.filter(|term| term.crawler == crawler && term.ended > Some(oldest - STRETCH)) {
            Some(term) => term.ended = Some(newest + 1),
            None => {
                let ended = Some(newest + 1);
                self.0.push(LeaderTerm { crawler, began: oldest, ended, covered_to: newest, expires: 0 });
            }
        }
    }

    /// Whether another crawler has a term that holds this moment.
    pub fn forbids(&self, crawler: Uuid, moment: i64) -> bool {
        self.0.iter().any(|term| {
            term.crawler != crawler && term.began <= moment && term.ended.is_none_or(|ended| moment < ended)
        })
    }

    /// At most one crawler has the term at any time.
    pub fn check(&self) -> Result<(), String> {
        let mut terms: Vec<&LeaderTerm> = self.0.iter().collect();
        terms.sort_by_key(|term| (term.began, term.ended));
        for pair in terms.windows(2) {
            if pair[0].ended.is_none_or(|ended| ended > pair[1].began) && pair[0].crawler != pair[1].crawler {
                return Err(format!("terms overlap: {:?} and {:?}", pair[0], pair[1]));
            }
        }
        Ok(())
    }
}
