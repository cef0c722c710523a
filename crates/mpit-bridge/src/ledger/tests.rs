use super::*;
use crate::accounts::Accounts;
use crate::operations::operation_name;
use crate::quota::QuotaLimits;
use crate::status::Counters;
use crate::traffic_frame::{Root, Run, Sample};
use std::collections::BTreeMap;
use std::time::Instant;
use throughline_sample::wire::{MpiNodeTraffic, MpiPeerCell};

const SECOND: i64 = 1_000_000_000;
const START: i64 = 1_790_000_000 * SECOND;
const JOB: &str = "slurm:1";
const SEND: u16 = 1;
const ALLREDUCE: u16 = 17;
const IALLREDUCE: u16 = 18;
const GET: u16 = 87;

struct Bench {
    ledger: Ledger,
    quotas: Arc<Quotas>,
    user: Arc<User>,
}

/// Rows by operation, kind, direction and peer.
type Rows = BTreeMap<(String, String, String, u32), (u64, u64)>;

impl Bench {
    fn new(rows_per_second: u32, traffic_bytes: usize) -> Self {
        let counters = Arc::new(Counters::default());
        let limits = QuotaLimits { traffic_bytes, ..QuotaLimits::default() };
        let quotas = Quotas::new(limits, 16, Accounts::default(), counters);
        let user = quotas.user(1000, Instant::now());
        Self { ledger: Ledger::new(rows_per_second, 1, 86_400), quotas, user }
    }

    fn join(&mut self, rank: u32, start: i64, now: i64) -> RankId {
        self.join_with("an unknown library", rank, start, now)
    }

    fn join_with(&mut self, library: &str, rank: u32, start: i64, now: i64) -> RankId {
        let world = World { size: 64, library };
        self.ledger.join(&self.quotas, &self.user, JOB, (rank, start), world, now);
        (rank, start)
    }

    fn peers(&mut self, id: RankId, time: i64, entries: &[(u16, TrafficKind, u32, u64, u64)]) {
        let entries = entries.iter().map(|(operation, kind, peer, bytes, messages)| Traffic {
            peer: *peer,
            operation: *operation,
            kind: *kind,
            bytes: *bytes,
            messages: *messages,
        });
        self.ledger.take(JOB, id, Report::Peers(time, entries.collect()));
    }

    fn group(&mut self, id: RankId, generation: u32, rank: u32, runs: &[(u32, i32, u32)]) {
        let runs: Vec<Run> = runs
            .iter()
            .map(|(start, stride, count)| Run { start: *start, stride: *stride, count: *count })
            .collect();
        let size = runs.iter().map(|run| run.count).sum();
        let part = GroupPart { number: 5, generation, size, rank: Some(rank), first: 0, runs };
        self.ledger.take(JOB, id, Report::Groups(vec![part]));
    }

    fn calls(&mut self, id: RankId, operation: u16, algorithm: &str, calls: u64, bytes: u64) {
        let key = CollectiveKey { group: 5, operation, size_class: 11, algorithm: 1, root: Root::None };
        let one = NamedCollective {
            key,
            operation: operation_name(operation).unwrap(),
            algorithm: algorithm.into(),
            calls,
            bytes,
        };
        self.ledger.take(JOB, id, Report::Collectives(1, vec![one]));
    }

    fn round(&mut self, now: i64) -> Vec<MpiNodeTraffic> {
        self.ledger.round(now).into_iter().flat_map(|(_, batch)| batch.mpi_traffic).collect()
    }
}

fn rows(records: &[MpiNodeTraffic]) -> Rows {
    let cells = records.iter().flat_map(|record| record.cells.iter().map(move |cell| (record, cell)));
    let row = |(record, cell): (&MpiNodeTraffic, &MpiPeerCell)| {
        let MpiNodeTraffic { operation, kind, direction, .. } = record.clone();
        ((operation, kind, direction, cell.peer), (cell.bytes, cell.messages))
    };
    let all: Rows = cells.map(row).collect();
    assert_eq!(all.len(), records.iter().map(|record| record.cells.len()).sum::<usize>(), "each cell once");
    all
}

fn key(operation: &str, kind: &str, direction: &str, peer: u32) -> (String, String, String, u32) {
    (operation.into(), kind.into(), direction.into(), peer)
}

#[test]
fn ranks_of_a_node_are_one_row_and_rows_are_cumulative() {
    let mut bench = Bench::new(100, 1 << 20);
    let (one, two) = (bench.join(0, START, START), bench.join(1, START, START));
    bench.peers(one, 1, &[(SEND, TrafficKind::Sent, 9, 1000, 1), (GET, TrafficKind::Read, 9, 64, 2)]);
    bench.peers(two, 1, &[(SEND, TrafficKind::Sent, 9, 500, 5)]);
    let first = bench.round(START + SECOND);
    let expected = Rows::from([
        (key("send", "modelled", "transmit", 9), (1500, 6)),
        (key("get", "modelled", "receive", 9), (64, 2)),
    ]);
    assert_eq!(rows(&first), expected);
    assert!(first.iter().all(|record| (record.epoch, record.since) == (START, START)));
    // Nothing changed, and then only one cell: what it grew by flowed since the round before.
    assert_eq!(bench.round(START + 2 * SECOND), []);
    bench.peers(two, 2, &[(SEND, TrafficKind::Sent, 9, 700, 6)]);
    let later = bench.round(START + 3 * SECOND);
    assert_eq!(rows(&later), Rows::from([(key("send", "modelled", "transmit", 9), (1700, 7))]));
    assert_eq!(
        (later[0].epoch, later[0].since, later[0].time),
        (START, START + 2 * SECOND, START + 3 * SECOND)
    );
}

#[test]
fn all_cells_come_once_a_day_and_at_the_end_of_a_job() {
    let mut bench = Bench::new(100, 1 << 20);
    let id = bench.join(0, START, START);
    bench.peers(id, 1, &[(SEND, TrafficKind::Sent, 9, 1000, 1)]);
    let first = bench.round(START + SECOND);
    let minutes = 2..=3 * 1440;
    let again: Vec<MpiNodeTraffic> =
        minutes.flat_map(|minute| bench.round(START + minute * 60 * SECOND)).collect();
    assert_eq!(again.len(), 3);
    let last = bench.ledger.finish(JOB, START + 300_000 * SECOND).mpi_traffic;
    for record in again.iter().chain(&last) {
        assert_eq!(rows(std::slice::from_ref(record)), rows(&first));
        assert!(record.is_whole && record.since < record.time);
    }
    assert_eq!(last[0].time, START + 300_000 * SECOND);
}

#[test]
fn a_collective_is_laid_out_over_its_groups_world_ranks() {
    let mut bench = Bench::new(100, 1 << 20);
    let id = bench.join(4, START, START);
    bench.group(id, 1, 2, &[(0, 2, 5)]); // world ranks 0, 2, 4, 6, 8
    bench.calls(id, ALLREDUCE, "ring", 10, 10 * 1000);
    let modelled = rows(&bench.round(START + SECOND));
    // Four steps of a fifth each, twice, to the next one.
    assert_eq!(modelled, Rows::from([(key("allreduce", "modelled", "transmit", 6), (10 * 1600, 80))]));
    bench.calls(id, IALLREDUCE, "", 1, 7);
    let logical = rows(&bench.round(START + 2 * SECOND));
    let expected = [0, 2, 6, 8].map(|peer| (key("iallreduce", "logical", "transmit", peer), (7, 1)));
    assert_eq!(logical, Rows::from(expected));
}

#[test]
fn a_nonblocking_collective_is_laid_out_by_the_librarys_own_schedule() {
    let mut bench = Bench::new(100, 1 << 20);
    let id = bench.join_with("Open MPI v5.0.7, package: x", 4, START, START);
    bench.group(id, 1, 2, &[(0, 2, 5)]);
    // Up a tree to member 0, and down another one from it, by which member 2 has no child among five.
    bench.calls(id, IALLREDUCE, "", 3, 3 * 800);
    let modelled = rows(&bench.round(START + SECOND));
    assert_eq!(modelled, Rows::from([(key("iallreduce", "modelled", "transmit", 0), (3 * 800, 3))]));
}

#[test]
fn what_is_sent_again_counts_once_and_another_group_in_the_same_place_is_another() {
    let mut bench = Bench::new(100, 1 << 20);
    let id = bench.join(0, START, START);
    let report = |bench: &mut Bench| {
        bench.peers(id, 1, &[(SEND, TrafficKind::Sent, 3, 10, 1)]);
        bench.group(id, 1, 0, &[(0, 1, 2)]);
        bench.calls(id, IALLREDUCE, "", 3, 300);
    };
    report(&mut bench);
    bench.join(0, START, START + SECOND); // a reconnect
    report(&mut bench);
    let expected = Rows::from([
        (key("send", "modelled", "transmit", 3), (10, 1)),
        (key("iallreduce", "logical", "transmit", 1), (300, 3)),
    ]);
    assert_eq!(rows(&bench.round(START + SECOND)), expected);
    // Its calls that are in no record yet are laid out by the group that they were made in.
    bench.calls(id, IALLREDUCE, "", 4, 400);
    bench.group(id, 2, 0, &[(0, 7, 2)]);
    bench.calls(id, IALLREDUCE, "", 1, 50);
    let expected = Rows::from([
        (key("iallreduce", "logical", "transmit", 1), (400, 4)),
        (key("iallreduce", "logical", "transmit", 7), (50, 1)),
    ]);
    assert_eq!(rows(&bench.round(START + 2 * SECOND)), expected);
}

#[test]
fn a_rank_whose_library_reports_messages_is_measured_and_nothing_else() {
    let mut bench = Bench::new(100, 1 << 20);
    let id = bench.join(0, START, START);
    bench.peers(
        id,
        1,
        &[
            (ALLREDUCE, TrafficKind::Wire, 1, 4000, 4),
            (0, TrafficKind::Wire, 2, 16, 1),
            (SEND, TrafficKind::Sent, 1, 10, 1),
            (GET, TrafficKind::Read, 1, 64, 1),
        ],
    );
    bench.group(id, 1, 0, &[(0, 1, 2)]);
    bench.calls(id, ALLREDUCE, "ring", 3, 300);
    let expected = Rows::from([
        (key("allreduce", "measured", "transmit", 1), (4000, 4)),
        (key("other", "measured", "transmit", 2), (16, 1)),
        (key("get", "modelled", "receive", 1), (64, 1)),
    ]);
    assert_eq!(rows(&bench.round(START + SECOND)), expected);
}

#[test]
fn a_rank_that_counted_before_it_was_known_begins_with_its_first_report() {
    let mut bench = Bench::new(100, 1 << 20);
    let id = bench.join(0, START - 60 * SECOND, START);
    bench.peers(id, 10 * SECOND, &[(SEND, TrafficKind::Sent, 1, 1 << 40, 1)]);
    bench.group(id, 1, 0, &[(0, 1, 2)]);
    bench.calls(id, IALLREDUCE, "", 3, 300);
    assert_eq!(bench.round(START + SECOND), []);
    bench.peers(id, 11 * SECOND, &[(SEND, TrafficKind::Sent, 1, (1 << 40) + 5, 2)]);
    bench.peers(id, 11 * SECOND, &[(SEND, TrafficKind::Sent, 2, 7, 1)]);
    let expected = Rows::from([
        (key("send", "modelled", "transmit", 1), (5, 1)),
        (key("send", "modelled", "transmit", 2), (7, 1)),
    ]);
    assert_eq!(rows(&bench.round(START + 2 * SECOND)), expected);
}

#[test]
fn many_cells_come_at_longer_intervals_and_the_last_ones_at_the_end() {
    let mut bench = Bench::new(10, 1 << 20);
    let id = bench.join(0, START, START);
    let sends = |bytes| (0..50).map(move |peer| (SEND, TrafficKind::Sent, peer, bytes, 1));
    bench.peers(id, 1, &sends(1).collect::<Vec<_>>());
    assert_eq!(bench.round(START + SECOND)[0].cells.len(), 50);
    bench.peers(id, 2, &sends(2).collect::<Vec<_>>());
    assert_eq!(bench.round(START + 4 * SECOND), []);
    let later = bench.round(START + 6 * SECOND);
    assert_eq!((later[0].cells.len(), later[0].since), (50, START + SECOND));
    bench.peers(id, 3, &[(SEND, TrafficKind::Sent, 7, 3, 2)]);
    let last = bench.ledger.finish(JOB, START + 7 * SECOND);
    assert_eq!((last.mpi_traffic[0].cells.len(), last.mpi_traffic[0].since), (50, START + 6 * SECOND));
    assert_eq!(bench.ledger.finish(JOB, START + 8 * SECOND), Batch::default());
}

#[test]
fn a_users_memory_is_bounded_and_what_is_known_goes_on() {
    let mut bench = Bench::new(1000, 100 * ENTRY_BYTES);
    let id = bench.join(0, START, START);
    let many = (0..64).map(|peer| (SEND, TrafficKind::Sent, peer, 1, 1)).collect::<Vec<_>>();
    bench.peers(id, 1, &many);
    let taken = rows(&bench.round(START + SECOND)).len();
    assert!(
        (10..40).contains(&taken),
        "{taken} of 64: half of the space is one user's, by two entries a peer"
    );
    assert!(bench.user.over.is_over());
    let again = many.iter().map(|(operation, kind, peer, ..)| (*operation, *kind, *peer, 2, 2));
    bench.peers(id, 2, &again.collect::<Vec<_>>());
    assert_eq!(rows(&bench.round(START + 2 * SECOND)).len(), taken);
    // Given back with the job.
    bench.ledger.finish(JOB, START + 3 * SECOND);
    let id = bench.join(0, START, START);
    bench.peers(id, 1, &many[..5]);
    assert_eq!(rows(&bench.round(START + 4 * SECOND)).len(), 5);
}

#[test]
fn records_end_at_whole_seconds_whenever_they_are_made() {
    let mut bench = Bench::new(100, 1 << 20);
    let one = bench.join(0, START, START + SECOND / 3);
    bench.peers(one, START + SECOND, &[(SEND, TrafficKind::Sent, 9, 100, 1)]);
    assert_eq!(bench.round(START + SECOND / 2), [], "of a second that has not ended");
    let first = bench.round(START + SECOND + SECOND / 4);
    assert_eq!((first[0].since, first[0].time), (START + SECOND / 3, START + SECOND));
    bench.peers(one, START + 2 * SECOND, &[(SEND, TrafficKind::Sent, 9, 300, 3)]);
    let second = bench.round(START + 2 * SECOND + SECOND / 2);
    assert_eq!((second[0].since, second[0].time), (START + SECOND, START + 2 * SECOND));
    for (now, wait) in
        [(START, SECOND / 4), (START + SECOND / 4, SECOND), (START + SECOND / 2, 3 * SECOND / 4)]
    {
        assert_eq!(until_round(now).as_nanos(), u128::from(wait.unsigned_abs()));
    }
}

#[test]
fn records_end_where_windows_of_shares_do() {
    const SECOND: i64 = 1_000_000_000;
    assert_eq!(due(20 * SECOND, 0, 10), 30 * SECOND);
    // A job that began in between comes into step.
    assert_eq!(due(23 * SECOND, 0, 10), 30 * SECOND);
    assert_eq!(due(20 * SECOND, 10, 10), 30 * SECOND);
    assert_eq!(due(20 * SECOND, 11, 10), 40 * SECOND);
    assert_eq!(due(20 * SECOND, 0, 1), 21 * SECOND);
    assert_eq!(due(20 * SECOND, 4, 1), 24 * SECOND);
}

#[test]
fn totals_are_the_last_whole_record_and_those_after_it() {
    let mut bench = Bench::new(10_000, 1 << 20);
    let id = bench.join(0, START, START);
    let mut sums: Rows = Rows::new();
    let mut records: Vec<MpiNodeTraffic> = Vec::new();
    let (mut wholes, mut cells) = (0, 0);
    for round in 1..=200_i64 {
        // A hundred peers once, then one or two at a time.
        let peers: Vec<u32> = if round == 1 { (0..100).collect() } else { vec![7, 10 + (round % 40) as u32] };
        let bytes = round.unsigned_abs() * 10;
        let entries: Vec<_> =
            peers.iter().map(|peer| (SEND, TrafficKind::Sent, *peer, bytes, bytes / 10)).collect();
        bench.peers(id, round, &entries);
        for peer in peers {
            sums.insert(key("send", "modelled", "transmit", peer), (bytes, bytes / 10));
        }
        let new = bench.round(START + round * SECOND);
        wholes += new.iter().filter(|record| record.is_whole).count();
        cells += new.iter().map(|record| record.cells.len()).sum::<usize>();
        records.extend(new);
        let last = records.iter().rposition(|record| record.is_whole).unwrap();
        let read: Rows =
            records[last..].iter().flat_map(|record| rows(std::slice::from_ref(record))).collect();
        assert_eq!(read, sums);
        assert!(records.len() - last <= 100 / 9 + 1, "few records");
    }
    assert!((15..=25).contains(&wholes), "{wholes}");
    assert!(cells < 3000, "{cells} of 20,000 in whole records alone");
}

#[test]
fn sampled_calls_of_ten_seconds_are_one_record_and_the_last_ones_come_at_the_end() {
    let mut bench = Bench::new(100, 1 << 20);
    bench.ledger = Ledger::new(100, 60, 86_400); // traffic comes less often
    let id = bench.join(0, START, START);
    bench.group(id, 1, 0, &[(0, 1, 4)]);
    let mut records = Vec::new();
    for second in 1..=25_i64 {
        let key =
            CollectiveKey { group: 5, operation: ALLREDUCE, size_class: 4, algorithm: 0, root: Root::None };
        let sample = Sample { key, level: 0, call: second.unsigned_abs(), nanoseconds: 10 };
        let one = NamedSample { sample, operation: "allreduce", algorithm: "".into() };
        bench.ledger.take(JOB, id, Report::Samples(vec![one]));
        let batches = bench.ledger.round(START + second * SECOND + SECOND / 4);
        records.extend(batches.into_iter().flat_map(|(_, batch)| batch.mpi_sampled_calls));
    }
    records.extend(bench.ledger.finish(JOB, START + 25 * SECOND).mpi_sampled_calls);
    let found: Vec<(i64, usize)> =
        records.iter().map(|one| ((one.time - START) / SECOND, one.calls.len())).collect();
    assert_eq!(found, [(1, 1), (10, 9), (20, 10), (25, 5)]);
}

#[test]
fn a_clock_that_is_set_stops_no_rows() {
    let mut bench = Bench::new(100_000, 1 << 20);
    let moment = |monotonic: i64, utc: i64| Moment { monotonic: monotonic * SECOND, utc };
    bench.ledger.follow(moment(0, START));
    let id = bench.join(0, START, START);
    bench.peers(id, 1, &[(SEND, TrafficKind::Sent, 1, 100, 1)]);
    let rows = bench.round(START + 10 * SECOND);
    assert_eq!((rows.len(), rows[0].time), (1, START + 10 * SECOND));
    bench.ledger.follow(moment(12, START - 288 * SECOND));
    bench.peers(id, 2, &[(SEND, TrafficKind::Sent, 1, 300, 3)]);
    let rows = bench.round(START - 280 * SECOND);
    let expected = (START - 280 * SECOND, START - 290 * SECOND, START);
    assert_eq!((rows[0].time, rows[0].since, rows[0].epoch), expected);
}
