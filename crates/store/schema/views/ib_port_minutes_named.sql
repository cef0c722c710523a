CREATE OR REPLACE VIEW internal.ib_port_minutes_named AS
SELECT m.time, m.port_id, nk.guid, k.port, d.description, coalesce(n.type, l.type) AS node_type,
       d.description || '[' || k.port || ']' || coalesce(' > ' || coalesce(nullif(rn.description, ''), rnk.guid) || '[' || rk.port || ']', '')
           AS link_name,
       m.seconds,
       m.transmit_bytes_per_second, m.receive_bytes_per_second,
       m.transmit_peak_bytes_per_second, m.receive_peak_bytes_per_second,
       m.rate_bytes_per_second,
       m.transmit_bytes_per_second / nullif(m.rate_bytes_per_second, 0) AS transmit_utilisation,
       m.receive_bytes_per_second / nullif(m.rate_bytes_per_second, 0) AS receive_utilisation,
       m.transmit_peak_bytes_per_second / nullif(m.rate_bytes_per_second, 0) AS transmit_peak_utilisation,
       m.receive_peak_bytes_per_second / nullif(m.rate_bytes_per_second, 0) AS receive_peak_utilisation,
       m.transmit_busy_ratio, m.receive_busy_ratio,
       internal.at_most_one(m.transmit_wait_bytes_per_second / nullif(m.rate_bytes_per_second, 0)) AS transmit_wait_ratio,
       m.errors, m.epoch,
       greatest(m.transmit_peak_bytes_per_second, m.receive_peak_bytes_per_second) > nullif(m.rate_bytes_per_second, 0)
           AS is_above_speed
FROM internal.ib_port_minutes m
JOIN internal.ib_port_key k ON k.id = m.port_id
JOIN internal.ib_node_key nk ON nk.id = k.ib_node_id
LEFT JOIN internal.ib_node n ON n.ib_node_id = nk.id AND n.valid_from <= m.time AND (n.valid_to IS NULL OR n.valid_to > m.time)
LEFT JOIN internal.ib_port p ON p.port_id = k.id AND p.valid_from <= m.time AND (p.valid_to IS NULL OR p.valid_to > m.time)
LEFT JOIN internal.ib_port_key rk ON rk.id = p.remote_port_id
LEFT JOIN internal.ib_node_key rnk ON rnk.id = rk.ib_node_id
LEFT JOIN internal.ib_node rn ON rn.ib_node_id = rnk.id AND rn.valid_from <= m.time AND (rn.valid_to IS NULL OR rn.valid_to > m.time)
-- Counters are read a moment before a node is discovered, and after it was found gone.
LEFT JOIN LATERAL (
    SELECT o.type, o.description FROM internal.ib_node o
    WHERE n.ib_node_id IS NULL AND o.ib_node_id = nk.id
    ORDER BY o.valid_from > m.time, abs(extract(epoch FROM o.valid_from - m.time)) LIMIT 1) l ON true
CROSS JOIN LATERAL (SELECT coalesce(nullif(coalesce(n.description, l.description), ''), nk.guid) AS description) d;
COMMENT ON VIEW internal.ib_port_minutes_named IS
    'ib_port_minutes with the names that ports and the other ends of their cables had then, and shares of the link''s own speed. is_above_speed marks a peak above 1, see ib_port_rates.';
