-- What people and dashboards read. Immutable once released: later changes are new files.

-- Increase between two stored readings of one epoch. Stored counters are 63 bits wide and start again at 0.
CREATE FUNCTION counter_increase(before bigint, after bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN CASE WHEN after >= before THEN after - before
            ELSE (after - before) + 9223372036854775807 + 1 END;
COMMENT ON FUNCTION counter_increase IS 'Increase of a counter between two readings of one epoch, modulo 2^63.';

-- Increase per second; NULL where it cannot be told.
CREATE FUNCTION counter_rate(before bigint, after bigint, interval_seconds double precision)
RETURNS double precision
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN counter_increase(before, after) / nullif(interval_seconds, 0);

CREATE VIEW ib_port_named AS
SELECT k.id AS port_id, s.prefix AS subnet_prefix, nk.id AS ib_node_id, nk.guid, k.port,
       n.type AS node_type, coalesce(nullif(n.description, ''), nk.guid) AS description,
       p.lid, p.state, p.width, p.speed, p.rate_bytes_per_second, p.remote_port_id,
       rnk.guid AS remote_guid, rk.port AS remote_port, rn.type AS remote_type,
       coalesce(nullif(rn.description, ''), rnk.guid) AS remote_description,
       coalesce(nullif(n.description, ''), nk.guid) || '[' || k.port || ']'
           || coalesce(' > ' || coalesce(nullif(rn.description, ''), rnk.guid) || '[' || rk.port || ']', '')
           AS link_name
FROM ib_port_key k
JOIN ib_node_key nk ON nk.id = k.ib_node_id
JOIN subnet s ON s.id = nk.subnet_id
LEFT JOIN ib_node n ON n.ib_node_id = nk.id AND n.valid_to IS NULL
LEFT JOIN ib_port p ON p.port_id = k.id AND p.valid_to IS NULL
LEFT JOIN ib_port_key rk ON rk.id = p.remote_port_id
LEFT JOIN ib_node_key rnk ON rnk.id = rk.ib_node_id
LEFT JOIN ib_node rn ON rn.ib_node_id = rnk.id AND rn.valid_to IS NULL;
COMMENT ON VIEW ib_port_named IS 'Fabric ports with what is known of them now, and the name of the link that leaves them.';

CREATE VIEW ib_link_named AS
SELECT l.port_a_id, l.port_b_id, a.link_name AS name, a.subnet_prefix,
       a.guid AS guid_a, a.port AS port_a, a.description AS description_a, a.node_type AS type_a,
       b.guid AS guid_b, b.port AS port_b, b.description AS description_b, b.node_type AS type_b,
       a.width, a.speed, a.rate_bytes_per_second, l.valid_from
FROM ib_link l
JOIN ib_port_named a ON a.port_id = l.port_a_id
JOIN ib_port_named b ON b.port_id = l.port_b_id
WHERE l.valid_to IS NULL;
COMMENT ON VIEW ib_link_named IS 'Cables as they are now, with names of both ends.';

CREATE FUNCTION ib_port_rates(since timestamptz, until timestamptz DEFAULT now())
RETURNS TABLE (
    "time" timestamptz, port_id integer, guid text, port integer, description text, node_type text,
    link_name text, interval_seconds double precision,
    transmit_bytes_per_second double precision, receive_bytes_per_second double precision,
    transmit_packets_per_second double precision, receive_packets_per_second double precision,
    transmit_wait_ticks_per_second double precision,
    rate_bytes_per_second bigint, transmit_utilisation double precision, receive_utilisation double precision)
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    WITH pairs AS (
        SELECT c.*, lag(c.time) OVER w AS time_0,
               lag(c.transmit_data_bytes) OVER w AS transmit_0, lag(c.receive_data_bytes) OVER w AS receive_0,
               lag(c.transmit_packets) OVER w AS transmit_packets_0,
               lag(c.receive_packets) OVER w AS receive_packets_0,
               lag(c.transmit_wait) OVER w AS wait_0
        FROM ib_port_counters c
        WHERE c.time > since AND c.time <= until
        WINDOW w AS (PARTITION BY c.port_id, c.epoch ORDER BY c.time)
    ), rates AS (
        SELECT p.time, p.port_id, extract(epoch FROM p.time - p.time_0)::double precision AS seconds,
               counter_increase(transmit_0, transmit_data_bytes) AS transmit,
               counter_increase(receive_0, receive_data_bytes) AS receive,
               counter_increase(transmit_packets_0, transmit_packets) AS transmit_packets,
               counter_increase(receive_packets_0, receive_packets) AS receive_packets,
               CASE WHEN transmit_wait >= wait_0 THEN transmit_wait - wait_0 END AS wait,
               p.rate_bytes_per_second AS own_rate
        FROM pairs p WHERE p.time_0 IS NOT NULL
    )
    SELECT r.time, r.port_id, n.guid, n.port, n.description, n.node_type, n.link_name, r.seconds,
           r.transmit / r.seconds, r.receive / r.seconds,
           r.transmit_packets / r.seconds, r.receive_packets / r.seconds, r.wait / r.seconds,
           speed.rate, r.transmit / r.seconds / nullif(speed.rate, 0), r.receive / r.seconds / nullif(speed.rate, 0)
    FROM rates r
    JOIN ib_port_named n ON n.port_id = r.port_id
    CROSS JOIN LATERAL (SELECT coalesce(r.own_rate, n.rate_bytes_per_second) AS rate) speed
$$;
COMMENT ON FUNCTION ib_port_rates IS
    'Rates and utilisation (share of the link''s own speed) of every fabric port between each two readings of one '
    'epoch in a time range. ib_port_rates(now() - interval ''1 minute'') for the present.';

CREATE FUNCTION host_port_rates(since timestamptz, until timestamptz DEFAULT now())
RETURNS TABLE (
    "time" timestamptz, host_port_id integer, node_name text, device text, port integer, guid text,
    interval_seconds double precision,
    transmit_bytes_per_second double precision, receive_bytes_per_second double precision,
    rate_bytes_per_second bigint, transmit_utilisation double precision, receive_utilisation double precision)
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    WITH pairs AS (
        SELECT c.time, c.host_port_id, c.rate_bytes_per_second AS rate,
               extract(epoch FROM c.time - lag(c.time) OVER w)::double precision AS seconds,
               counter_increase(lag(c.port_data_transmitted_bytes) OVER w, c.port_data_transmitted_bytes) AS transmit,
               counter_increase(lag(c.port_data_received_bytes) OVER w, c.port_data_received_bytes) AS receive
        FROM host_port_counters c
        WHERE c.time > since AND c.time <= until
        WINDOW w AS (PARTITION BY c.host_port_id, c.epoch ORDER BY c.time)
    )
    SELECT p.time, p.host_port_id, n.name, k.device, k.port, k.guid, p.seconds,
           p.transmit / p.seconds, p.receive / p.seconds,
           p.rate, p.transmit / p.seconds / nullif(p.rate, 0), p.receive / p.seconds / nullif(p.rate, 0)
    FROM pairs p
    JOIN host_port_key k ON k.id = p.host_port_id
    JOIN node_key n ON n.id = k.node_id
    WHERE p.seconds IS NOT NULL
$$;
COMMENT ON FUNCTION host_port_rates IS 'Rates and utilisation of hosts'' own adapter ports between each two readings of one epoch.';

CREATE VIEW nvlink_link_counters AS
SELECT c.time, c.gpu_id, g.uuid AS gpu, (u.position - 1)::integer AS link, c.epoch, c.source,
       u.transmit_bytes, u.receive_bytes, u.replay_errors, u.recovery_errors, u.crc_errors,
       u.speed_bytes_per_second, u.up
FROM nvlink_counters c
JOIN gpu_key g ON g.id = c.gpu_id
CROSS JOIN LATERAL unnest(
    c.transmit_bytes, c.receive_bytes, c.replay_errors, c.recovery_errors, c.crc_errors,
    c.speed_bytes_per_second, c.up)
    WITH ORDINALITY AS u(transmit_bytes, receive_bytes, replay_errors, recovery_errors, crc_errors,
                         speed_bytes_per_second, up, position)
WHERE num_nonnulls(u.transmit_bytes, u.receive_bytes, u.replay_errors, u.recovery_errors, u.crc_errors,
                   u.speed_bytes_per_second, u.up) > 0;
COMMENT ON VIEW nvlink_link_counters IS 'NVLink counters, one row per link that was read.';

CREATE FUNCTION nvlink_rates(since timestamptz, until timestamptz DEFAULT now())
RETURNS TABLE (
    "time" timestamptz, gpu_id integer, gpu text, node_name text, gpu_index integer, link integer, source text,
    link_name text, interval_seconds double precision,
    transmit_bytes_per_second double precision, receive_bytes_per_second double precision,
    speed_bytes_per_second bigint, transmit_utilisation double precision, receive_utilisation double precision)
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    WITH pairs AS (
        SELECT c.time, c.gpu_id, c.gpu, c.link, c.source, c.speed_bytes_per_second AS speed,
               extract(epoch FROM c.time - lag(c.time) OVER w)::double precision AS seconds,
               counter_increase(lag(c.transmit_bytes) OVER w, c.transmit_bytes) AS transmit,
               counter_increase(lag(c.receive_bytes) OVER w, c.receive_bytes) AS receive
        FROM nvlink_link_counters c
        WHERE c.time > since AND c.time <= until
        WINDOW w AS (PARTITION BY c.gpu_id, c.link, c.source, c.epoch ORDER BY c.time)
    )
    SELECT p.time, p.gpu_id, p.gpu, n.name, g.index, p.link, p.source,
           coalesce(n.name, '?') || ' GPU ' || coalesce(g.index::text, p.gpu) || ' link ' || p.link, p.seconds,
           p.transmit / p.seconds, p.receive / p.seconds, s.speed,
           p.transmit / p.seconds / nullif(s.speed, 0), p.receive / p.seconds / nullif(s.speed, 0)
    FROM pairs p
    LEFT JOIN gpu g ON g.gpu_id = p.gpu_id AND g.valid_to IS NULL
    LEFT JOIN node_key n ON n.id = g.node_id
    LEFT JOIN gpu_link l ON l.gpu_id = p.gpu_id AND l.link = p.link AND l.valid_to IS NULL
    CROSS JOIN LATERAL (SELECT coalesce(p.speed, l.speed_bytes_per_second) AS speed) s
    WHERE p.seconds IS NOT NULL
$$;
COMMENT ON FUNCTION nvlink_rates IS 'Rates and utilisation of each NVLink between each two readings of one epoch.';

CREATE VIEW mpi_op_totals AS
SELECT j.key AS job_key, t.job_id, t.rank, t.operation,
       sum(t.calls)::bigint AS calls, sum(t.bytes)::bigint AS bytes,
       sum(t.elapsed_seconds) AS elapsed_seconds, max(t.longest_seconds) AS longest_seconds,
       max(t.last_time) AS last_time
FROM (
    SELECT job_id, rank, operation, size_class_bytes, epoch, max(calls) AS calls, max(bytes) AS bytes,
           max(elapsed_seconds) AS elapsed_seconds, max(longest_seconds) AS longest_seconds,
           max(time) AS last_time
    FROM mpi_ops GROUP BY job_id, rank, operation, size_class_bytes, epoch
) t
JOIN job j ON j.id = t.job_id
GROUP BY j.key, t.job_id, t.rank, t.operation;
COMMENT ON VIEW mpi_op_totals IS 'Each rank''s operations so far: calls, bytes, time.';

CREATE VIEW mpi_peer_totals AS
SELECT j.key AS job_key, t.job_id, t.rank, t.peer, t.kind,
       sum(t.bytes)::bigint AS bytes, sum(t.messages)::bigint AS messages, max(t.last_time) AS last_time
FROM (
    SELECT job_id, rank, peer, kind, epoch, max(bytes) AS bytes, max(messages) AS messages, max(time) AS last_time
    FROM mpi_peers GROUP BY job_id, rank, peer, kind, epoch
) t
JOIN job j ON j.id = t.job_id
GROUP BY j.key, t.job_id, t.rank, t.peer, t.kind;
COMMENT ON VIEW mpi_peer_totals IS 'Bytes and messages from each rank to each other so far.';

-- The schema of INAM's paper (figure 4), from our tables.

CREATE VIEW intra_node_topo AS
SELECT row_number() OVER (ORDER BY n.name, g.index, r.index NULLS LAST) AS id,
       n.name AS node_name, count(*) AS physical_link_count,
       sum(l.speed_bytes_per_second)::bigint AS link_capacity,
       g.name || ' ' || g.index AS source, g.index AS source_id,
       coalesce(r.name || ' ' || r.index, l.remote_type) AS destination, r.index AS destination_id
FROM gpu_link l
JOIN gpu g ON g.gpu_id = l.gpu_id AND g.valid_to IS NULL
LEFT JOIN node_key n ON n.id = g.node_id
LEFT JOIN gpu r ON r.gpu_id = l.remote_gpu_id AND r.valid_to IS NULL
WHERE l.valid_to IS NULL AND l.active
GROUP BY n.name, g.name, g.index, r.name, r.index, l.remote_type;
COMMENT ON VIEW intra_node_topo IS 'INAM, figure 4: which GPUs are connected by how many NVLinks; capacity in bytes per second, one direction.';

CREATE VIEW nvlink_metrics AS
SELECT row_number() OVER (ORDER BY c.time, c.gpu_id, c.link) AS id, c.link AS link_id, n.name AS node_name,
       g.name || ' ' || g.index AS source_name, c.link AS source_port, g.index AS source_id,
       coalesce(r.name || ' ' || r.index, l.remote_type) AS dest_name, l.remote_link AS dest_port,
       r.index AS dest_id, c.time AS added_on,
       c.transmit_bytes AS data_sent, c.receive_bytes AS data_recv,
       counter_rate(lag(c.transmit_bytes) OVER w, c.transmit_bytes,
                    extract(epoch FROM c.time - lag(c.time) OVER w)::double precision) AS data_sent_rate,
       counter_rate(lag(c.receive_bytes) OVER w, c.receive_bytes,
                    extract(epoch FROM c.time - lag(c.time) OVER w)::double precision) AS data_recv_rate
FROM nvlink_link_counters c
LEFT JOIN gpu g ON g.gpu_id = c.gpu_id AND g.valid_to IS NULL
LEFT JOIN node_key n ON n.id = g.node_id
LEFT JOIN gpu_link l ON l.gpu_id = c.gpu_id AND l.link = c.link AND l.valid_to IS NULL
LEFT JOIN gpu r ON r.gpu_id = l.remote_gpu_id AND r.valid_to IS NULL
WINDOW w AS (PARTITION BY c.gpu_id, c.link, c.source, c.epoch ORDER BY c.time);
COMMENT ON VIEW nvlink_metrics IS 'INAM, figure 4: data sent and received on each physical NVLink, in bytes and bytes per second.';

CREATE VIEW pvar_table AS
WITH local AS (
    SELECT job_id, rank, node_id,
           row_number() OVER (PARTITION BY job_id, node_id ORDER BY rank) - 1 AS local_rank
    FROM (SELECT DISTINCT ON (job_id, rank) job_id, rank, node_id
          FROM job_rank ORDER BY job_id, rank, start_time DESC) newest
), sent AS (
    SELECT p.*,
           counter_rate(lag(p.bytes) OVER w, p.bytes,
                        extract(epoch FROM p.time - lag(p.time) OVER w)::double precision) AS rate
    FROM mpi_peers p
    WINDOW w AS (PARTITION BY p.job_id, p.rank, p.peer, p.kind, p.epoch ORDER BY p.time)
)
SELECT row_number() OVER (ORDER BY s.time, s.job_id, s.rank, s.peer) AS id, j.key AS job_key,
       n.name AS node_name,
       s.rank AS source_global_rank, d.local_rank AS dest_local_rank, s.peer AS dest_global_rank,
       'bytes'::text AS data_unit, back.bytes AS data_recv, s.bytes AS data_sent,
       back.rate AS data_recv_rate, s.rate AS data_sent_rate,
       'unknown'::text AS algorithm, o.local_rank AS source_rank, d.local_rank AS dest_rank,
       s.time AS added_on, s.kind
FROM sent s
JOIN job j ON j.id = s.job_id
LEFT JOIN local o ON o.job_id = s.job_id AND o.rank = s.rank
LEFT JOIN local d ON d.job_id = s.job_id AND d.rank = s.peer
LEFT JOIN node_key n ON n.id = o.node_id
LEFT JOIN sent back ON back.job_id = s.job_id AND back.rank = s.peer AND back.peer = s.rank
    AND back.kind = s.kind AND back.time = s.time;
COMMENT ON VIEW pvar_table IS
    'INAM, figure 4: traffic between ranks. data_recv is what the other rank reported sent in the same bin; '
    'algorithm is unknown unless it was observed.';

CREATE VIEW source_coverage AS
SELECT DISTINCT ON (source, instance) source, instance, time, expected, read, failed, elapsed_seconds, reasons
FROM coverage
WHERE time > now() - INTERVAL '1 day'
ORDER BY source, instance, time DESC;
COMMENT ON VIEW source_coverage IS 'The newest round of each source within the last day.';
