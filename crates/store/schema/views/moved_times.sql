CREATE OR REPLACE VIEW public.moved_times AS
SELECT split_part(sender_id, ':', 2) AS instance, sender_id, began_at, ended_at, offset_seconds
FROM internal.clock_span WHERE offset_seconds <> 0;
COMMENT ON VIEW public.moved_times IS
    'Stretches in which the clock of a node or crawler was off: the times of its rows of a stretch were moved back by offset_seconds when they were stored.';
COMMENT ON COLUMN public.moved_times.instance IS 'The node, or the name of the crawler''s certificate.';
COMMENT ON COLUMN public.moved_times.sender_id IS 'The same as node:NAME or crawler:NAME.';
COMMENT ON COLUMN public.moved_times.began_at IS 'When the stretch began, moved as its rows are.';
COMMENT ON COLUMN public.moved_times.ended_at IS 'When it ended; NULL while it lasts, and where the sender was stopped in it.';
COMMENT ON COLUMN public.moved_times.offset_seconds IS 'How far the clock was ahead, in whole 10 s; negative: behind.';
