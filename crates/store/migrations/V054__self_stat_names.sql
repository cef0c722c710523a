-- Which self-metrics a daemon reports is the same in each of its rows, and two thirds of their bytes: rows of thinned chunks have the number
-- of a list of them.
CREATE TABLE self_stat_names (
    id integer PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    digest text NOT NULL UNIQUE,
    sources text[] NOT NULL,
    names text[] NOT NULL,
    listed_at timestamptz NOT NULL DEFAULT now(),
    used_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE self_stat_names IS 'Lists of self-metrics, which rows of self_stat_rows in thinned chunks have the number of.';
COMMENT ON COLUMN self_stat_names.digest IS 'Of sources and names.';
COMMENT ON COLUMN self_stat_names.sources IS 'The source of each of names.';
COMMENT ON COLUMN self_stat_names.names IS 'As in the catalogue.';
COMMENT ON COLUMN self_stat_names.listed_at IS 'Since when it is there. Rows have its number an hour later.';
COMMENT ON COLUMN self_stat_names.used_at IS 'When rows were last given its number.';
ALTER TABLE self_stat_rows ADD COLUMN names_id integer;
COMMENT ON COLUMN self_stat_rows.names_id IS
    'In self_stat_names: sources and names are there, and empty here. NULL where they are here.';
COMMENT ON TABLE coverage IS
    'What rounds of a source were to read and what they read: unchanged and unread differ. A row stands for equal rounds in a row of which '
    'none was missed, in thinned chunks for those of five minutes; the function coverage_rounds has a row for each.';
COMMENT ON COLUMN coverage.rounds IS
    'How many rounds the row stands for: 1 in rows of crawlers and of agents of earlier versions, unless their chunk is thinned.';
