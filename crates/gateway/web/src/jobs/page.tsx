// Jobs: those that run now, and those that ended; sorted and searched by the server, so that all of them count.
import { useEffect, useMemo, useState } from 'preact/hooks'
import { type Job, type Jobs, address } from '../api/client.ts'
import { useLive } from '../api/live.ts'
import { MaybeStale, Status, Unknown } from '../shell/status.tsx'
import { clock, counted, moment } from '../text.ts'
import { oneOf, setQuery, unknownValues } from '../url.ts'
import { JobRow } from './row.tsx'

const LIVE_MS = 2_000
const ENDED_MS = 15_000
/** Sums of MPI cost the database some work for each job: they come apart, and less often than who runs. */
const SUMS_MS = 10_000
const PAGE = 100
const REST_MS = 250
const STATES = ['live', 'ended'] as const
const SORTS = ['start', 'end', 'duration', 'user', 'name', 'nodes', 'ranks', 'key'] as const
const ORDERS = ['desc', 'asc'] as const
type Sort = (typeof SORTS)[number]

/** The sort of a click on a column: that column, or its other direction. */
export function nextSort(now: { sort: Sort; order: string }, column: Sort): { sort: Sort; order: string } {
  const natural = ['user', 'name', 'key'].includes(column) ? 'asc' : 'desc'
  if (now.sort !== column) return { sort: column, order: natural }
  return { sort: column, order: now.order === 'asc' ? 'desc' : 'asc' }
}

export function JobsPage({ query }: { query: URLSearchParams }) {
  const state = oneOf(STATES, query.get('state'))
  const sort = oneOf(SORTS, query.get('sort'))
  const order = oneOf(ORDERS, query.get('order'))
  const q = query.get('q') ?? undefined
  const next = query.get('next') ?? undefined
  const parameters = { state, sort, order, q, limit: PAGE, next }
  const live = useLive<Jobs>(address('/jobs', parameters), state === 'live' ? LIVE_MS : ENDED_MS, true)
  const sums = useLive<Jobs>(address('/jobs', { ...parameters, totals: true }), SUMS_MS, true)
  // Figures of jobs that run are mostly of one time; the page of a job names what is behind.
  const newest = Math.max(...(sums.data?.jobs ?? []).map((job) => job.as_of?.time_ms ?? 0))
  const totals = useMemo(() => new Map((sums.data?.jobs ?? []).map((job) => [job.job_key, job.totals])), [sums.data])
  const [words, setWords] = useState(q ?? '')
  useEffect(() => setWords(q ?? ''), [q])
  useEffect(() => {
    if (words === (q ?? '')) return undefined
    const timer = setTimeout(() => setQuery({ q: words, next: undefined }), REST_MS)
    return () => clearTimeout(timer)
  }, [words])
  const data = live.data
  const sorted = { sort, order }
  return (
    <section class="page wide">
      <div class="toolbar">
        <h1>Jobs</h1>
        <div class="tabs" role="group" aria-label="Which jobs">
          {STATES.map((name) => (
            <button key={name} type="button" aria-pressed={state === name} onClick={() => setQuery({ state: name === 'live' ? undefined : name, next: undefined }, true)}>
              {name === 'live' ? 'Running' : 'Ended'}
            </button>
          ))}
        </div>
        <label>
          Filter <input type="search" value={words} onInput={(e) => setWords(e.currentTarget.value)} placeholder="key, user, name, queue, command" />
        </label>
        <span class="spring" />
        {data && (
          <span class="dim">
            <span class="ticking long">
              {data.total === null ? null : `${counted(data.total, 'job')}, `}as of {moment(data.as_of_ms)}
            </span>
            {newest > 0 && <span class="ticking sums">MPI and bytes as of {clock(newest)}</span>}
          </span>
        )}
      </div>
      <Unknown list={unknownValues(query, { state: STATES, sort: SORTS, order: ORDERS })} />
      <Status of={[live]} what="jobs" />
      {live.error === undefined && <Status of={[sums]} what="sums of MPI" />}
      {data && (
        <MaybeStale live={live}>
          <Table jobs={data.jobs} totals={totals} sorted={sorted} state={state} />
          <p class="row">
            {next !== undefined && (
              <button type="button" onClick={() => setQuery({ next: undefined }, true)}>
                First page
              </button>
            )}
            {data.next !== null && (
              <button type="button" onClick={() => setQuery({ next: data.next ?? undefined }, true)}>
                Next page
              </button>
            )}
          </p>
        </MaybeStale>
      )}
    </section>
  )
}

/** Rows that are laid out and painted together: a group in which nothing changed costs the browser nothing. */
const GROUP = 10
const grouped = (jobs: readonly Job[]) => Array.from({ length: Math.ceil(jobs.length / GROUP) }, (_, i) => jobs.slice(i * GROUP, (i + 1) * GROUP))

const COLUMNS: readonly [title: string, sort: Sort | null, numeric: boolean][] = [
  ['Job', 'key', false],
  ['Name', 'name', false],
  ['User', 'user', false],
  ['State', null, false],
  ['Verdict', null, false],
  ['Started', 'start', true],
  ['Runs for', 'duration', true],
  ['Ended', 'end', true],
  ['Nodes', 'nodes', true],
  ['Ranks', 'ranks', true],
  ['In MPI', null, true],
  ['Bytes sent', null, true],
]

function Table({ jobs, totals, sorted, state }: { jobs: Job[]; totals: Map<string, Job['totals']>; sorted: { sort: Sort; order: string }; state: string }) {
  if (jobs.length === 0) return <p class="dim">{state === 'live' ? 'No running job matches.' : 'No ended job matches.'}</p>
  return (
    <div class="sideways">
      <table class="list" data-testid="jobs">
        <caption class="hidden">{state === 'live' ? 'Running jobs' : 'Ended jobs'}</caption>
        <thead>
          <tr>
            {COLUMNS.map(([title, column, numeric]) => {
              const isSorted = column !== null && sorted.sort === column
              return (
                <th key={title} scope="col" class={numeric ? 'n' : ''} aria-sort={isSorted ? (sorted.order === 'asc' ? 'ascending' : 'descending') : undefined}>
                  {column === null ? (
                    title
                  ) : (
                    <button type="button" class="plain" onClick={() => setQuery({ ...nextSort(sorted as { sort: Sort; order: string }, column), next: undefined })}>
                      {title}
                      {isSorted ? (sorted.order === 'asc' ? ' ▲' : ' ▼') : null}
                    </button>
                  )}
                </th>
              )
            })}
            <th scope="col">
              <span class="hidden">Map</span>
            </th>
          </tr>
        </thead>
        {grouped(jobs).map((group, i) => (
          <tbody key={i}>
            {group.map((job) => (
              <JobRow key={job.job_key} job={job} totals={totals.get(job.job_key)} />
            ))}
          </tbody>
        ))}
      </table>
    </div>
  )
}
