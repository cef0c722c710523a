// What is laid over the map: a job that runs now or that the URL names, or a multicast group; and what it lights, in words.
import type { Groups, Job, JobLinkShares, Jobs, Overlay, Topology, Tree } from '../api/client.ts'
import { address, part } from '../api/client.ts'
import { type Live, useLive } from '../api/live.ts'
import { clock, counted, jobName } from '../text.ts'
import { groupPath, jobPath, setQuery } from '../url.ts'
import { purpose } from '../multicast/text.ts'
import { mlidText, routingText } from './model.ts'

/** Jobs offered; others are laid over the map from their own page. */
const OFFERED = 100
const JOBS_MS = 10_000
/** The crawler reads multicast tables once a minute. */
const GROUPS_MS = 30_000
/** Jobs move and the topology changes, but not often. */
const OVERLAY_MS = 20_000

export const jobTitle = (job: Pick<Job, 'job_key' | 'name' | 'command' | 'user'>) =>
  [jobName(job), job.user === null ? '' : `(${job.user})`].join(' ').trim()

/** The job or the group that the URL names; of both the job. */
export function useOverlay(base: string, query: URLSearchParams): Live<Overlay | Tree> {
  const [job, group, at] = [query.get('job'), query.get('group'), query.get('at') ?? undefined]
  const tree = group === null ? null : address(`${base}/groups/${part(group)}`, { at })
  return useLive<Overlay | Tree>(job === null ? tree : address(`${base}/jobs/${part(job)}`, { at: at ?? 'latest' }), OVERLAY_MS)
}

/** Links of a job whose shares colour the map: more than a job of a thousand hosts uses at once. */
const SHARES_MOST = 1000

/** What the job that the URL names put on links, in the minutes before the time of the URL. */
export function useJobShares(query: URLSearchParams): Live<JobLinkShares> {
  const [job, at] = [query.get('job'), query.get('at') ?? undefined]
  return useLive<JobLinkShares>(job === null ? null : address(`/jobs/${part(job)}/link-shares`, { to: at, limit: SHARES_MOST }), OVERLAY_MS)
}

/** Menus of jobs and groups. */
export function OverlayChoice({ base, query }: { base: string; query: URLSearchParams }) {
  const live = useLive<Jobs>(address('/jobs', { state: 'live', limit: OFFERED }), JOBS_MS)
  const groups = useLive<Groups>(address(`${base}/groups`, { at: query.get('at') ?? undefined }), GROUPS_MS, true)
  const chosen = query.get('job')
  const group = chosen === null ? query.get('group') : null
  const jobs = live.data?.jobs ?? []
  const trees = groups.data?.groups ?? []
  const isListed = chosen === null || jobs.some((job) => job.job_key === chosen)
  const isKnown = group === null || trees.some((tree) => mlidText(tree.mlid) === group)
  return (
    <>
      <label>
        Job{' '}
        <select value={chosen ?? ''} onChange={(e) => setQuery({ job: e.currentTarget.value, group: undefined }, true)} data-testid="job">
          <option value="">none</option>
          {!isListed && <option value={chosen}>{chosen}</option>}
          {jobs.map((job) => (
            <option key={job.job_key} value={job.job_key}>
              {jobTitle(job)}
            </option>
          ))}
        </select>
      </label>
      {chosen !== null && <a href={jobPath(chosen)}>open job</a>}
      {chosen !== null && (
        <button type="button" aria-pressed={query.get('bytes') !== 'all'} onClick={() => setQuery({ bytes: query.get('bytes') === 'all' ? undefined : 'all' }, true)}>
          Only its bytes
        </button>
      )}
      {(trees.length > 0 || group !== null) && (
        <label>
          Multicast{' '}
          <select value={group ?? ''} onChange={(e) => setQuery({ group: e.currentTarget.value, job: undefined }, true)} data-testid="group">
            <option value="">none</option>
            {!isKnown && <option value={group}>{group}</option>}
            {trees.map((tree) => (
              <option key={tree.mlid} value={mlidText(tree.mlid)}>
                {mlidText(tree.mlid)} {tree.known.length > 0 && `${purpose(tree.known)} `}({counted(tree.adapters, 'adapter')})
              </option>
            ))}
          </select>
        </label>
      )}
      {group !== null && <a href={groupPath(group, { subnet: query.get('subnet') ?? undefined, at: query.get('at') ?? undefined })}>open group</a>}
    </>
  )
}

/** What is laid over the map, in words. */
export function Overlaid({ overlay, topology, shares, coloured }: { overlay: Overlay | Tree; topology: Topology; shares: JobLinkShares | undefined; coloured: number | null }) {
  const isTree = 'mlid' in overlay
  const name = isTree ? `Multicast ${mlidText(overlay.mlid)}` : overlay.job_key
  const links = `${counted(overlay.links.link.length, 'link')} ${isTree ? 'that carry it' : 'that it could use'}`
  const isPart = !isTree && !overlay.is_complete
  const isCut = shares !== undefined && shares.links.length < shares.count
  return (
    <span class="overlaid" role="status" data-testid="overlaid">
      {overlay.topology !== topology.version
        ? `${name} was placed on the fabric of another time: it is not shown here.`
        : `${name}: ${counted(overlay.nodes.length, 'adapter')}, ${links}${coloured === null ? ' are lit' : ''}${isPart ? ', as far as forwarding tables are known' : ''}.`}
      {!isTree && topology.routing === 'adaptive' && ' Switches route adaptively: its bytes take other links, too.'}
      {!isTree && topology.routing === null && ` Routing ${routingText(null)}: these are the ways of the switches' tables.`}
      {coloured !== null && shares !== undefined && ` Lit and coloured: its own bytes on ${counted(coloured, 'link')}, as shares of their speed, ${clock(shares.from_ms)} to ${clock(shares.to_ms)}${isCut ? `; of its links the ${shares.links.length} fullest` : ''}.`}
    </span>
  )
}
