//! Schema, migrations, COPY writer, and the private PostgreSQL cluster. The only crate that knows SQL writes.
//!
//! * [`PrivateCluster`]: finds PostgreSQL with TimescaleDB, runs a cluster of its own, starts and stops it.
//! * [`Database`]: how to connect, as the writer or as the reader; also to a server that somebody operates.
//! * [`migrate`]: brings a database to the schema of this build.
//! * [`Writer`]: batches to rows, with the ledger that makes a replay harmless in the same transaction.
//! * [`TermClient`]: which of several crawlers of a subnet writes.
//! * [`NodeBars`]: nodes and certificates that are refused.
//! * [`apply_retention`]: old chunks go, by one procedure that upkeep or a job of the database calls; some become columns before.
//! * [`pack_totals`]: what stays of a job that has ended; [`release_claims`], [`expire_jobs`]: what goes of it, and when.
//! * [`ClockChecker`]: whether the database's clock is believed; without that nothing is dropped, thinned or packed.
//! * [`predict_size`]: in which form each table is, how long, and what a site takes.
//! * [`make_rollups`]: one row a minute of ports and links, retained longer than readings.
//! * [`make_link_shares`]: whose bytes were on each link, window by window.
//! * [`write_judgements`]: what is said of jobs; [`reports_to_post`]: reports that wait to be posted.
//! * [`ExportTarget`]: how far samples are sent to a receiver of remote write, and what arrived late for it.
//! * [`encode_chunks`]: readings of an hour, bit-packed; [`move_hours`]: the rows of such an hour go.
//! * [`back_up`]: a dump while everything runs, and what is in it; [`restore`], [`verify`].
//! * [`thin_chunks`]: chunks older than rows at the full rate have fewer rows.
//! * [`rollup_kind`], [`chunks`], [`binary_copy`], [`counter_sql`], [`sql_time`]: how rows are stored, for those who read them.
//! * [`testing`]: a throw-away cluster per test process, for the tests of this and other crates.
//!
//! It must not know where batches come from, nor decide what is shown to people.

mod backup;
mod backup_lock;
pub mod binary_copy;
pub mod chunk_ranges;
pub mod chunks;
mod clock_check;
mod cluster;
mod columns;
mod columnstore;
mod contests;
mod copy;
pub mod counter_sql;
mod database;
mod detail;
mod edition;
mod error;
mod expiry;
mod export;
mod fabrics;
mod finals;
mod lazy_connection;
mod link_shares;
mod migrate;
mod node_bars;
mod orphaned_jobs;
mod packed_account;
mod packed_rows;
mod probe;
mod reading;
mod report_posts;
mod retention;
pub mod rollup_kind;
mod rollups;
mod schema;
mod sender_clocks;
mod session;
mod size;
pub mod sql_time;
mod tables;
mod terms;
pub mod testing;
mod thinning;
mod turns;
mod upkeep;
mod verdicts;
mod watermarks;
mod writer;

pub use backup::{
    BackupMade, BackupProgress, ClientPrograms, Difference, HourDifference, Manifest, Restored, Verified,
    back_up, check_files, prepare_folder, restore, restore_cluster, verify,
};
pub use backup_lock::is_backup_running;
pub use chunks::{ChunksEncoded, encode_chunks, move_hours};
pub use clock_check::{
    ClockCheck, ClockChecker, ClockStanding, ClockState, MachineClock, PERMISSION, accept_clock,
    clock_standing,
};
pub use cluster::{
    ClusterOptions, ClusterStart, ClusterStatus, Installation, Lifetime, PrivateCluster, SettingRemark,
    review_settings,
};
pub use contests::{ContestRounds, ContestsSettled, settle_contests};
pub use database::{Database, DiskSpace, QUERY_ROLE, READ_ROLE, WRITE_ROLE};
pub use detail::{
    AlertLabels, AlertSubject, DetailLimits, DetailOrder, DetailPlace, DetailQueue, DetailReason,
    DetailRefusal, DetailSubject, DetailTrigger, LIVE_SECONDS, LiveRequest, NewDetail, alert_subjects,
    detail_triggers, end_detail_turn, lift_job, live_request, request_detail,
};
pub use edition::{Edition, edition};
pub use error::Error;
pub use expiry::{RetentionOutcome, apply_retention};
pub use export::{ExportTarget, ExportTime, LateNote, lock_export};
pub use fabrics::{FabricState, fabric_states, rename_fabric};
pub use finals::{ExpiredJobs, TotalsPacked, expire_jobs, pack_totals, release_claims};
pub use link_shares::{
    Groups, LinkContribution, LinkShareCache, LinkSharesMade, SHARE_WINDOW, largest_contributions,
    link_shares_made_until, make_link_shares,
};
pub use migrate::{Migrated, migrate, schema_version};
pub use node_bars::{
    BarSubject, NodeBar, NodeBars, NodeCertificate, bar_node, barred_nodes, node_certificates, serial_number,
    unbar_node,
};
pub use orphaned_jobs::{OrphanedJobs, close_orphaned_jobs};
pub use packed_account::{NodeAccount, SUMS as NODE_ACCOUNT_SUMS};
pub use packed_rows::{PackedRows, SampledCall};
pub use probe::{DatabaseVersions, database_versions, is_read_only, probe};
pub use reading::{
    EndedRead, ReadBounds, ReaderCheck, check_readers, end_long_reads, reader_role_statements,
};
pub use report_posts::{
    PostOutcome, ReportPost, give_up_report_posts, note_report_post, reports_to_post, waiting_report_posts,
};
pub use retention::{Retention, RetentionWay};
pub use rollups::{RollupsMade, make_rollups};
pub use schema::schema_text;
pub use sender_clocks::{SenderClock, SenderClocks, ServerClock, SpanOffset};
pub use session::{ReplicationRole, check_session, replication_role};
pub use size::{
    ObservedTable, OldSize, PlainSize, SizePrediction, TableSize, WAL_BYTES_MAX, observed_retention_way,
    observed_site, observed_tables, predict_size, tables_document,
};
pub use tables::{
    Chunks, Columns, Form, Life, PlainRetention, PlainTable, RetentionClass, Site, StoredTable, TABLES,
    ThinningPlan, hypertable, hypertables,
};
pub use terms::{TermClient, TermGrant, TermRequest};
pub use thinning::{ChunksThinned, thin_chunks};
pub use turns::Turn;
pub use upkeep::{DatabaseSize, database_size, lock_upkeep};
pub use verdicts::{
    JobToJudge, JobsInTurns, Judgement, end_turns, jobs_to_judge, judge_sooner, write_judgements,
};
pub use writer::NodeLimits;
pub use writer::{Content, EXAMPLE_BYTES_MAX, Entry, RecordRejection, Sender, WriteOutcome, Writer};
