// Performance variables of a job's MPI libraries (MPI_T) over time: one of the menu, of all ranks, by rank or by element.
import { useMemo } from 'preact/hooks'
import { type Pvars, address, part } from '../api/client.ts'
import { useLive } from '../api/live.ts'
import { Chart, type Series, type Unit } from '../shell/chart.tsx'
import type { Preferences } from '../shell/preferences.ts'
import { MaybeStale, Status } from '../shell/status.tsx'
import { counted } from '../text.ts'
import { oneOf, setQuery } from '../url.ts'

const LIVE_MS = 10_000
const BY = ['all', 'rank', 'element'] as const
type By = (typeof BY)[number]
const BY_TEXT: Record<By, string> = { all: 'all ranks together', rank: 'by rank', element: 'by element (queues: by peer)' }

interface Props {
  job: string
  isLive: boolean
  query: URLSearchParams
  preferences: Preferences
}

export function PvarsView({ job, isLive, query, preferences }: Props) {
  const base = `/jobs/${part(job)}/pvars`
  const known = useLive<Pvars>(address(base, { points: 1 }), isLive ? 60_000 : undefined)
  const variables = known.data?.variables ?? []
  const chosen = variables.find((v) => v.name === query.get('variable')) ?? first(variables)
  const by = oneOf(BY, query.get('by'))
  const live = useLive<Pvars>(chosen === undefined ? null : address(base, { variable: chosen.name, by, points: 300 }), isLive ? LIVE_MS : undefined, true)
  if (known.data && variables.length === 0) return null
  return (
    <section aria-label="MPI variables" data-testid="pvars">
      <h2>Inside the MPI library</h2>
      <Status of={[known, live]} what="MPI variables" />
      {chosen && (
        <div class="toolbar">
          <label>
            Variable{' '}
            <select value={chosen.name} onChange={(e) => setQuery({ variable: e.currentTarget.value }, true)}>
              {variables.map((v) => (
                <option key={v.name}>{v.name}</option>
              ))}
            </select>
          </label>
          <label>
            Shown{' '}
            <select value={by} onChange={(e) => setQuery({ by: e.currentTarget.value }, true)}>
              {BY.filter((one) => one !== 'element' || chosen.elements > 1).map((one) => (
                <option key={one} value={one}>
                  {BY_TEXT[one]}
                </option>
              ))}
            </select>
          </label>
          <span class="dim">{described(chosen)}</span>
        </div>
      )}
      {live.data && chosen && (
        <MaybeStale live={live}>
          <Drawn data={live.data} variable={chosen} preferences={preferences} />
        </MaybeStale>
      )}
    </section>
  )
}

type Variable = Pvars['variables'][number]

/** Queue lengths say most of what goes wrong: the first of them, else the first variable. */
export const first = (variables: readonly Variable[]): Variable | undefined => variables.find((v) => /queue|recvq|unexpected|posted/i.test(v.name)) ?? variables[0]

/** What a variable is, and how values of several ranks become one. */
export function described(v: Variable): string {
  const fold = v.fold === 'sum' ? 'summed' : `the ${v.fold}`
  return `${v.class}${v.is_rate ? ', a second' : ''}, of ${counted(v.ranks, 'rank')}${v.elements > 1 ? ` and ${v.elements} elements` : ''}; together: ${fold}`
}

/** The unit in which a variable is shown: MPI_T names sizes of queues, bytes and times alike. */
const unitOf = (v: Variable): Unit => (/bytes/i.test(v.name) ? (v.is_rate ? 'rate' : 'bytes') : 'count')

function Drawn({ data, variable, preferences }: { data: Pvars; variable: Variable; preferences: Preferences }) {
  const span = useMemo(() => [data.from_ms, data.to_ms] as const, [data.from_ms, data.to_ms])
  const series: Series[] = useMemo(() => data.series.map((s) => ({ name: s.rank !== null ? `rank ${s.rank}` : s.element !== null ? `element ${s.element}` : 'all ranks', values: s.values })), [data.series])
  if (series.length === 0) return <p class="dim">No rank reported it in this time.</p>
  return (
    <>
      {data.count > series.length && (
        <p class="dim">
          {series.length} of {data.count}: those with the largest values.
        </p>
      )}
      <Chart title={`${variable.name}${variable.is_rate ? ' a second' : ''}`} times={data.times_ms} series={series} unit={unitOf(variable)} height={180} span={span} group="job" preferences={preferences} />
    </>
  )
}
