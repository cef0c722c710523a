CREATE OR REPLACE VIEW internal.nvlink_link_counters AS
SELECT c.time, c.gpu_id, g.uuid AS gpu, (u.position - 1)::integer AS link, c.epoch, c.source,
       u.transmit_bytes, u.receive_bytes, u.replay_errors, u.recovery_errors, u.crc_errors,
       u.speed_bytes_per_second, u.up,
       u.malformed_packet_errors, u.buffer_overrun_errors, u.receive_errors, u.remote_errors, u.general_errors,
       u.link_integrity_errors, u.transmit_discards, u.recovery_failures, u.effective_errors, u.symbol_errors,
       u.effective_ber_per_1e18, u.symbol_ber_per_1e18, u.fec_corrected_blocks, u.fec_most_symbols
FROM internal.nvlink_counters c
JOIN internal.gpu_key g ON g.id = c.gpu_id
CROSS JOIN LATERAL unnest(
    c.transmit_bytes, c.receive_bytes, c.replay_errors, c.recovery_errors, c.crc_errors,
    c.speed_bytes_per_second, c.up,
    c.malformed_packet_errors, c.buffer_overrun_errors, c.receive_errors, c.remote_errors, c.general_errors,
    c.link_integrity_errors, c.transmit_discards, c.recovery_failures, c.effective_errors, c.symbol_errors,
    c.effective_ber_per_1e18, c.symbol_ber_per_1e18, c.fec_corrected_blocks, c.fec_most_symbols)
    WITH ORDINALITY AS u(transmit_bytes, receive_bytes, replay_errors, recovery_errors, crc_errors,
                         speed_bytes_per_second, up,
                         malformed_packet_errors, buffer_overrun_errors, receive_errors, remote_errors, general_errors,
                         link_integrity_errors, transmit_discards, recovery_failures, effective_errors, symbol_errors,
                         effective_ber_per_1e18, symbol_ber_per_1e18, fec_corrected_blocks, fec_most_symbols, position)
WHERE num_nonnulls(u.transmit_bytes, u.receive_bytes, u.replay_errors, u.recovery_errors, u.crc_errors,
                   u.speed_bytes_per_second, u.up,
                   u.malformed_packet_errors, u.buffer_overrun_errors, u.receive_errors, u.remote_errors,
                   u.general_errors, u.link_integrity_errors, u.transmit_discards, u.recovery_failures,
                   u.effective_errors, u.symbol_errors, u.effective_ber_per_1e18, u.symbol_ber_per_1e18,
                   u.fec_corrected_blocks, u.fec_most_symbols) > 0;
COMMENT ON VIEW internal.nvlink_link_counters IS 'NVLink counters, one row per link that was read.';
