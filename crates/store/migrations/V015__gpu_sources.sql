-- One source for each link of a GPU where several libraries read it, and rates of PCIe and of the performance monitors.
-- Immutable once released: later changes are new files.

CREATE FUNCTION gpu_source_rank(source text) RETURNS integer
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN coalesce(array_position(ARRAY['nvml', 'nvml_gpm', 'amd_smi', 'level_zero', 'dcgm', 'cupti'], source), 7);
COMMENT ON FUNCTION gpu_source_rank IS
    'Which source of a GPU''s counters is believed where there are several: the one with the lowest number.';

CREATE OR REPLACE FUNCTION nvlink_rates(since timestamptz, until timestamptz DEFAULT now())
RETURNS TABLE (
    "time" timestamptz, gpu_id integer, gpu text, node_name text, gpu_index integer, link integer, source text,
    link_name text, interval_seconds double precision,
    transmit_bytes_per_second double precision, receive_bytes_per_second double precision,
    speed_bytes_per_second bigint, transmit_utilisation double precision, receive_utilisation double precision)
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    WITH readings AS (
        -- Bytes decide: a source that knows the state of a link and not its bytes leaves it to one that does.
        SELECT c.time, c.gpu_id, c.gpu, c.link, c.source, c.epoch, c.speed_bytes_per_second, c.transmit_bytes,
               c.receive_bytes, gpu_source_rank(c.source) AS rank,
               min(gpu_source_rank(c.source)) FILTER (WHERE c.transmit_bytes IS NOT NULL OR c.receive_bytes IS NOT NULL)
                   OVER l AS counts,
               min(gpu_source_rank(c.source)) OVER l AS tells
        FROM nvlink_link_counters c
        WHERE c.time > since AND c.time <= until
        WINDOW l AS (PARTITION BY c.gpu_id, c.link)
    ), pairs AS (
        SELECT c.time, c.gpu_id, c.gpu, c.link, c.source, c.speed_bytes_per_second AS speed,
               extract(epoch FROM c.time - lag(c.time) OVER w)::double precision AS seconds,
               counter_increase(lag(c.transmit_bytes) OVER w, c.transmit_bytes) AS transmit,
               counter_increase(lag(c.receive_bytes) OVER w, c.receive_bytes) AS receive
        FROM readings c
        WHERE c.rank = coalesce(c.counts, c.tells)
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
COMMENT ON FUNCTION nvlink_rates IS
    'Rates and utilisation of each NVLink between each two readings of one epoch, by one source: of those that counted '
    'its bytes in the range the first by gpu_source_rank.';

CREATE FUNCTION gpu_pcie_rates(since timestamptz, until timestamptz DEFAULT now())
RETURNS TABLE (
    "time" timestamptz, gpu_id integer, gpu text, node_name text, gpu_index integer, source text,
    interval_seconds double precision, transmit_bytes_per_second double precision,
    receive_bytes_per_second double precision)
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    WITH readings AS (
        SELECT c.*, gpu_source_rank(c.source) AS rank, min(gpu_source_rank(c.source)) OVER (PARTITION BY c.gpu_id) AS best
        FROM gpu_pcie_counters c
        WHERE c.time > since AND c.time <= until
    ), pairs AS (
        SELECT c.time, c.gpu_id, c.source, extract(epoch FROM c.time - lag(c.time) OVER w)::double precision AS seconds,
               counter_increase(lag(c.transmit_bytes) OVER w, c.transmit_bytes) AS transmit,
               counter_increase(lag(c.receive_bytes) OVER w, c.receive_bytes) AS receive
        FROM readings c
        WHERE c.rank = c.best
        WINDOW w AS (PARTITION BY c.gpu_id, c.source, c.epoch ORDER BY c.time)
    )
    SELECT p.time, p.gpu_id, k.uuid, n.name, g.index, p.source, p.seconds, p.transmit / p.seconds, p.receive / p.seconds
    FROM pairs p
    JOIN gpu_key k ON k.id = p.gpu_id
    LEFT JOIN gpu g ON g.gpu_id = p.gpu_id AND g.valid_to IS NULL
    LEFT JOIN node_key n ON n.id = g.node_id
    WHERE p.seconds IS NOT NULL
$$;
COMMENT ON FUNCTION gpu_pcie_rates IS
    'PCIe rates of each GPU between each two readings of one epoch, by one source: the first by gpu_source_rank in the range.';

CREATE FUNCTION gpu_pm_rates(since timestamptz, until timestamptz DEFAULT now())
RETURNS TABLE (
    "time" timestamptz, gpu_id integer, gpu text, node_name text, gpu_index integer, interval_seconds double precision,
    nvlink_transmit_bytes_per_second double precision, nvlink_receive_bytes_per_second double precision,
    pcie_read_bytes_per_second double precision, pcie_write_bytes_per_second double precision,
    nvlink_transmit_peak_bytes_per_second bigint, nvlink_receive_peak_bytes_per_second bigint,
    pcie_read_peak_bytes_per_second bigint, pcie_write_peak_bytes_per_second bigint,
    samples bigint, void_samples bigint, buffer_overflows bigint)
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    WITH pairs AS (
        SELECT c.*, extract(epoch FROM c.time - lag(c.time) OVER w)::double precision AS seconds,
               counter_increase(lag(c.nvlink_transmit_bytes) OVER w, c.nvlink_transmit_bytes) AS sent,
               counter_increase(lag(c.nvlink_receive_bytes) OVER w, c.nvlink_receive_bytes) AS received,
               counter_increase(lag(c.pcie_read_bytes) OVER w, c.pcie_read_bytes) AS read,
               counter_increase(lag(c.pcie_write_bytes) OVER w, c.pcie_write_bytes) AS written,
               counter_increase(lag(c.samples) OVER w, c.samples) AS taken,
               counter_increase(lag(c.void_samples) OVER w, c.void_samples) AS void,
               counter_increase(lag(c.buffer_overflows) OVER w, c.buffer_overflows) AS overflows
        FROM gpu_pm_counters c
        WHERE c.time > since AND c.time <= until
        WINDOW w AS (PARTITION BY c.gpu_id, c.source, c.epoch ORDER BY c.time)
    )
    SELECT p.time, p.gpu_id, k.uuid, n.name, g.index, p.seconds, p.sent / p.seconds, p.received / p.seconds,
           p.read / p.seconds, p.written / p.seconds,
           p.nvlink_transmit_peak_bytes_per_second, p.nvlink_receive_peak_bytes_per_second,
           p.pcie_read_peak_bytes_per_second, p.pcie_write_peak_bytes_per_second, p.taken, p.void, p.overflows
    FROM pairs p
    JOIN gpu_key k ON k.id = p.gpu_id
    LEFT JOIN gpu g ON g.gpu_id = p.gpu_id AND g.valid_to IS NULL
    LEFT JOIN node_key n ON n.id = g.node_id
    WHERE p.seconds IS NOT NULL
$$;
COMMENT ON FUNCTION gpu_pm_rates IS
    'What GPUs'' performance monitors were sampled for, between each two rows of one epoch: mean rates, the highest rate in '
    'one sample, and how many samples that was made of. NULL for what the chip does not offer.';

-- INAM's view, by one source for each link too.
CREATE OR REPLACE VIEW nvlink_metrics AS
SELECT row_number() OVER (ORDER BY c.time, c.gpu_id, c.link) AS id, c.link AS link_id, n.name AS node_name,
       g.name || ' ' || g.index AS source_name, c.link AS source_port, g.index AS source_id,
       coalesce(r.name || ' ' || r.index, l.remote_type) AS dest_name, l.remote_link AS dest_port,
       r.index AS dest_id, c.time AS added_on,
       c.transmit_bytes AS data_sent, c.receive_bytes AS data_recv,
       counter_rate(lag(c.transmit_bytes) OVER w, c.transmit_bytes,
                    extract(epoch FROM c.time - lag(c.time) OVER w)::double precision) AS data_sent_rate,
       counter_rate(lag(c.receive_bytes) OVER w, c.receive_bytes,
                    extract(epoch FROM c.time - lag(c.time) OVER w)::double precision) AS data_recv_rate
FROM (SELECT a.*,
             min(gpu_source_rank(a.source)) FILTER (WHERE a.transmit_bytes IS NOT NULL OR a.receive_bytes IS NOT NULL)
                 OVER s AS counts,
             min(gpu_source_rank(a.source)) OVER s AS tells
      FROM nvlink_link_counters a
      WINDOW s AS (PARTITION BY a.gpu_id, a.link)) c
LEFT JOIN gpu g ON g.gpu_id = c.gpu_id AND g.valid_to IS NULL
LEFT JOIN node_key n ON n.id = g.node_id
LEFT JOIN gpu_link l ON l.gpu_id = c.gpu_id AND l.link = c.link AND l.valid_to IS NULL
LEFT JOIN gpu r ON r.gpu_id = l.remote_gpu_id AND r.valid_to IS NULL
WHERE gpu_source_rank(c.source) = coalesce(c.counts, c.tells)
WINDOW w AS (PARTITION BY c.gpu_id, c.link, c.source, c.epoch ORDER BY c.time);
COMMENT ON VIEW nvlink_metrics IS
    'INAM, figure 4: data sent and received on each physical NVLink, in bytes and bytes per second, by one source for each link.';
