// The annotated regions of a job's program, as a tree where they nest.
import { type JobRegions, address, part } from '../api/client.ts'
import { useLive } from '../api/live.ts'
import { MaybeStale, Status } from '../shell/status.tsx'
import { asOf, counted, duration, percent, short } from '../text.ts'

type Path = JobRegions['paths'][number]

const LIVE_MS = 10_000
/** Paths that are written out at first. */
const SHOWN = 24

/** Those with the most time, in the order of the tree: none without the one around it, which has no less time. */
export function most(paths: readonly Path[], count: number): Path[] {
  const least = paths.map((path) => path.elapsed_seconds).sort((a, b) => b - a)[count - 1] ?? 0
  return paths.filter((path) => path.elapsed_seconds >= least).slice(0, count)
}

export function RegionsView({ job, isLive }: { job: string; isLive: boolean }) {
  const live = useLive<JobRegions>(address(`/jobs/${part(job)}/regions`), isLive ? LIVE_MS : undefined, true)
  const data = live.data
  if (data && data.paths.length === 0) return null
  return (
    <section aria-label="Regions" data-testid="regions">
      <h2>Regions of the program</h2>
      <Status of={[live]} what="regions" />
      {data && (
        <MaybeStale live={live}>
          <Tree data={data} />
        </MaybeStale>
      )}
    </section>
  )
}

function Tree({ data }: { data: JobRegions }) {
  const shown = most(data.paths, SHOWN)
  const left = data.paths.length - shown.length + data.paths_left_out
  return (
    <div class="sideways">
      <table>
        <caption>
          Time summed over ranks and threads, regions within included; own time without them
          {left > 0 && `; ${counted(left, 'path')} with less time left out`}
          {data.as_of !== null && `; ${asOf(data.as_of)}`}
        </caption>
        <thead>
          <tr>
            <th scope="col">Region</th>
            {['Time', 'Own time', 'In MPI', 'MPI time', 'Own MPI time', 'MPI calls', 'Visits', 'Ranks'].map((title) => (
              <th key={title} scope="col" class="n">
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {shown.map((path) => (
            <tr key={JSON.stringify(path.path)}>
              <th scope="row" title={path.path.join(' / ')} style={{ paddingLeft: `${path.path.length}em` }}>
                {path.path[path.path.length - 1]}
              </th>
              <td class="n">{duration(path.elapsed_seconds)}</td>
              <td class="n">{duration(path.own_seconds)}</td>
              <td class="n">{percent(path.elapsed_seconds > 0 ? path.mpi_seconds / path.elapsed_seconds : null)}</td>
              <td class="n">{duration(path.mpi_seconds)}</td>
              <td class="n">{duration(path.own_mpi_seconds)}</td>
              <td class="n">{short(path.mpi_calls)}</td>
              <td class="n">{short(path.visits)}</td>
              <td class="n">{short(path.ranks)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
