//! Records of MPI ranks.

use super::*;

/// What readers sum: a kind or direction that nobody knows would be left out of it.
const TRAFFIC_KINDS: [&str; 3] = ["measured", "modelled", "logical"];
/// Largest power of two of calls that a sample stands for, as in the shim (`samples.h`).
const LEVEL_MAX: u32 = 40;
const TRAFFIC_DIRECTIONS: [&str; 2] = ["transmit", "receive"];

impl Checked for MpiRankBin {
    fn check(&mut self, check: &mut Check) -> Result<(), Rejection> {
        check.past(self.epoch)?;
        name(&self.job_key)?;
        name(&self.source)?;
        rank(self.rank)?;
        at_most(self.cells.len(), CELLS_MAX)?;
        self.cells.iter().try_for_each(op_cell)?;
        check.time(self.time)
    }
}

fn op_cell(cell: &MpiOpCell) -> Result<(), Rejection> {
    name(&cell.operation)?;
    for text in [&cell.region, &cell.algorithm, &cell.algorithm_source] {
        optional(text)?;
    }
    number(cell.calls.max(cell.bytes).max(cell.received_bytes.unwrap_or(0)), COUNT_MAX)?;
    number(cell.size_class_bytes.max(cell.least_nanoseconds.unwrap_or(0)), COUNT_MAX)
}

impl Checked for MpiNodeCells {
    fn check(&mut self, check: &mut Check) -> Result<(), Rejection> {
        check.past(self.epoch)?;
        check.past(self.since)?;
        name(&self.job_key)?;
        name(&self.source)?;
        if self.since > self.time {
            return Err(Rejection::TimeFuture);
        }
        at_most(self.cells.len(), CELLS_MAX)?;
        for cell in &self.cells {
            // Without sums it names no operation.
            op_cell(cell.sums.as_ref().ok_or(Rejection::Name)?)?;
            [cell.ranks, cell.least_rank, cell.most_rank].into_iter().try_for_each(rank)?;
            number(cell.least_rank_nanoseconds.max(cell.most_rank_nanoseconds), COUNT_MAX)?;
        }
        self.account.as_ref().map_or(Ok(()), account)?;
        check.time(self.time)
    }
}

/// Nanoseconds of a thousand threads in a year are within 2^62.
fn account(account: &MpiNodeAccount) -> Result<(), Rejection> {
    number(account.behind_nanoseconds, i64::MAX.unsigned_abs())?;
    let sums = |sums: &MpiAccountSums| {
        [
            sums.elapsed_nanoseconds,
            sums.mpi_nanoseconds,
            sums.off_outside_nanoseconds,
            sums.queued_outside_nanoseconds,
            sums.off_inside_nanoseconds,
            sums.queued_inside_nanoseconds,
            sums.throttled_nanoseconds,
            sums.file_nanoseconds,
            sums.sleep_nanoseconds,
            sums.lock_nanoseconds,
            sums.stopped_nanoseconds,
        ]
    };
    let all = [&account.grown, &account.before].into_iter().flatten().flat_map(sums);
    all.into_iter().try_for_each(|sum| number(sum, i64::MAX.unsigned_abs()))
}

impl Checked for MpiRankPeers {
    fn check(&mut self, check: &mut Check) -> Result<(), Rejection> {
        check.past(self.epoch)?;
        name(&self.job_key)?;
        name(&self.source)?;
        name(&self.kind)?;
        rank(self.rank)?;
        at_most(self.cells.len(), CELLS_MAX)?;
        for cell in &self.cells {
            rank(cell.peer)?;
            number(cell.bytes.max(cell.messages), COUNT_MAX)?;
        }
        check.time(self.time)
    }
}

impl Checked for MpiPvarSample {
    fn check(&mut self, check: &mut Check) -> Result<(), Rejection> {
        for text in [&self.job_key, &self.name, &self.source] {
            name(text)?;
        }
        optional(&self.variable_class)?;
        rank(self.rank)?;
        small(self.element)?;
        finite(self.value)?;
        check.time(self.time)
    }
}

impl Checked for MpiRankRegions {
    fn check(&mut self, check: &mut Check) -> Result<(), Rejection> {
        check.past(self.epoch)?;
        name(&self.job_key)?;
        name(&self.source)?;
        rank(self.rank)?;
        at_most(self.cells.len(), CELLS_MAX)?;
        for cell in &self.cells {
            name(&cell.region)?;
            number(cell.visits.max(cell.mpi_calls), COUNT_MAX)?;
        }
        at_most(self.paths.len(), CELLS_MAX)?;
        for cell in &self.paths {
            path(&cell.path)?;
            number(cell.visits.max(cell.mpi_calls), COUNT_MAX)?;
        }
        check.time(self.time)
    }
}

impl Checked for MpiNodeTraffic {
    fn check(&mut self, check: &mut Check) -> Result<(), Rejection> {
        check.past(self.epoch)?;
        check.past(self.since)?;
        for text in [&self.job_key, &self.source, &self.operation] {
            name(text)?;
        }
        one_of(&self.kind, &TRAFFIC_KINDS)?;
        one_of(&self.direction, &TRAFFIC_DIRECTIONS)?;
        if self.since > self.time {
            return Err(Rejection::TimeFuture);
        }
        at_most(self.cells.len(), CELLS_MAX)?;
        for cell in &self.cells {
            rank(cell.peer)?;
            number(cell.bytes.max(cell.messages), COUNT_MAX)?;
        }
        check.time(self.time)
    }
}

impl Checked for MpiOpenCall {
    fn check(&mut self, check: &mut Check) -> Result<(), Rejection> {
        for text in [&self.job_key, &self.operation] {
            name(text)?;
        }
        optional(&self.oldest_request)?;
        let peers = [self.peer, self.oldest_peer].map(Option::unwrap_or_default);
        for number in [self.rank, self.comm_size.unwrap_or(0), peers[0], peers[1]] {
            rank(number)?;
        }
        let tags = [self.tag, self.oldest_tag].map(Option::unwrap_or_default);
        let counts = [self.pending_requests, self.requests, self.threads_elsewhere, self.threads_to_come];
        for number in [self.thread, self.comm.unwrap_or(0)].into_iter().chain(tags).chain(counts) {
            small(number)?;
        }
        check.past(self.epoch)?;
        check.past(self.start)?;
        if self.start > self.time {
            return Err(Rejection::TimeFuture);
        }
        check.time(self.time)
    }
}

impl Checked for MpiRankScheduling {
    fn check(&mut self, check: &mut Check) -> Result<(), Rejection> {
        name(&self.job_key)?;
        rank(self.rank)?;
        let counts = [
            self.cpu_nanoseconds,
            self.runqueue_wait_nanoseconds,
            self.involuntary_switches,
            self.cpu_hertz,
            self.elapsed_nanoseconds,
            self.mpi_nanoseconds,
            self.off_outside_nanoseconds,
            self.queued_outside_nanoseconds,
            self.off_inside_nanoseconds,
            self.queued_inside_nanoseconds,
            self.throttled_nanoseconds,
        ];
        let samples = [
            self.file_samples,
            self.sleep_samples,
            self.lock_samples,
            self.stopped_samples,
            self.other_samples,
        ];
        samples.into_iter().try_for_each(small)?;
        // Nanoseconds of a thousand threads in a year are within 2^62.
        counts.into_iter().flatten().try_for_each(|count| number(count, i64::MAX.unsigned_abs()))?;
        check.past(self.epoch)?;
        check.time(self.time)
    }
}

impl Checked for MpiSampledCalls {
    fn check(&mut self, check: &mut Check) -> Result<(), Rejection> {
        for text in [&self.job_key, &self.operation, &self.members] {
            name(text)?;
        }
        rank(self.group_size)?;
        number(self.size_class_bytes, COUNT_MAX)?;
        at_most(self.calls.len(), CELLS_MAX)?;
        for call in &self.calls {
            rank(call.least_rank)?;
            number(call.call.max(call.elapsed_nanoseconds).max(call.least_nanoseconds), COUNT_MAX)?;
            // More members than there are, or a call that stands for more than any program makes.
            if call.ranks > self.group_size || call.level > LEVEL_MAX {
                return Err(Rejection::Number);
            }
        }
        check.time(self.time)
    }
}

impl Checked for MpiRankTrace {
    fn check(&mut self, check: &mut Check) -> Result<(), Rejection> {
        check.past(self.epoch)?;
        name(&self.job_key)?;
        rank(self.rank)?;
        at_most(self.records.len(), CELLS_MAX)?;
        // Numbers go on with each record.
        number(self.number, i64::MAX.unsigned_abs() >> 1)?;
        for record in &self.records {
            name(&record.kind)?;
            optional(&record.operation)?;
            optional(&record.region)?;
            small(record.thread)?;
            record.peer.map_or(Ok(()), rank)?;
            check.time(record.start.saturating_add(self.utc_offset))?;
        }
        Ok(())
    }
}

impl Checked for MpiRankClock {
    fn check(&mut self, check: &mut Check) -> Result<(), Rejection> {
        check.past(self.epoch)?;
        name(&self.job_key)?;
        rank(self.rank)?;
        at_most(self.points.len(), CELLS_MAX)?;
        number(self.number, i64::MAX.unsigned_abs() >> 1)?;
        self.points.iter().try_for_each(|point| check.time(point.time.saturating_add(self.utc_offset)))
    }
}
