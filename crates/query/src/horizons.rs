//! Which time is in which tables: readings, rollups and chunks each reach back and on differently.

use throughline_store::Error;
use throughline_store::chunk_ranges::oldest_chunk;
use throughline_store::rollup_kind::Kind;
use throughline_store::sql_time::moment;
use tokio_postgres::Client;

const KINDS: usize = Kind::ALL.len();

/// Which time is in which tables; milliseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Horizons {
    /// Until when minutes are made.
    made_until: Option<i64>,
    /// Until when there may be blocks.
    blocks_until: Option<i64>,
    /// From when on there may be readings as rows, for each kind.
    rows_from: [Option<i64>; KINDS],
    /// From when on and until when readings are packed only, for each kind. None where all packed hours have expired.
    packed: [Option<(i64, i64)>; KINDS],
    /// From when on there may be minutes, for each kind.
    minutes_from: [Option<i64>; KINDS],
}

impl Horizons {
    /// Queries the database. Costs some milliseconds.
    ///
    /// # Errors
    /// The database's.
    pub async fn read(client: &Client) -> Result<Horizons, Error> {
        let first = |table: &str| format!("(extract(epoch FROM {}) * 1000)::bigint", oldest_chunk(table));
        let sql = format!(
            "SELECT (extract(epoch FROM s.made_until) * 1000)::bigint, (extract(epoch FROM s.blocks_until) * 1000)::bigint, \
             {}, {}, \
             (extract(epoch FROM greatest(p.packed_from, b.first)) * 1000)::bigint, (extract(epoch FROM p.packed_until) * 1000)::bigint \
             FROM internal.minute_state s CROSS JOIN unnest($1::text[], $2::text[], $3::text[]) \
             WITH ORDINALITY AS h (readings, minutes, blocks, place) CROSS JOIN LATERAL (SELECT {} AS first OFFSET 0) b \
             LEFT JOIN internal.packed_state p ON p.readings = h.readings AND isfinite(p.packed_until) AND b.first IS NOT NULL \
             ORDER BY h.place",
            first("h.readings"),
            first("h.minutes"),
            oldest_chunk("h.blocks"),
        );
        let (readings, minutes) = (Kind::ALL.map(Kind::readings), Kind::ALL.map(Kind::table));
        let blocks = Kind::ALL.map(Kind::blocks);
        let rows = client.query(&sql, &[&&readings[..], &&minutes[..], &&blocks[..]]).await;
        let rows = rows.map_err(Error::sql("asking which time is in which tables"))?;
        let mut horizons = Horizons::default();
        for (place, row) in rows.iter().enumerate() {
            horizons.made_until = row.get(0);
            horizons.blocks_until = row.get(1);
            horizons.rows_from[place] = row.get(2);
            horizons.minutes_from[place] = row.get(3);
            let (from, until): (Option<i64>, Option<i64>) = (row.get(4), row.get(5));
            horizons.packed[place] = from.zip(until).filter(|(from, until)| from < until);
        }
        Ok(horizons)
    }

    /// Until when minutes are made.
    pub(crate) fn made_until(&self) -> Option<i64> {
        self.made_until
    }

    /// The time for which there may be blocks besides readings: from, until.
    pub(crate) fn blocks(&self, kind: Kind) -> Option<(i64, i64)> {
        Some((self.readings_from(kind)?, self.blocks_until?))
    }

    /// From when on there may be minutes.
    pub(crate) fn minutes_from(&self, kind: Kind) -> Option<i64> {
        self.minutes_from[kind.place()]
    }

    /// From when on there may be readings, as rows or packed.
    pub(crate) fn readings_from(&self, kind: Kind) -> Option<i64> {
        let packed = self.packed(kind).map(|(from, _)| from);
        self.rows_from[kind.place()].into_iter().chain(packed).min()
    }

    /// From when on there is anything: readings, or minutes where these are enough.
    pub(crate) fn held_from(&self, kind: Kind, has_minutes: bool) -> Option<i64> {
        let minutes = self.minutes_from(kind).filter(|_| has_minutes);
        self.readings_from(kind).into_iter().chain(minutes).min()
    }

    /// From when on and until when readings are packed only; a row there came late.
    pub(crate) fn packed(&self, kind: Kind) -> Option<(i64, i64)> {
        self.packed[kind.place()]
    }

    /// What has all readings of a kind from a time to a time: its table, or the function that unpacks hours, too.
    pub(crate) fn source(&self, kind: Kind, from: i64, to: i64) -> String {
        match self.packed(kind).is_some_and(|(first, end)| from < end && to >= first) {
            true => format!("public.{}({}, {})", kind.readings_between(), moment(from), moment(to)),
            false => format!("internal.{}", kind.readings()),
        }
    }

    /// Until when there are minutes only: readings are gone, if there were any.
    pub(crate) fn minutes_only_until(&self, kind: Kind) -> Option<i64> {
        self.until_before(self.readings_from(kind))
    }

    /// Until when there are no rows of readings, but minutes, and maybe packed readings.
    pub(crate) fn no_rows_until(&self, kind: Kind) -> Option<i64> {
        let packed = self.packed(kind).map(|(_, until)| until);
        // A row that came late for a time that is packed is not all that was read then.
        self.until_before(self.rows_from[kind.place()].into_iter().chain(packed).max())
    }

    fn until_before(&self, from: Option<i64>) -> Option<i64> {
        let made = self.made_until?;
        // A reading at the very beginning of a chunk is still there.
        Some(from.map_or(made, |from| (from - 1).min(made)))
    }
}
