//! How an entry is written: from what most tables of a form have, and what is different.

use throughline_sample::catalogue::Table;

use super::{
    Chunks, Columns, Form, Life, PlainRetention, PlainTable, RetentionClass, Rule, Site, StoredTable,
    ThinningPlan, TotalForm,
};

/// A figure of a site.
pub(super) type SiteEstimate = fn(&Site) -> f64;
pub(super) type Names = &'static [&'static str];

/// Readings or records, an hour a chunk.
pub(super) const fn rows(rows: SiteEstimate, row_bytes: SiteEstimate) -> Chunks {
    Chunks {
        form: Form::Row,
        keep: RetentionClass::Readings,
        hours: 1,
        rows,
        row_bytes,
        assumes: "",
        copied: "",
        metrics: None,
        thinned: None,
        columns: None,
        carried: None,
    }
}

impl Chunks {
    pub(super) const fn assuming(self, assumes: &'static str) -> Self {
        Self { assumes, ..self }
    }

    pub(super) const fn copied(self, copied: &'static str) -> Self {
        Self { copied, ..self }
    }

    pub(super) const fn with_metrics(self, metrics: Table, copied: &'static str) -> Self {
        Self { metrics: Some(metrics), copied, ..self }
    }

    pub(super) const fn hours(self, hours: u32) -> Self {
        Self { hours, ..self }
    }

    pub(super) const fn minutes(self) -> Self {
        Self { form: Form::Rollup, keep: RetentionClass::Minutes, hours: 24, ..self }
    }

    pub(super) const fn events(self) -> Self {
        Self { keep: RetentionClass::Events, ..self }
    }

    pub(super) const fn windows(self) -> Self {
        Self { form: Form::Rollup, keep: RetentionClass::Windows, ..self }
    }

    pub(super) const fn packed(self, of: &'static str) -> Self {
        Self { form: Form::Packed, keep: RetentionClass::With(of), ..self }
    }

    pub(super) const fn on_demand(self) -> Self {
        Self { keep: RetentionClass::Detail, ..self }.assuming("only where requested")
    }

    /// Steps that end at their last moment.
    pub(super) const fn thinned(
        self,
        rule: Rule,
        step_seconds: u32,
        rows: SiteEstimate,
        row_bytes: SiteEstimate,
    ) -> Self {
        Self { thinned: Some(ThinningPlan { step_seconds, is_closed: true, rule, rows, row_bytes }), ..self }
    }

    /// Steps that begin at their first one.
    pub(super) const fn thinned_open(
        self,
        rule: Rule,
        step_seconds: u32,
        rows: SiteEstimate,
        row_bytes: SiteEstimate,
    ) -> Self {
        Self { thinned: Some(ThinningPlan { step_seconds, is_closed: false, rule, rows, row_bytes }), ..self }
    }

    pub(super) const fn totals(self, carried: TotalForm) -> Self {
        Self { carried: Some(carried), ..self }
    }

    pub(super) const fn columns(
        self,
        segment_by: &'static str,
        order_by: &'static str,
        row_bytes: SiteEstimate,
    ) -> Self {
        Self { columns: Some(Columns { segment_by, order_by, row_bytes }), ..self }
    }
}

pub(super) const fn hypertable(
    name: &'static str,
    key: Names,
    records: Names,
    chunks: Chunks,
) -> StoredTable {
    StoredTable { name, key, records, life: Life::Chunks(chunks) }
}

pub(super) const fn plain(
    name: &'static str,
    key: Names,
    records: Names,
    keep: PlainRetention,
    bytes_a_year: SiteEstimate,
) -> StoredTable {
    StoredTable { name, key, records, life: Life::Plain(PlainTable { keep, bytes_a_year }) }
}
