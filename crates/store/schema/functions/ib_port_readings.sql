CREATE OR REPLACE FUNCTION ib_port_readings(since timestamptz, until timestamptz DEFAULT now())
RETURNS TABLE (
    "time" timestamptz, port_id integer, epoch timestamptz, source text, transmit_data_bytes bigint,
    receive_data_bytes bigint, transmit_packets bigint, receive_packets bigint, unicast_transmit_packets bigint,
    unicast_receive_packets bigint, multicast_transmit_packets bigint, multicast_receive_packets bigint,
    transmit_wait bigint, symbol_error bigint, link_error_recovery bigint, link_downed bigint, receive_errors bigint,
    receive_remote_physical_errors bigint, receive_switch_relay_errors bigint, transmit_discards bigint,
    transmit_constraint_errors bigint, receive_constraint_errors bigint, local_link_integrity_errors bigint,
    excessive_buffer_overrun_errors bigint, vl15_dropped bigint, qp1_dropped bigint, rate_bytes_per_second bigint,
    saturated text[], transmit_wait_tick_bytes bigint, local_physical_errors bigint, malformed_packet_errors bigint,
    buffer_overrun_errors bigint, dlid_mapping_errors bigint, vl_mapping_errors bigint, looping_errors bigint,
    inactive_discards bigint, neighbor_mtu_discards bigint, switch_lifetime_limit_discards bigint,
    switch_hoq_lifetime_limit_discards bigint, transmit_flow_packets bigint, receive_flow_packets bigint,
    operation_receive_packets bigint, operation_receive_data bigint, sync_header_errors bigint,
    unknown_blocks bigint, fec_corrected_blocks bigint, fec_uncorrected_blocks bigint, fec_corrected_symbols bigint)
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT
        c.time, c.port_id, c.epoch, c.source, c.transmit_data_bytes, c.receive_data_bytes, c.transmit_packets,
        c.receive_packets, c.unicast_transmit_packets, c.unicast_receive_packets, c.multicast_transmit_packets,
        c.multicast_receive_packets, c.transmit_wait, c.symbol_error, c.link_error_recovery, c.link_downed,
        c.receive_errors, c.receive_remote_physical_errors, c.receive_switch_relay_errors, c.transmit_discards,
        c.transmit_constraint_errors, c.receive_constraint_errors, c.local_link_integrity_errors,
        c.excessive_buffer_overrun_errors, c.vl15_dropped, c.qp1_dropped, c.rate_bytes_per_second, c.saturated,
        c.transmit_wait_tick_bytes, c.local_physical_errors, c.malformed_packet_errors, c.buffer_overrun_errors,
        c.dlid_mapping_errors, c.vl_mapping_errors, c.looping_errors, c.inactive_discards, c.neighbor_mtu_discards,
        c.switch_lifetime_limit_discards, c.switch_hoq_lifetime_limit_discards, c.transmit_flow_packets,
        c.receive_flow_packets, c.operation_receive_packets, c.operation_receive_data, c.sync_header_errors,
        c.unknown_blocks, c.fec_corrected_blocks, c.fec_uncorrected_blocks, c.fec_corrected_symbols
    FROM ib_port_counters c
    WHERE c.time >= since AND c.time <= until
    UNION ALL
    SELECT
        packed_time(h.times[r.number]), h.port_id, packed_time(h.epochs[r.number]), h.sources[r.number],
        h.transmit_data_bytes[r.number], h.receive_data_bytes[r.number], h.transmit_packets[r.number],
        h.receive_packets[r.number], h.unicast_transmit_packets[r.number], h.unicast_receive_packets[r.number],
        h.multicast_transmit_packets[r.number], h.multicast_receive_packets[r.number],
        CASE WHEN 'transmit_wait' = ANY (h.saturated[r.number]::text[]) THEN NULL ELSE h.transmit_wait[r.number] END,
        CASE WHEN 'symbol_error' = ANY (h.saturated[r.number]::text[]) THEN NULL ELSE h.symbol_error[r.number] END,
        CASE WHEN 'link_error_recovery' = ANY (h.saturated[r.number]::text[]) THEN NULL ELSE h.link_error_recovery[r.number] END,
        CASE WHEN 'link_downed' = ANY (h.saturated[r.number]::text[]) THEN NULL ELSE h.link_downed[r.number] END,
        CASE WHEN 'receive_errors' = ANY (h.saturated[r.number]::text[]) THEN NULL ELSE h.receive_errors[r.number] END,
        CASE WHEN 'receive_remote_physical_errors' = ANY (h.saturated[r.number]::text[]) THEN NULL ELSE h.receive_remote_physical_errors[r.number] END,
        CASE WHEN 'receive_switch_relay_errors' = ANY (h.saturated[r.number]::text[]) THEN NULL ELSE h.receive_switch_relay_errors[r.number] END,
        CASE WHEN 'transmit_discards' = ANY (h.saturated[r.number]::text[]) THEN NULL ELSE h.transmit_discards[r.number] END,
        CASE WHEN 'transmit_constraint_errors' = ANY (h.saturated[r.number]::text[]) THEN NULL ELSE h.transmit_constraint_errors[r.number] END,
        CASE WHEN 'receive_constraint_errors' = ANY (h.saturated[r.number]::text[]) THEN NULL ELSE h.receive_constraint_errors[r.number] END,
        CASE WHEN 'local_link_integrity_errors' = ANY (h.saturated[r.number]::text[]) THEN NULL ELSE h.local_link_integrity_errors[r.number] END,
        CASE WHEN 'excessive_buffer_overrun_errors' = ANY (h.saturated[r.number]::text[]) THEN NULL ELSE h.excessive_buffer_overrun_errors[r.number] END,
        CASE WHEN 'vl15_dropped' = ANY (h.saturated[r.number]::text[]) THEN NULL ELSE h.vl15_dropped[r.number] END,
        CASE WHEN 'qp1_dropped' = ANY (h.saturated[r.number]::text[]) THEN NULL ELSE h.qp1_dropped[r.number] END,
        h.rate_bytes_per_second[r.number], h.saturated[r.number]::text[], h.transmit_wait_tick_bytes[r.number],
        CASE WHEN 'local_physical_errors' = ANY (h.saturated[r.number]::text[]) THEN NULL ELSE h.local_physical_errors[r.number] END,
        CASE WHEN 'malformed_packet_errors' = ANY (h.saturated[r.number]::text[]) THEN NULL ELSE h.malformed_packet_errors[r.number] END,
        CASE WHEN 'buffer_overrun_errors' = ANY (h.saturated[r.number]::text[]) THEN NULL ELSE h.buffer_overrun_errors[r.number] END,
        CASE WHEN 'dlid_mapping_errors' = ANY (h.saturated[r.number]::text[]) THEN NULL ELSE h.dlid_mapping_errors[r.number] END,
        CASE WHEN 'vl_mapping_errors' = ANY (h.saturated[r.number]::text[]) THEN NULL ELSE h.vl_mapping_errors[r.number] END,
        CASE WHEN 'looping_errors' = ANY (h.saturated[r.number]::text[]) THEN NULL ELSE h.looping_errors[r.number] END,
        CASE WHEN 'inactive_discards' = ANY (h.saturated[r.number]::text[]) THEN NULL ELSE h.inactive_discards[r.number] END,
        CASE WHEN 'neighbor_mtu_discards' = ANY (h.saturated[r.number]::text[]) THEN NULL ELSE h.neighbor_mtu_discards[r.number] END,
        CASE WHEN 'switch_lifetime_limit_discards' = ANY (h.saturated[r.number]::text[]) THEN NULL ELSE h.switch_lifetime_limit_discards[r.number] END,
        CASE WHEN 'switch_hoq_lifetime_limit_discards' = ANY (h.saturated[r.number]::text[]) THEN NULL ELSE h.switch_hoq_lifetime_limit_discards[r.number] END,
        CASE WHEN 'transmit_flow_packets' = ANY (h.saturated[r.number]::text[]) THEN NULL ELSE h.transmit_flow_packets[r.number] END,
        CASE WHEN 'receive_flow_packets' = ANY (h.saturated[r.number]::text[]) THEN NULL ELSE h.receive_flow_packets[r.number] END,
        CASE WHEN 'operation_receive_packets' = ANY (h.saturated[r.number]::text[]) THEN NULL ELSE h.operation_receive_packets[r.number] END,
        CASE WHEN 'operation_receive_data' = ANY (h.saturated[r.number]::text[]) THEN NULL ELSE h.operation_receive_data[r.number] END,
        CASE WHEN 'sync_header_errors' = ANY (h.saturated[r.number]::text[]) THEN NULL ELSE h.sync_header_errors[r.number] END,
        CASE WHEN 'unknown_blocks' = ANY (h.saturated[r.number]::text[]) THEN NULL ELSE h.unknown_blocks[r.number] END,
        CASE WHEN 'fec_corrected_blocks' = ANY (h.saturated[r.number]::text[]) THEN NULL ELSE h.fec_corrected_blocks[r.number] END,
        CASE WHEN 'fec_uncorrected_blocks' = ANY (h.saturated[r.number]::text[]) THEN NULL ELSE h.fec_uncorrected_blocks[r.number] END,
        CASE WHEN 'fec_corrected_symbols' = ANY (h.saturated[r.number]::text[]) THEN NULL ELSE h.fec_corrected_symbols[r.number] END
    FROM (
        -- Grouped, so that each series is unpacked once and not for each of its readings. A series that the query does not
        -- use is neither read nor unpacked.
        SELECT m.port_id,
               packed_integers((SELECT b.samples FROM ib_port_blocks b WHERE b.metric = -2 AND b.port_id = m.port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS times,
               packed_integers((SELECT b.samples FROM ib_port_blocks b WHERE b.metric = -3 AND b.port_id = m.port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS epochs,
               packed_texts((SELECT b.samples FROM ib_port_blocks b WHERE b.metric = -4 AND b.port_id = m.port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS sources,
               packed_texts((SELECT b.samples FROM ib_port_blocks b WHERE b.metric = -5 AND b.port_id = m.port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS saturated,
               packed_integers((SELECT b.samples FROM ib_port_blocks b WHERE b.metric = 1 AND b.port_id = m.port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS transmit_data_bytes,
               packed_integers((SELECT b.samples FROM ib_port_blocks b WHERE b.metric = 2 AND b.port_id = m.port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS receive_data_bytes,
               packed_integers((SELECT b.samples FROM ib_port_blocks b WHERE b.metric = 3 AND b.port_id = m.port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS transmit_packets,
               packed_integers((SELECT b.samples FROM ib_port_blocks b WHERE b.metric = 4 AND b.port_id = m.port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS receive_packets,
               packed_integers((SELECT b.samples FROM ib_port_blocks b WHERE b.metric = 5 AND b.port_id = m.port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS unicast_transmit_packets,
               packed_integers((SELECT b.samples FROM ib_port_blocks b WHERE b.metric = 6 AND b.port_id = m.port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS unicast_receive_packets,
               packed_integers((SELECT b.samples FROM ib_port_blocks b WHERE b.metric = 7 AND b.port_id = m.port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS multicast_transmit_packets,
               packed_integers((SELECT b.samples FROM ib_port_blocks b WHERE b.metric = 8 AND b.port_id = m.port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS multicast_receive_packets,
               packed_integers((SELECT b.samples FROM ib_port_blocks b WHERE b.metric = 9 AND b.port_id = m.port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS transmit_wait,
               packed_integers((SELECT b.samples FROM ib_port_blocks b WHERE b.metric = 10 AND b.port_id = m.port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS symbol_error,
               packed_integers((SELECT b.samples FROM ib_port_blocks b WHERE b.metric = 11 AND b.port_id = m.port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS link_error_recovery,
               packed_integers((SELECT b.samples FROM ib_port_blocks b WHERE b.metric = 12 AND b.port_id = m.port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS link_downed,
               packed_integers((SELECT b.samples FROM ib_port_blocks b WHERE b.metric = 13 AND b.port_id = m.port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS receive_errors,
               packed_integers((SELECT b.samples FROM ib_port_blocks b WHERE b.metric = 14 AND b.port_id = m.port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS receive_remote_physical_errors,
               packed_integers((SELECT b.samples FROM ib_port_blocks b WHERE b.metric = 15 AND b.port_id = m.port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS receive_switch_relay_errors,
               packed_integers((SELECT b.samples FROM ib_port_blocks b WHERE b.metric = 16 AND b.port_id = m.port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS transmit_discards,
               packed_integers((SELECT b.samples FROM ib_port_blocks b WHERE b.metric = 17 AND b.port_id = m.port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS transmit_constraint_errors,
               packed_integers((SELECT b.samples FROM ib_port_blocks b WHERE b.metric = 18 AND b.port_id = m.port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS receive_constraint_errors,
               packed_integers((SELECT b.samples FROM ib_port_blocks b WHERE b.metric = 19 AND b.port_id = m.port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS local_link_integrity_errors,
               packed_integers((SELECT b.samples FROM ib_port_blocks b WHERE b.metric = 20 AND b.port_id = m.port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS excessive_buffer_overrun_errors,
               packed_integers((SELECT b.samples FROM ib_port_blocks b WHERE b.metric = 21 AND b.port_id = m.port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS vl15_dropped,
               packed_integers((SELECT b.samples FROM ib_port_blocks b WHERE b.metric = 22 AND b.port_id = m.port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS qp1_dropped,
               packed_integers((SELECT b.samples FROM ib_port_blocks b WHERE b.metric = 23 AND b.port_id = m.port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS rate_bytes_per_second,
               packed_integers((SELECT b.samples FROM ib_port_blocks b WHERE b.metric = 24 AND b.port_id = m.port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS transmit_wait_tick_bytes,
               packed_integers((SELECT b.samples FROM ib_port_blocks b WHERE b.metric = 25 AND b.port_id = m.port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS local_physical_errors,
               packed_integers((SELECT b.samples FROM ib_port_blocks b WHERE b.metric = 26 AND b.port_id = m.port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS malformed_packet_errors,
               packed_integers((SELECT b.samples FROM ib_port_blocks b WHERE b.metric = 27 AND b.port_id = m.port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS buffer_overrun_errors,
               packed_integers((SELECT b.samples FROM ib_port_blocks b WHERE b.metric = 28 AND b.port_id = m.port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS dlid_mapping_errors,
               packed_integers((SELECT b.samples FROM ib_port_blocks b WHERE b.metric = 29 AND b.port_id = m.port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS vl_mapping_errors,
               packed_integers((SELECT b.samples FROM ib_port_blocks b WHERE b.metric = 30 AND b.port_id = m.port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS looping_errors,
               packed_integers((SELECT b.samples FROM ib_port_blocks b WHERE b.metric = 31 AND b.port_id = m.port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS inactive_discards,
               packed_integers((SELECT b.samples FROM ib_port_blocks b WHERE b.metric = 32 AND b.port_id = m.port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS neighbor_mtu_discards,
               packed_integers((SELECT b.samples FROM ib_port_blocks b WHERE b.metric = 33 AND b.port_id = m.port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS switch_lifetime_limit_discards,
               packed_integers((SELECT b.samples FROM ib_port_blocks b WHERE b.metric = 34 AND b.port_id = m.port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS switch_hoq_lifetime_limit_discards,
               packed_integers((SELECT b.samples FROM ib_port_blocks b WHERE b.metric = 35 AND b.port_id = m.port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS transmit_flow_packets,
               packed_integers((SELECT b.samples FROM ib_port_blocks b WHERE b.metric = 36 AND b.port_id = m.port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS receive_flow_packets,
               packed_integers((SELECT b.samples FROM ib_port_blocks b WHERE b.metric = 37 AND b.port_id = m.port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS operation_receive_packets,
               packed_integers((SELECT b.samples FROM ib_port_blocks b WHERE b.metric = 38 AND b.port_id = m.port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS operation_receive_data,
               packed_integers((SELECT b.samples FROM ib_port_blocks b WHERE b.metric = 39 AND b.port_id = m.port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS sync_header_errors,
               packed_integers((SELECT b.samples FROM ib_port_blocks b WHERE b.metric = 40 AND b.port_id = m.port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS unknown_blocks,
               packed_integers((SELECT b.samples FROM ib_port_blocks b WHERE b.metric = 41 AND b.port_id = m.port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS fec_corrected_blocks,
               packed_integers((SELECT b.samples FROM ib_port_blocks b WHERE b.metric = 42 AND b.port_id = m.port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS fec_uncorrected_blocks,
               packed_integers((SELECT b.samples FROM ib_port_blocks b WHERE b.metric = 43 AND b.port_id = m.port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS fec_corrected_symbols
        FROM ib_port_blocks m, packed_state s
        WHERE s.readings = 'ib_port_counters' AND m.metric = 0 AND m.time >= s.packed_from AND m.time < s.packed_until
          AND m.time > since - INTERVAL '1 hour' AND m.time <= until
        GROUP BY m.port_id, m.time
    ) h
    CROSS JOIN LATERAL generate_series(1, cardinality(h.times)) AS r (number)
    WHERE packed_time(h.times[r.number]) >= since AND packed_time(h.times[r.number]) <= until
$$;
COMMENT ON FUNCTION ib_port_readings IS
    'Readings of fabric ports from since to until, as ib_port_counters has them: rows, and hours that are packed only. '
    'Condition port_id, so that no others are unpacked.';
