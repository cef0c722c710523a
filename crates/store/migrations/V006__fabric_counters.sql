-- All counters of the fabric's ports, and rates that stay right where unchanged rows are left out. Immutable once
-- released: later changes are new files.
--
-- A port has a row when it changed, the row of the reading before, and one a minute in any case. A metric that is
-- read more rarely than others is NULL in the rows between.

ALTER TABLE ib_port_counters
    ADD COLUMN transmit_wait_tick_bytes bigint,
    ADD COLUMN local_physical_errors bigint,
    ADD COLUMN malformed_packet_errors bigint,
    ADD COLUMN buffer_overrun_errors bigint,
    ADD COLUMN dlid_mapping_errors bigint,
    ADD COLUMN vl_mapping_errors bigint,
    ADD COLUMN looping_errors bigint,
    ADD COLUMN inactive_discards bigint,
    ADD COLUMN neighbor_mtu_discards bigint,
    ADD COLUMN switch_lifetime_limit_discards bigint,
    ADD COLUMN switch_hoq_lifetime_limit_discards bigint,
    ADD COLUMN transmit_flow_packets bigint,
    ADD COLUMN receive_flow_packets bigint,
    ADD COLUMN operation_receive_packets bigint,
    ADD COLUMN operation_receive_data bigint,
    ADD COLUMN sync_header_errors bigint,
    ADD COLUMN unknown_blocks bigint,
    ADD COLUMN fec_corrected_blocks bigint,
    ADD COLUMN fec_uncorrected_blocks bigint,
    ADD COLUMN fec_corrected_symbols bigint;

CREATE TABLE ib_port_lane_counters (
    time timestamptz NOT NULL,
    port_id integer NOT NULL,
    epoch timestamptz NOT NULL,
    source text NOT NULL,
    sl_transmit_data_bytes bigint[],
    sl_receive_data_bytes bigint[],
    vl_transmit_wait bigint[],
    vl_flow_control_errors bigint[],
    vl_congestion bigint[],
    vl_operation_packets bigint[],
    vl_operation_data bigint[],
    PRIMARY KEY (port_id, time)
);
COMMENT ON TABLE ib_port_lane_counters IS
    'Counters of the fabric''s ports by service level (sl_) and virtual lane (vl_): element 1 of each array is number 0. Only where the crawler is told to read them. See ib_port_lane_values.';
SELECT create_hypertable('ib_port_lane_counters', by_range('time', INTERVAL '1 hour'), create_default_indexes => false);

CREATE VIEW ib_port_lane_values AS
SELECT c.time, c.port_id, c.epoch, c.source, lane.number - 1 AS lane,
       c.sl_transmit_data_bytes[lane.number] AS sl_transmit_data_bytes,
       c.sl_receive_data_bytes[lane.number] AS sl_receive_data_bytes,
       c.vl_transmit_wait[lane.number] AS vl_transmit_wait,
       c.vl_flow_control_errors[lane.number] AS vl_flow_control_errors,
       c.vl_congestion[lane.number] AS vl_congestion,
       c.vl_operation_packets[lane.number] AS vl_operation_packets,
       c.vl_operation_data[lane.number] AS vl_operation_data
FROM ib_port_lane_counters c
CROSS JOIN LATERAL generate_series(1, greatest(
    cardinality(c.sl_transmit_data_bytes), cardinality(c.sl_receive_data_bytes), cardinality(c.vl_transmit_wait),
    cardinality(c.vl_flow_control_errors), cardinality(c.vl_congestion), cardinality(c.vl_operation_packets),
    cardinality(c.vl_operation_data))) AS lane (number);
COMMENT ON VIEW ib_port_lane_values IS 'ib_port_lane_counters with a row for each service level or virtual lane.';

DROP FUNCTION ib_port_rates(timestamptz, timestamptz);

CREATE FUNCTION ib_port_rates(since timestamptz, until timestamptz DEFAULT now())
RETURNS TABLE (
    "time" timestamptz, port_id integer, guid text, port integer, description text, node_type text,
    link_name text, interval_seconds double precision,
    transmit_bytes_per_second double precision, receive_bytes_per_second double precision,
    transmit_packets_per_second double precision, receive_packets_per_second double precision,
    transmit_wait_ticks_per_second double precision,
    rate_bytes_per_second bigint, transmit_utilisation double precision, receive_utilisation double precision,
    transmit_wait_ratio double precision)
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    WITH pairs AS (
        SELECT c.*, lag(c.time) OVER w AS time_0,
               lag(c.transmit_data_bytes) OVER w AS transmit_0, lag(c.receive_data_bytes) OVER w AS receive_0,
               lag(c.transmit_packets) OVER w AS transmit_packets_0,
               lag(c.receive_packets) OVER w AS receive_packets_0,
               -- The last one that was read: within an epoch it is the largest.
               max(c.transmit_wait) OVER before AS wait_0,
               max(c.time) FILTER (WHERE c.transmit_wait IS NOT NULL) OVER before AS wait_time_0
        FROM ib_port_counters c
        -- A port that does not change has a row a minute: the first one in the range has its predecessor up to
        -- a minute and a sweep before.
        WHERE c.time > since - INTERVAL '2 minutes' AND c.time <= until
        -- A row without data (only other counters were read) stands between none that have some.
        WINDOW w AS (PARTITION BY c.port_id, c.epoch, c.transmit_data_bytes IS NULL AND c.receive_data_bytes IS NULL
                     ORDER BY c.time),
               before AS (PARTITION BY c.port_id, c.epoch ORDER BY c.time
                          ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
    ), rates AS (
        SELECT p.time, p.port_id, extract(epoch FROM p.time - p.time_0)::double precision AS seconds,
               extract(epoch FROM p.time - p.wait_time_0)::double precision AS wait_seconds,
               counter_increase(transmit_0, transmit_data_bytes) AS transmit,
               counter_increase(receive_0, receive_data_bytes) AS receive,
               counter_increase(transmit_packets_0, transmit_packets) AS transmit_packets,
               counter_increase(receive_packets_0, receive_packets) AS receive_packets,
               CASE WHEN transmit_wait >= wait_0 THEN transmit_wait - wait_0 END AS wait,
               p.transmit_wait_tick_bytes AS tick_bytes, p.rate_bytes_per_second AS own_rate
        FROM pairs p
        WHERE p.time > since AND p.time_0 IS NOT NULL
          AND NOT (p.transmit_data_bytes IS NULL AND p.receive_data_bytes IS NULL)
    )
    SELECT r.time, r.port_id, n.guid, n.port, n.description, n.node_type, n.link_name, r.seconds,
           r.transmit / r.seconds, r.receive / r.seconds,
           r.transmit_packets / r.seconds, r.receive_packets / r.seconds, r.wait / r.wait_seconds,
           speed.rate, r.transmit / r.seconds / nullif(speed.rate, 0), r.receive / r.seconds / nullif(speed.rate, 0),
           -- A tick is the time in which the link carries so many bytes.
           least(r.wait / r.wait_seconds * r.tick_bytes / nullif(speed.rate, 0), 1)
    FROM rates r
    JOIN ib_port_named n ON n.port_id = r.port_id
    CROSS JOIN LATERAL (SELECT coalesce(r.own_rate, n.rate_bytes_per_second) AS rate) speed
$$;
COMMENT ON FUNCTION ib_port_rates IS
    'Rates and utilisation (share of the link''s own speed) of every fabric port between each two readings of one '
    'epoch in a time range. A row stands for interval_seconds before its time: weigh by it when averaging. '
    'transmit_wait_ratio is the share of the time in which data could not be sent, where the device tells its tick. '
    'ib_port_rates(now() - interval ''1 minute'') for the present.';
