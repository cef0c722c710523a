CREATE OR REPLACE FUNCTION public.host_port_rates(since timestamptz, until timestamptz DEFAULT now())
RETURNS TABLE (
    "time" timestamptz, host_port_id bigint, node_name text, device text, port integer, guid text,
    interval_seconds double precision,
    transmit_bytes_per_second double precision, receive_bytes_per_second double precision,
    rate_bytes_per_second bigint, transmit_utilisation double precision, receive_utilisation double precision,
    is_above_speed boolean)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    WITH pairs AS (
        SELECT c.time, c.host_port_id, c.rate_bytes_per_second AS rate,
               nullif(extract(epoch FROM c.time - lag(c.time) OVER w), 0)::double precision AS seconds,
               public.counter_increase(lag(c.port_data_transmitted_bytes) OVER w, c.port_data_transmitted_bytes) AS transmit,
               public.counter_increase(lag(c.port_data_received_bytes) OVER w, c.port_data_received_bytes) AS receive
        -- As in ib_port_rates.
        FROM internal.row_gap('host_port', since, until) b
        CROSS JOIN LATERAL public.host_port_readings(since - b.gap, until) c
        WHERE c.time > since - b.gap AND c.time > since - INTERVAL '1 day' AND c.time <= until
        WINDOW w AS (PARTITION BY c.host_port_id, c.epoch ORDER BY c.time)
    )
    SELECT p.time, p.host_port_id, n.name, k.device, k.port, k.guid, p.seconds,
           p.transmit / p.seconds, p.receive / p.seconds,
           p.rate, p.transmit / p.seconds / nullif(p.rate, 0),
           p.receive / p.seconds / nullif(p.rate, 0),
           greatest(p.transmit, p.receive) / p.seconds > nullif(p.rate, 0)
    FROM pairs p
    JOIN internal.host_port_key k ON k.id = p.host_port_id
    JOIN internal.node_key n ON n.id = k.node_id
    JOIN internal.row_rules_of('host_port', since, until) g ON g.id = p.host_port_id
    -- Readings farther apart have a time between them in which the port was not read.
    WHERE p.time > since AND p.seconds <= g.largest_gap_seconds;
END;
COMMENT ON FUNCTION public.host_port_rates IS
    'Rates and utilisation of hosts'' own adapter ports between each two readings of one epoch. '
    'is_above_speed marks a utilisation above 1, see ib_port_rates.';
