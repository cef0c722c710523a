CREATE OR REPLACE VIEW internal.ib_port_minutes_named AS
SELECT m.time, m.port_id, n.guid, n.port, n.description, n.node_type, n.link_name, m.seconds,
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
JOIN public.ib_port_named n ON n.port_id = m.port_id;
COMMENT ON VIEW internal.ib_port_minutes_named IS
    'ib_port_minutes with the names that ports have now, and shares of the link''s own speed. is_above_speed marks a peak above 1, see ib_port_rates.';
