-- GPUs as parts of others, their place on the node, and the health of their links. Immutable once released: later
-- changes are new files.

ALTER TABLE gpu ADD COLUMN parent_gpu_id integer REFERENCES gpu_key, ADD COLUMN numa_node integer,
    ADD COLUMN nearest_hcas text[];
COMMENT ON COLUMN gpu.parent_gpu_id IS 'The GPU that this is a partition of (MIG); NULL for a GPU.';
COMMENT ON COLUMN gpu.numa_node IS 'Its NUMA node by sysfs; NULL where that does not tell.';
COMMENT ON COLUMN gpu.nearest_hcas IS
    'InfiniBand adapters with the shortest way to it over PCIe; NULL where the node has none or that is not known.';

-- One poll of ten fills these; NULL in all other rows, and on links before NVLink 5.
ALTER TABLE nvlink_counters
    ADD COLUMN malformed_packet_errors bigint[],
    ADD COLUMN buffer_overrun_errors bigint[],
    ADD COLUMN receive_errors bigint[],
    ADD COLUMN remote_errors bigint[],
    ADD COLUMN general_errors bigint[],
    ADD COLUMN link_integrity_errors bigint[],
    ADD COLUMN transmit_discards bigint[],
    ADD COLUMN recovery_failures bigint[],
    ADD COLUMN effective_errors bigint[],
    ADD COLUMN symbol_errors bigint[],
    ADD COLUMN effective_ber_per_1e18 bigint[],
    ADD COLUMN symbol_ber_per_1e18 bigint[],
    ADD COLUMN fec_corrected_blocks bigint[],
    ADD COLUMN fec_most_symbols bigint[];

CREATE OR REPLACE VIEW nvlink_link_counters AS
SELECT c.time, c.gpu_id, g.uuid AS gpu, (u.position - 1)::integer AS link, c.epoch, c.source,
       u.transmit_bytes, u.receive_bytes, u.replay_errors, u.recovery_errors, u.crc_errors,
       u.speed_bytes_per_second, u.up,
       u.malformed_packet_errors, u.buffer_overrun_errors, u.receive_errors, u.remote_errors, u.general_errors,
       u.link_integrity_errors, u.transmit_discards, u.recovery_failures, u.effective_errors, u.symbol_errors,
       u.effective_ber_per_1e18, u.symbol_ber_per_1e18, u.fec_corrected_blocks, u.fec_most_symbols
FROM nvlink_counters c
JOIN gpu_key g ON g.id = c.gpu_id
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
