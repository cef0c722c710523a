//! Self-metrics of Throughline, reported by every daemon in `/metrics` and in `self_stats`.
//!
//! The label `source` names the part of the daemon: a source (`nvml`, `sysfs`, `mpi`, `mad`), `spool`, `delivery`, `collector`,
//! `upkeep`. Some metrics have one label more, such as `reason`. A loss is `..._discarded` where Throughline had the data and
//! did not keep them, and `..._rejected` where it did not accept them.

use super::Width::Wraps;
use super::metrics;

metrics! { ALL, SelfStats:
    901 RECORDS "records" Counter Count Wraps(63), "Records that this part handed on.", "counted by the daemon";
    902 RECORDS_DISCARDED "records_discarded" Counter Count Wraps(63), "Records that this part had and discarded: its queue or the spool was full, or they could not be stored.", "counted by the daemon", label "reason";
    1140 RECORDS_REJECTED "records_rejected" Counter Count Wraps(63), "Records that this part did not accept, each by itself: of a wrong time, name, size or sender. The reasons are in docs/SECURITY.md.", "counted by the daemon", label "reason";
    908 ENTRIES_DISCARDED "entries_discarded" Counter Count Wraps(63), "Entries of a spool that were discarded: memory or disk was full, the disk damaged them, or they were of a fenced crawler. The reason evicted costs detail only: cumulative entries removed from a full spool between others that remain.", "counted by the daemon", label "reason";
    926 ENTRIES_REJECTED "entries_rejected" Counter Count Wraps(63), "Entries and streams that were not accepted. The collector sets entries that it can't decode or store aside (quarantined); a sender keeps those that the collector refuses for a while.", "counted by the daemon", label "reason";
    971 CONNECTIONS_REJECTED "connections_rejected" Counter Count Wraps(63), "Connections that this part rejected or closed because a limit was reached or the peer was not admitted.", "counted by the daemon", label "reason";
    1181 REQUESTS_REJECTED "requests_rejected" Counter Count Wraps(63), "Requests that this part did not answer: of readers without a right, beyond a limit or with a wrong query.", "counted by the daemon", label "reason";
    917 MESSAGES_REJECTED "messages_rejected" Counter Count Wraps(63), "Messages from MPI ranks that were not accepted because they did not follow the protocol.", "counted by the daemon", label "reason";
    942 UNCHANGED_READINGS "unchanged_readings" Counter Count Wraps(63), "Readings of this part that became no row because nothing had changed.", "counted by the daemon";
    903 FAILED_READS "failed_reads" Counter Count Wraps(63), "Values or messages that this part could not read.", "counted by the daemon";
    904 OVERRUNS "overruns" Counter Count Wraps(63), "Rounds of this part that began late because the one before took too long.", "counted by the daemon";
    905 LAST_ROUND_SECONDS "last_round_seconds" Gauge Seconds Wraps(63), "How long the last round of this part took.", "counted by the daemon";
    954 LAST_ROUND_TIMESTAMP_SECONDS "last_round_timestamp_seconds" Gauge Seconds Wraps(63), "End of the last round of this part that read anything, as Unix time.", "counted by the daemon";
    931 LAST_ROUND_COMMIT_SECONDS "last_round_commit_seconds" Gauge Seconds Wraps(63), "From the first reading of this part's last delivered round to the acknowledged commit of its rows.", "counted by the daemon";
    959 LARGEST_GAP_SECONDS "largest_gap_seconds" Gauge Seconds Wraps(63), "The largest gap between two rows of this part's readings, by the rule that it reports. With an older newest round it is silent.", "configuration";
    919 SOURCE_UP "source_up" Gauge Count Wraps(63), "1 while this source delivers, 0 while it can't be read. Absent while it is switched off, and on a node that has no such device.", "counted by the daemon";
    1350 SOURCE_PAUSED "source_paused" Gauge Count Wraps(63), "1 while this source gives its devices to a profiler (paused) or another profiler has them (busy), else 0. It counts as up then. Absent for sources that never do so.", "counted by the daemon";
    1351 PAUSED_UNTIL_TIMESTAMP_SECONDS "paused_until_timestamp_seconds" Gauge Seconds Wraps(63), "When the pause of this source ends by itself, as Unix time. Absent while there is none, and where that is not known.", "counted by the daemon";
    1352 UNLOGGED_OUTPUT_BYTES "unlogged_output_bytes" Counter Bytes Wraps(63), "Bytes that a vendor's library printed and that were not logged, because the log gets a bounded part of them.", "counted by the daemon";
    1353 UNWATCHED_PROCESSES "unwatched_processes" Gauge Count Wraps(63), "Processes of this node whose memory the agent may not look into: a profiler in one of them is noticed by its program's name only. Absent unless this source gives way to profilers.", "counted by the daemon";
    974 EXTRA_SAMPLES "extra_samples" Counter Count Wraps(63), "Readings of this part that were made because a job began or ended here.", "counted by the daemon";
    930 CLOCK_ERROR_SECONDS "clock_error_seconds" Gauge Seconds Wraps(63), "Estimated error of this node's clock.", "reported with each batch";
    1300 CLOCK_OFFSET_SECONDS "clock_offset_seconds" Gauge Seconds Wraps(63), "How far this daemon's clock is ahead of the collector's; negative: behind. From 5 s on the times of its records are moved by as much, in whole 10 s.", "reported by the collector";
    1120 HTTP_BOUND "http_bound" Gauge Count Wraps(63), "1 while /metrics and /healthz have their address, 0 while another process of this machine holds it and this daemon runs without them.", "counted by the daemon";
    946 STATE_FAILURES "state_failures" Counter Count Wraps(63), "Failed reads and writes of the state that this part stores for its next start.", "counted by the daemon";

    // The spool and its delivery.
    906 SPOOL_BYTES "spool_bytes" Gauge Bytes Wraps(63), "Bytes now waiting in the spool.", "counted by the daemon";
    907 SPOOL_ENTRIES "spool_entries" Gauge Count Wraps(63), "Entries now waiting in the spool.", "counted by the daemon";
    921 SPOOL_ERRORS "spool_errors" Counter Count Wraps(63), "Failed reads, writes and syncs of the spool's folder.", "counted by the daemon";
    1240 SPOOL_DAMAGED_SEGMENTS "spool_damaged_segments" Counter Count Wraps(63), "Segments of the spool found damaged. The files are set aside as *.bad, and the entries that can be read are delivered.", "counted by the daemon";
    1242 SPOOL_DAMAGED_BYTES "spool_damaged_bytes" Counter Bytes Wraps(63), "Bytes of damaged spots of the spool.", "counted by the daemon";
    909 DELIVERED_ENTRIES "delivered_entries" Counter Count Wraps(63), "Spool entries whose commit was acknowledged.", "counted by the daemon";
    910 DELIVERY_FAILURES "delivery_failures" Counter Count Wraps(63), "Failed attempts to deliver: connection lost, refused or rejected.", "counted by the daemon";
    920 DELIVERY_LAG_SECONDS "delivery_lag_seconds" Gauge Seconds Wraps(63), "Age of the oldest entry that waits for the acknowledgement of its commit; 0 when none waits.", "counted by the daemon";

    // The recorder and detail on demand.
    1280 RECORDER_BYTES "recorder_bytes" Gauge Bytes Wraps(63), "Bytes of the recorder: records in full resolution that stay on the node for a while.", "counted by the daemon";
    1281 RECORDER_SPAN_SECONDS "recorder_span_seconds" Gauge Seconds Wraps(63), "How far the recorder reaches back, from its oldest record to its newest one.", "counted by the daemon";
    1282 RECORDER_ERRORS "recorder_errors" Counter Count Wraps(63), "Failed writes and removals of the recorder, those on a full disk included.", "counted by the daemon";
    1283 RECORDER_DAMAGED_BLOCKS "recorder_damaged_blocks" Counter Count Wraps(63), "Torn or damaged spots that the recorder found when it was opened. Each costs the rest of its segment, at most a minute.", "counted by the daemon";
    1284 DETAIL_REQUESTS "detail_requests" Counter Count Wraps(63), "Requests for detail that this agent took: answered, refused, or live (somebody watches a job).", "counted by the daemon", label "outcome";
    1285 DETAIL_RECORDS "detail_records" Counter Count Wraps(63), "Records of the recorder that were sent because somebody requested them.", "counted by the daemon";

    // MPI ranks of a node.
    918 CONNECTED_RANKS "connected_ranks" Gauge Count Wraps(63), "MPI ranks now connected.", "counted by the daemon";
    970 RUNNING_JOBS "running_jobs" Gauge Count Wraps(63), "Jobs with a rank on this node.", "counted by the daemon";
    972 UNKNOWN_RANK_GPUS "unknown_rank_gpus" Counter Count Wraps(63), "Ranks with unknown GPUs.", "counted by the daemon", label "reason";
    973 UNKNOWN_RANK_PORTS "unknown_rank_ports" Counter Count Wraps(63), "Ranks with unknown adapter ports.", "counted by the daemon", label "reason";
    976 RECLAIMED_RANKS "reclaimed_ranks" Counter Count Wraps(63), "Ranks known from before this agent's start that still ran.", "counted by the daemon";
    977 UNOBSERVED_ENDS "unobserved_ends" Counter Count Wraps(63), "Ranks that ended while no agent ran here.", "counted by the daemon";
    978 RECOVERED_ENDS "recovered_ends" Counter Count Wraps(63), "Ranks that ended while no agent ran here and whose last totals came from the file that they left.", "counted by the daemon";
    1100 OVER_QUOTA_USERS "over_quota_users" Gauge Count Wraps(63), "Users whose MPI ranks are over a quota now: their messages are read later, or less of them is recorded.", "counted by the daemon";
    1101 QUOTA_LIMITED "quota_limited" Counter Count Wraps(63), "Times that a quota delayed somebody or left out some of the data: of the MPI ranks of a user or job at the agent, of a certificate at the collector.", "counted by the daemon", label "quota";
    1102 WAITING_BYTES "waiting_bytes" Gauge Bytes Wraps(63), "Bytes of records in memory that wait for the next part.", "counted by the daemon";
    1103 CONTESTED_CLAIMS "contested_claims" Counter Count Wraps(63), "MPI ranks whose environment names a job that is another user's according to the kernel. They are recorded without a scheduler's job.", "counted by the daemon";
    1121 CELLS_DISCARDED "cells_discarded" Counter Count Wraps(63), "Cells of MPI operations that are missing in this node's totals in /metrics because their user's share of the cache was full. The database has them.", "counted by the daemon", label "reason";

    // The crawler.
    957 CRAWLER_ACTIVE "crawler_active" Gauge Count Wraps(63), "1 while this crawler sweeps, 0 while it is the standby of another one of its fabric, or sees none.", "reported by the collector";
    914 MADS_SENT "mads_sent" Counter Count Wraps(63), "Management datagrams sent.", "counted by the daemon";
    932 MADS_RECEIVED "mads_received" Counter Count Wraps(63), "Management datagrams received.", "counted by the daemon";
    915 MAD_TIMEOUTS "mad_timeouts" Counter Count Wraps(63), "Management datagrams that got no answer in time.", "counted by the daemon";
    916 MAD_RETRIES "mad_retries" Counter Count Wraps(63), "Management datagrams sent again.", "counted by the daemon";
    933 MAD_WIRE_BYTES "mad_wire_bytes" Counter Bytes Wraps(63), "Bytes of management datagrams on the link of the local port, both directions, 290 each with headers. Each further hop carries them again.", "counted by the daemon";
    934 UNEXPECTED_MADS "unexpected_mads" Counter Count Wraps(63), "Replies to no outstanding request: late or duplicate.", "counted by the daemon";
    936 MAD_BUDGET_WAITS "mad_budget_waits" Counter Count Wraps(63), "Times that sending waited for the limit of management datagrams per second, or for the subnet manager.", "counted by the daemon";
    945 REDIRECTIONS "redirections" Counter Count Wraps(63), "Agents that redirected this part's requests.", "counted by the daemon";
    935 SILENT_NODES "silent_nodes" Gauge Count Wraps(63), "Nodes that did not answer this part's last request and are only probed.", "counted by the daemon";
    1226 UNANSWERED_PORTS "unanswered_ports" Gauge Count Wraps(63), "Ports of nodes that never answered a request for counters: they are requested at growing intervals, of up to five minutes.", "counted by the daemon";
    1227 DEFERRED_READS "deferred_reads" Counter Count Wraps(63), "Ports that a sweep left for a later one because their node never answered a request for counters.", "counted by the daemon";
    951 UNANSWERED_NODES "unanswered_nodes" Gauge Count Wraps(63), "Linked nodes of the fabric that do not answer, and nodes that can only be reached through them.", "counted by the daemon";
    943 UNSUPPORTED_COUNTERS "unsupported_counters" Counter Count Wraps(63), "Optional sets of counters that a node turned out not to have.", "counted by the daemon";
    944 CLEARED_COUNTERS "cleared_counters" Counter Count Wraps(63), "Times that somebody cleared a port's counters or its device was reset.", "counted by the daemon";
    1224 DEVICE_REOPENS "device_reopens" Counter Count Wraps(63), "Times that this part opened the crawler's device again after it had ceased to work.", "counted by the daemon";
    955 RENDERED_PAGES "rendered_pages" Counter Count Wraps(63), "Pages made of a sweep; scrapes of the same sweep share one.", "counted by the daemon";
    937 REPORTED_TRAPS "reported_traps" Counter Count Wraps(63), "Traps that the subnet manager reported to this crawler.", "counted by the daemon";
    938 SM_CHANGES "sm_changes" Counter Count Wraps(63), "Times that another subnet manager was master, that it restarted, or that it did not answer.", "counted by the daemon";
    939 SM_UP "sm_up" Gauge Count Wraps(63), "1 while the subnet manager answers, 0 while it does not.", "read from the subnet administrator";
    940 HEAVY_SWEEP_WAIT_SECONDS "heavy_sweep_wait_seconds" Counter Seconds Wraps(63), "Time that discoveries waited during heavy sweeps of the subnet manager.", "counted by the daemon";
    941 TOPOLOGY_FROM_SA "topology_from_sa" Gauge Count Wraps(63), "1 while the topology comes from the subnet administrator because the nodes do not answer, 0 while it is read from the nodes.", "counted by the daemon";
    947 DISCOVERY_REQUESTS "discovery_requests" Counter Count Wraps(63), "Discoveries of the topology that were requested before their time.", "counted by the daemon", label "reason";
    948 TOPOLOGY_EVENTS "topology_events" Counter Count Wraps(63), "Changes of the fabric's topology that were reported as events.", "counted by the daemon", label "kind";
    949 LAST_DISCOVERY_MADS "last_discovery_mads" Gauge Count Wraps(63), "Management datagrams of the last discovery of its kind: light, or whole with forwarding tables.", "counted by the daemon", label "kind";
    950 LIGHT_DISCOVERIES "light_discoveries" Counter Count Wraps(63), "Discoveries of what can have changed of the topology, between whole ones.", "counted by the daemon";
    1220 TRUNCATED_DISCOVERIES "truncated_discoveries" Counter Count Wraps(63), "Discoveries that ended at a limit; the label is the limit's key in the configuration.", "counted by the daemon", label "limit";
    1221 TOPOLOGY_TRUNCATED "topology_truncated" Gauge Count Wraps(63), "1 while the topology in use is of a discovery that ended at a limit, 0 while it is complete.", "counted by the daemon";
    1222 DISCOVERIES_REJECTED "discoveries_rejected" Counter Count Wraps(63), "Discoveries that did not replace the topology in use because they failed, were truncated or lost most of the fabric at once.", "counted by the daemon", label "reason";
    1223 REPLIES_REJECTED "replies_rejected" Counter Count Wraps(63), "Replies of the fabric that are not believed because they can't be true or contradict others.", "counted by the daemon", label "reason";
    1225 UNREAD_MULTICAST_GROUPS "unread_multicast_groups" Counter Count Wraps(63), "Failed readings of multicast groups, and groups that were read without their members or not recorded.", "counted by the daemon", label "reason";

    // The collector.
    1301 SERVER_CLOCK_OFFSET_SECONDS "server_clock_offset_seconds" Gauge Seconds Wraps(63), "How far this server's clock is ahead of three or more of its senders, and over half of all, that agree; negative: behind. 0 otherwise. While it is not 0 the server stores nothing.", "counted by the daemon";
    1302 ENTRIES_PUT_OFF "entries_put_off" Counter Count Wraps(63), "Entries that the collector did not take yet because of a clock: their senders keep them and send them again.", "counted by the daemon", label "reason";
    922 COMMITS "commits" Counter Count Wraps(63), "Transactions committed to the database.", "counted by the daemon";
    923 LAST_COMMIT_SECONDS "last_commit_seconds" Gauge Seconds Wraps(63), "How long the last transaction took from its first row to its commit.", "counted by the daemon";
    924 COMMIT_FAILURES "commit_failures" Counter Count Wraps(63), "Transactions that failed and were tried again: database away, restarted or full.", "counted by the daemon";
    911 ROWS_WRITTEN "rows_written" Counter Count Wraps(63), "Rows committed to the database.", "counted by the daemon";
    912 DUPLICATE_ENTRIES "duplicate_entries" Counter Count Wraps(63), "Entries received again after their commit, and not stored again.", "counted by the daemon";
    925 CONNECTED_SENDERS "connected_senders" Gauge Count Wraps(63), "Agents and crawlers now connected to the collector.", "counted by the daemon";
    1160 PENDING_HANDSHAKES "pending_handshakes" Gauge Count Wraps(63), "Unauthenticated connections to the collector.", "counted by the daemon";
    1161 OPEN_CONNECTIONS "open_connections" Gauge Count Wraps(63), "Open connections to the collector, with or without a stream of entries.", "counted by the daemon";
    1104 OVER_QUOTA_SENDERS "over_quota_senders" Gauge Count Wraps(63), "Certificates that are over a quota now: their batches are read later, or their events are rejected.", "counted by the daemon";
    1105 SENDER_RECORDS_REJECTED "sender_records_rejected" Counter Count Wraps(63), "Records of one sender that the collector did not accept, with the label sender. Senders beyond the first 256 of a process share the sender other.", "counted by the daemon", label "reason";
    1162 CONNECTION_LIMIT "connection_limit" Gauge Count Wraps(63), "Connections that the collector takes at once: the configured number, or fewer where the limit of open files is lower.", "counted by the daemon";

    // Upkeep of the database.
    927 DATABASE_BYTES "database_bytes" Gauge Bytes Wraps(63), "Size of the database on disk.", "read from PostgreSQL";
    928 DATABASE_CHUNKS "database_chunks" Gauge Count Wraps(63), "Chunks of all hypertables.", "read from TimescaleDB";
    929 EXPIRED_CHUNKS "expired_chunks" Counter Count Wraps(63), "Chunks removed because all their rows were older than their table's retention.", "counted by the daemon";
    975 ORPHANED_RANKS "orphaned_ranks" Counter Count Wraps(63), "Ranks that were closed because their node no longer reported anything.", "counted by the daemon";
    980 ROLLUPS_MADE "rollups_made" Counter Count Wraps(63), "Minutes of time that were rolled up: rows of one minute made of readings.", "counted by the daemon";
    981 LATE_READINGS "late_readings" Counter Count Wraps(63), "Late arrivals: readings that came after the rollup of their minute, which was made again.", "counted by the daemon";
    982 ROLLUP_LAG_SECONDS "rollup_lag_seconds" Gauge Seconds Wraps(63), "How long ago the last rolled up minute ended; some three minutes unless there is much to make up for.", "read from the database";
    983 BLOCKS_MADE "blocks_made" Counter Count Wraps(63), "Hours of one port or GPU whose readings were packed for remote-read; packed again where readings came late.", "counted by the daemon";
    984 LINK_SHARE_WINDOWS "link_share_windows" Counter Count Wraps(63), "Windows of 10 s for which shares of links were made.", "counted by the daemon";
    985 LATE_LINK_SHARE_WINDOWS "late_link_share_windows" Counter Count Wraps(63), "Windows whose shares of links were made again because counters or traffic arrived late.", "counted by the daemon";
    986 LINK_SHARE_LAG_SECONDS "link_share_lag_seconds" Gauge Seconds Wraps(63), "How long ago the last window with shares of links ended; less than a minute unless there is much to make up for.", "read from the database";
    987 TRAFFIC_ROWS_DISCARDED "traffic_rows_discarded" Counter Count Wraps(63), "Rows of jobs' traffic that shares of links were made without because the cache of growing cells was full.", "counted by the daemon", label "reason";
    988 LINK_SERIES_DISCARDED "link_series_discarded" Counter Count Wraps(63), "Contributors of links without a series in /metrics because there were too many, counted once a window. The table link_shares has them.", "counted by the daemon", label "reason";
    989 JUDGED_JOBS "judged_jobs" Counter Count Wraps(63), "Verdicts made on jobs: each minute while a job runs, and once after its end.", "counted by the daemon";
    990 JOBS_WITH_VERDICT "jobs_with_verdict" Gauge Count Wraps(63), "Running jobs with a verdict of this kind.", "counted by the daemon", label "kind";
    991 WEBHOOK_REPORTS "webhook_reports" Counter Count Wraps(63), "Reports of ended jobs to the address of [report] webhook: sent, or failed (refused, or not taken within a day).", "counted by the daemon", label "outcome";
    992 WEBHOOK_WAITING_REPORTS "webhook_waiting_reports" Gauge Count Wraps(63), "Reports of ended jobs that the address of [report] webhook has not taken yet.", "read from the database";
    1290 EXPIRY_STOPPED "expiry_stopped" Gauge Count Wraps(63), "1 while no rows are dropped, thinned or packed because the database's clock is in doubt or nobody reports, else 0. throughline status and /healthz say why.", "read from the database";
    1291 DATABASE_CLOCK_OFF_SECONDS "database_clock_off_seconds" Gauge Seconds Wraps(63), "How far the database's clock is ahead of the witness against it: the server's monotonic clock, or most senders; negative where it is behind, 0 while it is believed.", "read from the database";

    // Readers and remote write.
    1272 READER_SETTINGS_RESET "reader_settings_reset" Counter Count Wraps(63), "Settings and passwords that a reading role of the database had set for itself and that were reset. Events of the kind reader.reset name them.", "counted by the daemon";
    1273 READER_ROLES_MISSING "reader_roles_missing" Gauge Count Wraps(63), "Reading roles that the database lacks and that its owner may not make. /healthz has the statements for the administrator.", "read from PostgreSQL";
    1274 READER_SESSIONS_ENDED "reader_sessions_ended" Counter Count Wraps(63), "Sessions of people's login that were ended because a statement or transaction of theirs lasted too long (busy) or paused (idle).", "counted by the daemon", label "reason";
    1270 REPLICA_LAG_SECONDS "replica_lag_seconds" Gauge Seconds Wraps(63), "How far the replica that readers use is behind the primary: age of the oldest change that it does not have, to 2 s. Absent while that is not known.", "read from both databases";
    1271 REPLICA_FALLBACKS "replica_fallbacks" Counter Count Wraps(63), "Times that a reader's request went to the primary because the configured replica was away or too far behind.", "counted by the daemon";
    1267 EXPORT_RECEIVER_UP "export_receiver_up" Gauge Count Wraps(63), "1 while this receiver of remote write takes requests, 0 while it does not.", "counted by the daemon", label "receiver";
    1260 EXPORTED_SAMPLES "exported_samples" Counter Count Wraps(63), "Samples that a receiver of remote write acknowledged.", "counted by the daemon", label "receiver";
    1261 EXPORT_LAG_SECONDS "export_lag_seconds" Gauge Seconds Wraps(63), "How long ago the last completely sent window ended; less than a minute unless the receiver is away or there is much to make up for.", "counted by the daemon", label "receiver";
    1262 EXPORT_FAILURES "export_failures" Counter Count Wraps(63), "Requests of remote write that failed and are sent again: the receiver is away, overloaded or does not allow them.", "counted by the daemon", label "receiver";
    1263 EXPORT_SAMPLES_REJECTED "export_samples_rejected" Counter Count Wraps(63), "Samples that a receiver of remote write rejected as invalid, for instance too old, and that are not sent again.", "counted by the daemon", label "receiver";
    1264 EXPORT_REPEATED_SAMPLES "export_repeated_samples" Counter Count Wraps(63), "Samples that a receiver of remote write rejected in a request that it may have had before: sent again after a stop or without an answer.", "counted by the daemon", label "receiver";
    1265 EXPORT_LATE_SAMPLES "export_late_samples" Counter Count Wraps(63), "Samples sent separately because they arrived after their window was sent. They count in exported_samples, too, once acknowledged.", "counted by the daemon", label "receiver";
    1266 EXPORT_DISCARDED_SECONDS "export_discarded_seconds" Counter Seconds Wraps(63), "Time that was not sent to a receiver of remote write because its readings were no longer retained.", "counted by the daemon", label "receiver";
}
