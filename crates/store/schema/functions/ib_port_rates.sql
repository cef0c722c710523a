CREATE OR REPLACE FUNCTION public.ib_port_rates(since timestamptz, until timestamptz DEFAULT now())
RETURNS TABLE (
    "time" timestamptz, port_id bigint, guid text, port integer, description text, node_type text,
    link_name text, interval_seconds double precision,
    transmit_bytes_per_second double precision, receive_bytes_per_second double precision,
    transmit_packets_per_second double precision, receive_packets_per_second double precision,
    transmit_wait_ticks_per_second double precision,
    rate_bytes_per_second bigint, transmit_utilisation double precision, receive_utilisation double precision,
    transmit_wait_ratio double precision, is_above_speed boolean)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    WITH pairs AS (
        SELECT c.time, c.port_id, c.transmit_data_bytes, c.receive_data_bytes, c.transmit_packets, c.receive_packets,
               c.transmit_wait, c.transmit_wait_tick_bytes, c.rate_bytes_per_second, lag(c.time) OVER w AS time_0,
               lag(c.transmit_data_bytes) OVER w AS transmit_0, lag(c.receive_data_bytes) OVER w AS receive_0,
               lag(c.transmit_packets) OVER w AS transmit_packets_0,
               lag(c.receive_packets) OVER w AS receive_packets_0,
               -- The last one that was read: within an epoch it is the largest.
               max(c.transmit_wait) OVER before AS wait_0,
               max(c.time) FILTER (WHERE c.transmit_wait IS NOT NULL) OVER before AS wait_time_0
        -- The first row in the range has its predecessor before it. No gap is a day: that bound is a constant when the database plans.
        FROM internal.row_gap('ib_port', since, until) b
        CROSS JOIN LATERAL public.ib_port_readings(since - b.gap, until) c
        WHERE c.time > since - b.gap AND c.time > since - INTERVAL '1 day' AND c.time <= until
        -- A row without data (only other counters were read) stands between none that have some.
        WINDOW w AS (PARTITION BY c.port_id, c.epoch, c.transmit_data_bytes IS NULL AND c.receive_data_bytes IS NULL
                     ORDER BY c.time),
               before AS (PARTITION BY c.port_id, c.epoch ORDER BY c.time
                          ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
    ), rates AS (
        SELECT p.time, p.port_id, extract(epoch FROM p.time - p.time_0)::double precision AS seconds,
               extract(epoch FROM p.time - p.wait_time_0)::double precision AS wait_seconds,
               public.counter_increase(transmit_0, transmit_data_bytes) AS transmit,
               public.counter_increase(receive_0, receive_data_bytes) AS receive,
               public.counter_increase(transmit_packets_0, transmit_packets) AS transmit_packets,
               public.counter_increase(receive_packets_0, receive_packets) AS receive_packets,
               CASE WHEN transmit_wait >= wait_0 THEN transmit_wait - wait_0 END AS wait,
               p.transmit_wait_tick_bytes AS tick_bytes, p.rate_bytes_per_second AS own_rate
        FROM pairs p
        JOIN internal.row_rules_of('ib_port', since, until) g ON g.id = p.port_id
        -- Readings farther apart have a time between them in which the port was not read.
        WHERE p.time > since AND p.time - p.time_0 <= make_interval(secs => g.largest_gap_seconds)
          -- One that is there twice is no pair.
          AND p.time > p.time_0
          AND NOT (p.transmit_data_bytes IS NULL AND p.receive_data_bytes IS NULL)
    )
    SELECT r.time, r.port_id, n.guid, n.port, n.description, n.node_type, n.link_name, r.seconds,
           r.transmit / r.seconds, r.receive / r.seconds,
           r.transmit_packets / r.seconds, r.receive_packets / r.seconds, r.wait / r.wait_seconds,
           speed.rate, r.transmit / r.seconds / nullif(speed.rate, 0),
           r.receive / r.seconds / nullif(speed.rate, 0),
           -- A tick is the time in which the link carries so many bytes.
           internal.at_most_one(r.wait / r.wait_seconds * r.tick_bytes / nullif(speed.rate, 0)),
           greatest(r.transmit, r.receive) / r.seconds > speed.rate
    FROM rates r
    JOIN public.ib_port_named n ON n.port_id = r.port_id
    CROSS JOIN LATERAL (SELECT nullif(coalesce(r.own_rate, n.rate_bytes_per_second), 0) AS rate) speed;
END;
COMMENT ON FUNCTION public.ib_port_rates IS
    'Rates and utilisation (share of the link''s own speed) of every fabric port between each two readings of one '
    'epoch in a time range. A row stands for interval_seconds before its time: weigh by it when averaging. '
    'transmit_wait_ratio is the share of the time in which data could not be sent, where the device reports its tick. '
    'Where is_above_speed, more was counted between two readings than the link can carry, because counters were not read '
    'exactly at their times: the rate and the utilisation, above 1, are too high, and those of a neighbouring row too low. '
    'ib_port_rates(now() - interval ''1 minute'') for the present.';
