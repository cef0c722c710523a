-- Clocks of senders and servers, as they were measured against each other.
CREATE TABLE internal.sender_clock (
    sender_id text NOT NULL,
    measured_at timestamptz NOT NULL,
    sender_time timestamptz NOT NULL,
    offset_seconds double precision NOT NULL,
    round_trip_seconds double precision NOT NULL,
    newest_record timestamptz,
    PRIMARY KEY (sender_id)
);
COMMENT ON TABLE internal.sender_clock IS
    'How far the clock of each sender was from the server''s when it was measured last, by an exchange of its own.';
COMMENT ON COLUMN internal.sender_clock.sender_id IS 'The sender as node:NAME or crawler:NAME, by its certificate.';
COMMENT ON COLUMN internal.sender_clock.measured_at IS 'By the server''s clock.';
COMMENT ON COLUMN internal.sender_clock.sender_time IS 'By the sender''s clock at that moment.';
COMMENT ON COLUMN internal.sender_clock.offset_seconds IS 'Sender less server.';
COMMENT ON COLUMN internal.sender_clock.round_trip_seconds IS 'Of the exchange; the offset is wrong by at most half of it.';
COMMENT ON COLUMN internal.sender_clock.newest_record IS 'Time of the newest record that it sent, after it was moved.';

CREATE TABLE internal.clock_span (
    sender_id text NOT NULL,
    span bigint NOT NULL,
    began_at timestamptz NOT NULL,
    ended_at timestamptz,
    offset_seconds double precision,
    slew_seconds double precision NOT NULL DEFAULT 0,
    noted_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (sender_id, span)
);
COMMENT ON TABLE internal.clock_span IS
    'Stretches in which the clock of a sender was not set. Times of its records of a span were moved back by offset_seconds before they were stored.';
COMMENT ON COLUMN internal.clock_span.sender_id IS 'As in sender_clock.';
COMMENT ON COLUMN internal.clock_span.span IS 'The number that its batches name it by.';
COMMENT ON COLUMN internal.clock_span.began_at IS 'When it began, moved as its records are.';
COMMENT ON COLUMN internal.clock_span.ended_at IS 'When it ended, moved likewise; NULL while it lasts, and where the sender was stopped in it.';
COMMENT ON COLUMN internal.clock_span.offset_seconds IS
    'How far the clock was ahead of the server''s, in whole 10 s, as measured when the span was first seen. NULL where that will never be known: its records are stored as they were sent.';
COMMENT ON COLUMN internal.clock_span.slew_seconds IS
    'By how much less its first rows were moved, down to 0 within a minute or eight times as long: rows of two spans stay in their order.';

CREATE TABLE internal.server_clock (
    server text NOT NULL,
    judged_at timestamptz NOT NULL,
    offset_seconds double precision NOT NULL,
    senders_alike integer NOT NULL,
    senders integer NOT NULL,
    noted_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (server)
);
COMMENT ON TABLE internal.server_clock IS
    'Whether the clock of a server is off against most of its senders, three or more: it stores nothing meanwhile.';
COMMENT ON COLUMN internal.server_clock.judged_at IS 'By its own clock.';
COMMENT ON COLUMN internal.server_clock.noted_at IS 'By the database''s clock.';
COMMENT ON COLUMN internal.server_clock.offset_seconds IS 'How far it is ahead of them; 0 where it is right or nobody knows.';
COMMENT ON COLUMN internal.server_clock.senders_alike IS 'Senders that agree on that.';
COMMENT ON COLUMN internal.server_clock.senders IS 'Senders that were measured lately.';
