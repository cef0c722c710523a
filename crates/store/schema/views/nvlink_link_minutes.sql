CREATE OR REPLACE VIEW internal.nvlink_link_minutes AS
SELECT m.time, m.gpu_id, g.uuid AS gpu, (u.position - 1)::integer AS link, m.source, u.seconds,
       u.transmit_bytes_per_second, u.receive_bytes_per_second,
       u.transmit_peak_bytes_per_second, u.receive_peak_bytes_per_second, u.speed_bytes_per_second,
       u.transmit_bytes_per_second / nullif(u.speed_bytes_per_second, 0) AS transmit_utilisation,
       u.receive_bytes_per_second / nullif(u.speed_bytes_per_second, 0) AS receive_utilisation,
       u.transmit_busy_ratio, u.receive_busy_ratio, m.epoch,
       greatest(u.transmit_peak_bytes_per_second, u.receive_peak_bytes_per_second) > nullif(u.speed_bytes_per_second, 0)
           AS is_above_speed
FROM internal.nvlink_minutes m
JOIN internal.gpu_key g ON g.id = m.gpu_id
CROSS JOIN LATERAL unnest(m.seconds, m.transmit_bytes_per_second, m.receive_bytes_per_second,
                          m.transmit_peak_bytes_per_second, m.receive_peak_bytes_per_second,
                          m.transmit_busy_ratio, m.receive_busy_ratio, m.speed_bytes_per_second)
    WITH ORDINALITY AS u (seconds, transmit_bytes_per_second, receive_bytes_per_second,
                          transmit_peak_bytes_per_second, receive_peak_bytes_per_second,
                          transmit_busy_ratio, receive_busy_ratio, speed_bytes_per_second, position)
WHERE u.seconds > 0;
COMMENT ON VIEW internal.nvlink_link_minutes IS
    'nvlink_minutes with a row for each link and source. Where several sources read a link, take one: gpu_source_rank(source).';
