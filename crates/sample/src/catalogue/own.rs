//! Figures about Throughline itself, told by every daemon in `/metrics` and in `self_stats`.
//!
//! The label `source` says which part of the daemon: a source (`nvml`, `sysfs`, `mpi`, `mad`), `spool`,
//! `delivery`, `collector`, `upkeep`.

use super::Width::Wraps;
use super::metrics;

metrics! { ALL, SelfStats:
    901 RECORDS "records" Counter Count Wraps(63), "Records that this part handed on.", "counted by the daemon";
    902 DROPPED_RECORDS "dropped_records" Counter Count Wraps(63), "Records that this part dropped because a bound was reached.", "counted by the daemon";
    903 FAILED_READS "failed_reads" Counter Count Wraps(63), "Values or messages that this part could not read.", "counted by the daemon";
    904 OVERRUNS "overruns" Counter Count Wraps(63), "Rounds of this part that began late because the one before took too long.", "counted by the daemon";
    905 ROUND_SECONDS "round_seconds" Gauge Seconds Wraps(63), "How long the last round of this part took.", "counted by the daemon";
    906 SPOOL_BYTES "spool_bytes" Gauge Bytes Wraps(63), "Bytes now waiting in the spool.", "counted by the daemon";
    907 SPOOL_ENTRIES "spool_entries" Gauge Count Wraps(63), "Entries now waiting in the spool.", "counted by the daemon";
    908 THINNED_RECORDS "thinned_records" Counter Count Wraps(63), "Cumulative entries removed from a full spool between others that remain.", "counted by the daemon";
    909 DELIVERED_ENTRIES "delivered_entries" Counter Count Wraps(63), "Spool entries whose commit was acknowledged.", "counted by the daemon";
    910 DELIVERY_FAILURES "delivery_failures" Counter Count Wraps(63), "Failed attempts to deliver: connection lost, refused or rejected.", "counted by the daemon";
    911 ROWS_WRITTEN "rows_written" Counter Count Wraps(63), "Rows committed to the database.", "counted by the daemon";
    912 DUPLICATE_ENTRIES "duplicate_entries" Counter Count Wraps(63), "Entries received again after their commit, and left out.", "counted by the daemon";
    913 QUARANTINED_ENTRIES "quarantined_entries" Counter Count Wraps(63), "Entries that could not be decoded or stored, set aside with the reason.", "counted by the daemon";
    914 MADS_SENT "mads_sent" Counter Count Wraps(63), "Management datagrams sent.", "counted by the daemon";
    915 MAD_TIMEOUTS "mad_timeouts" Counter Count Wraps(63), "Management datagrams that got no answer in time.", "counted by the daemon";
    916 MAD_RETRIES "mad_retries" Counter Count Wraps(63), "Management datagrams sent again.", "counted by the daemon";
    917 MALFORMED_MESSAGES "malformed_messages" Counter Count Wraps(63), "Messages from MPI ranks that did not follow the protocol.", "counted by the daemon";
    918 CONNECTED_RANKS "connected_ranks" Gauge Count Wraps(63), "MPI ranks now connected.", "counted by the daemon";
    919 SOURCE_UP "source_up" Gauge Count Wraps(63), "1 while this source delivers, 0 while it can't be read, absent while it is switched off and on a node that has nothing of its kind.", "counted by the daemon";
    920 DELIVERY_LAG_SECONDS "delivery_lag_seconds" Gauge Seconds Wraps(63), "Age of the oldest entry that waits for the acknowledgement of its commit; 0 when none waits.", "counted by the daemon";
    921 SPOOL_ERRORS "spool_errors" Counter Count Wraps(63), "Failed reads, writes and syncs of the spool's folder.", "counted by the daemon";
    922 COMMITS "commits" Counter Count Wraps(63), "Transactions committed to the database.", "counted by the daemon";
    923 COMMIT_SECONDS "commit_seconds" Gauge Seconds Wraps(63), "How long the last transaction took from its first row to its commit.", "counted by the daemon";
    924 COMMIT_FAILURES "commit_failures" Counter Count Wraps(63), "Transactions that failed and were tried again: database away, restarted or full.", "counted by the daemon";
    925 CONNECTED_SENDERS "connected_senders" Gauge Count Wraps(63), "Agents and crawlers now connected to the collector.", "counted by the daemon";
    926 REFUSED_ENTRIES "refused_entries" Counter Count Wraps(63), "Entries or streams refused because they broke the protocol.", "counted by the daemon";
    927 DATABASE_BYTES "database_bytes" Gauge Bytes Wraps(63), "Size of the database on disk.", "asked from PostgreSQL";
    928 DATABASE_CHUNKS "database_chunks" Gauge Count Wraps(63), "Chunks of all hypertables.", "asked from TimescaleDB";
    929 DROPPED_CHUNKS "dropped_chunks" Counter Count Wraps(63), "Chunks removed because all their rows were older than their table's retention.", "counted by the daemon";
    930 CLOCK_ERROR_SECONDS "clock_error_seconds" Gauge Seconds Wraps(63), "Estimated error of this node's clock.", "told with each batch";
    931 ROUND_COMMIT_SECONDS "round_commit_seconds" Gauge Seconds Wraps(63), "From the first reading of this part's last delivered round to the acknowledged commit of its rows.", "counted by the daemon";
    932 MADS_RECEIVED "mads_received" Counter Count Wraps(63), "Management datagrams received.", "counted by the daemon";
    933 MAD_WIRE_BYTES "mad_wire_bytes" Counter Bytes Wraps(63), "Bytes of management datagrams on the link of the local port, both directions, 290 each with headers; each further hop carries them again.", "counted by the daemon";
    934 UNEXPECTED_MADS "unexpected_mads" Counter Count Wraps(63), "Replies to nothing outstanding: late or duplicate.", "counted by the daemon";
    935 SILENT_NODES "silent_nodes" Gauge Count Wraps(63), "Nodes that answered nothing when this part last asked, and are only probed.", "counted by the daemon";
    936 MAD_BUDGET_WAITS "mad_budget_waits" Counter Count Wraps(63), "Times that sending waited for the limit of management datagrams a second, or gave way to the subnet manager.", "counted by the daemon";
    937 REPORTED_TRAPS "reported_traps" Counter Count Wraps(63), "Traps that the subnet manager reported to this crawler.", "counted by the daemon";
    938 SM_CHANGES "sm_changes" Counter Count Wraps(63), "Times that another subnet manager was master, that it began anew, or that it did not answer.", "counted by the daemon";
    939 SM_UP "sm_up" Gauge Count Wraps(63), "1 while the subnet manager answers, 0 while it does not.", "asked from the subnet administrator";
    940 GIVEN_WAY_SECONDS "given_way_seconds" Counter Seconds Wraps(63), "Time for which a look at the topology waited because the subnet manager swept hard.", "counted by the daemon";
    941 TOPOLOGY_FROM_SA "topology_from_sa" Gauge Count Wraps(63), "1 while the topology is told by the subnet administrator because the nodes do not answer, 0 while the nodes tell it.", "counted by the daemon";
    947 DISCOVERY_REQUESTS "discovery_requests" Counter Count Wraps(63), "Looks at the fabric's topology that were asked for before their time; the reason stands in the place of the source.", "counted by the daemon";
    948 TOPOLOGY_EVENTS "topology_events" Counter Count Wraps(63), "Changes of the fabric's topology that were told; the kind of event stands in the place of the source.", "counted by the daemon";
    949 WALK_MADS "walk_mads" Gauge Count Wraps(63), "Management datagrams that the last look at the topology took: light, or whole with forwarding tables.", "counted by the daemon";
    950 LIGHT_WALKS "light_walks" Counter Count Wraps(63), "Looks at what can have changed of the topology, between whole walks.", "counted by the daemon";
    951 UNANSWERED_NODES "unanswered_nodes" Gauge Count Wraps(63), "Nodes of the fabric that are linked and do not answer, and nodes that can only be reached through such.", "counted by the daemon";
    942 LEFT_OUT_RECORDS "left_out_records" Counter Count Wraps(63), "Readings of this part that became no row because nothing had changed.", "counted by the daemon";
    943 UNSUPPORTED_COUNTERS "unsupported_counters" Counter Count Wraps(63), "Optional sets of counters that a node turned out not to have.", "counted by the daemon";
    944 CLEARED_COUNTERS "cleared_counters" Counter Count Wraps(63), "Times that a port's counters were cleared by somebody or its device was reset.", "counted by the daemon";
    945 REDIRECTIONS "redirections" Counter Count Wraps(63), "Agents that sent this part's requests elsewhere.", "counted by the daemon";
    946 STATE_FAILURES "state_failures" Counter Count Wraps(63), "Failed reads and writes of what this part remembers over restarts.", "counted by the daemon";
    954 LAST_ROUND_TIMESTAMP_SECONDS "last_round_timestamp_seconds" Gauge Seconds Wraps(63), "When the last round of this part that read anything ended, in seconds since 1970: what is served is as old.", "counted by the daemon";
    955 RENDERED_PAGES "rendered_pages" Counter Count Wraps(63), "Pages made of a sweep; scrapes of the same sweep share one.", "counted by the daemon";
    956 REFUSED_SCRAPES "refused_scrapes" Counter Count Wraps(63), "Scrapes whose query could not be answered.", "counted by the daemon";
    957 CRAWLER_ACTIVE "crawler_active" Gauge Count Wraps(63), "1 while this crawler sweeps, 0 while it stands by for another one of its subnet.", "told by the collector";
    958 FENCED_ENTRIES "fenced_entries" Counter Count Wraps(63), "Entries of a crawler left out because another one had the term of their subnet.", "counted by the daemon";
    970 RUNNING_JOBS "running_jobs" Gauge Count Wraps(63), "Jobs of which a rank runs on this node.", "counted by the daemon";
    971 REFUSED_CONNECTIONS "refused_connections" Counter Count Wraps(63), "Connections of MPI ranks that were refused or closed by the agent; the reason stands in the place of the source.", "counted by the daemon";
    972 UNKNOWN_RANK_GPUS "unknown_rank_gpus" Counter Count Wraps(63), "Ranks of which it is not known which GPUs they used; the reason stands in the place of the source.", "counted by the daemon";
    973 UNKNOWN_RANK_PORTS "unknown_rank_ports" Counter Count Wraps(63), "Ranks of which it is not known which adapter ports they used; the reason stands in the place of the source.", "counted by the daemon";
    974 EXTRA_SAMPLES "extra_samples" Counter Count Wraps(63), "Readings of this part that were made because a job began or ended here.", "counted by the daemon";
    975 SILENT_RANKS "silent_ranks" Counter Count Wraps(63), "Ranks that were taken for ended because their node reported nothing any more.", "counted by the daemon";
    976 RECLAIMED_RANKS "reclaimed_ranks" Counter Count Wraps(63), "Ranks known from before this agent's start that still ran.", "counted by the daemon";
    977 UNSEEN_ENDS "unseen_ends" Counter Count Wraps(63), "Ranks that ended while no agent ran here.", "counted by the daemon";
    980 MINUTES_MADE "rollups_made" Counter Count Wraps(63), "Minutes of time for which rows of one minute were made of readings.", "counted by the daemon";
    981 LATE_READINGS "late_readings" Counter Count Wraps(63), "Notes of readings that came after their minutes were made, and for which those were made again.", "counted by the daemon";
    982 MINUTES_LAG_SECONDS "rollup_lag_seconds" Gauge Seconds Wraps(63), "How long ago the last minute ended for which rows were made; some three minutes unless there is much to make up for.", "asked from the database";
    1220 TRUNCATED_DISCOVERIES "truncated_discoveries" Counter Count Wraps(63), "Discoveries that ended at one of their bounds; the bound's key stands in the place of the source.", "counted by the daemon";
    1221 TOPOLOGY_TRUNCATED "topology_truncated" Gauge Count Wraps(63), "1 while the topology in use is that of a discovery that ended at one of its bounds, 0 while it is whole.", "counted by the daemon";
    1222 RETAINED_TOPOLOGIES "retained_topologies" Counter Count Wraps(63), "Discoveries that did not replace the topology in use, because they failed, were truncated or lost most of the fabric at once; the reason stands in the place of the source.", "counted by the daemon";
    1223 REJECTED_REPLIES "rejected_replies" Counter Count Wraps(63), "Replies of the fabric that can't be true or contradict others, and are not believed; the reason stands in the place of the source.", "counted by the daemon";
    1224 DEVICE_REOPENS "device_reopens" Counter Count Wraps(63), "Times that this part opened the crawler's device again after it had ceased to work.", "counted by the daemon";
    983 BLOCKS_MADE "blocks_made" Counter Count Wraps(63), "Hours of one port or GPU whose readings were packed for remote-read; made again where readings came late.", "counted by the daemon";
    1100 OVER_QUOTA_USERS "over_quota_users" Gauge Count Wraps(63), "Users whose MPI ranks are over a quota now: read later or thinned.", "counted by the daemon";
    1101 QUOTA_LIMITED "quota_limited" Counter Count Wraps(63), "Times that a quota of a user or job held MPI ranks up or left something of theirs out; the quota stands in the place of the source.", "counted by the daemon";
    1102 WAITING_BYTES "waiting_bytes" Gauge Bytes Wraps(63), "Bytes of records in memory that wait for the next part.", "counted by the daemon";
    1103 CONTESTED_CLAIMS "contested_claims" Counter Count Wraps(63), "MPI ranks whose environment names a job that the kernel says is another user's; they are recorded as no scheduler's job.", "counted by the daemon";
    1140 REJECTED_RECORDS "rejected_records" Counter Count Wraps(63), "Records rejected, with the reason in the place of the source.", "counted by the daemon";
    1120 HTTP_BOUND "http_bound" Gauge Count Wraps(63), "1 while /metrics and /healthz have their address, 0 while another process of this machine holds it: this daemon runs without them.", "counted by the daemon";
}
