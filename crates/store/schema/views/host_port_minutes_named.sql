CREATE OR REPLACE VIEW internal.host_port_minutes_named AS
SELECT m.time, m.host_port_id, n.name AS node_name, k.device, k.port, k.guid, m.seconds,
       m.transmit_bytes_per_second, m.receive_bytes_per_second,
       m.transmit_peak_bytes_per_second, m.receive_peak_bytes_per_second,
       m.rate_bytes_per_second,
       m.transmit_bytes_per_second / nullif(m.rate_bytes_per_second, 0) AS transmit_utilisation,
       m.receive_bytes_per_second / nullif(m.rate_bytes_per_second, 0) AS receive_utilisation,
       m.transmit_busy_ratio, m.receive_busy_ratio, m.epoch,
       greatest(m.transmit_peak_bytes_per_second, m.receive_peak_bytes_per_second) > nullif(m.rate_bytes_per_second, 0)
           AS is_above_speed
FROM internal.host_port_minutes m
JOIN internal.host_port_key k ON k.id = m.host_port_id
JOIN internal.node_key n ON n.id = k.node_id;
COMMENT ON VIEW internal.host_port_minutes_named IS 'host_port_minutes with names, and shares of the link''s own speed. is_above_speed marks a peak above 1, see ib_port_rates.';
