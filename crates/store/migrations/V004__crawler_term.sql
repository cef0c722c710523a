-- Which crawler of a subnet wrote when: at most one at any time.
CREATE TABLE crawler_term (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    subnet_id integer NOT NULL REFERENCES subnet,
    crawler uuid NOT NULL,
    name text NOT NULL DEFAULT '',
    began_at timestamptz NOT NULL,
    ended_at timestamptz,
    covered_to timestamptz NOT NULL,
    expires_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX ON crawler_term (subnet_id) WHERE ended_at IS NULL;
CREATE INDEX ON crawler_term (subnet_id, ended_at);
COMMENT ON TABLE crawler_term IS
    'Terms of the crawlers of a subnet. A batch of another crawler within a term is left out, so never two write.';
COMMENT ON COLUMN crawler_term.crawler IS 'The crawler: the identity of its spool.';
COMMENT ON COLUMN crawler_term.name IS 'Its host, for people; empty until it asked for a lease.';
COMMENT ON COLUMN crawler_term.began_at IS 'From then on only this crawler is written, by its clock.';
COMMENT ON COLUMN crawler_term.ended_at IS 'When the next one took over; NULL in the present term.';
COMMENT ON COLUMN crawler_term.covered_to IS 'Newest record of the term so far: the next one begins later.';
COMMENT ON COLUMN crawler_term.expires_at IS
    'Another crawler may take over then, by the database''s clock; each request and each batch of it postpones this.';
