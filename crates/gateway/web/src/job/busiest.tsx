// A job's busiest links: its own part of each, the others', and how both are known.
import { type JobLink, type JobLinkShares, address, part } from '../api/client.ts'
import { useLive } from '../api/live.ts'
import { routingText } from '../fabric/model.ts'
import { isNobody, shareText } from '../shares.ts'
import { Kind } from '../shell/kind.tsx'
import { MaybeStale, Status } from '../shell/status.tsx'
import { clock, counted, moment, percent, rate } from '../text.ts'
import { fabricPath } from '../url.ts'

const LIVE_MS = 10_000
const LISTED = 10
/** Of the others, those that are named. */
const NAMED = 2

export function BusiestLinks({ job, isLive, query }: { job: string; isLive: boolean; query: URLSearchParams }) {
  const [from, to] = [query.get('from') ?? undefined, query.get('to') ?? undefined]
  const live = useLive<JobLinkShares>(address(`/jobs/${part(job)}/link-shares`, { from, to, limit: LISTED }), isLive && to === undefined ? LIVE_MS : undefined, true)
  const data = live.data
  return (
    <section aria-label="Busiest links" data-testid="busiest">
      <h2>Busiest links</h2>
      <Status of={[live]} what="busiest links" />
      {data && (
        <MaybeStale live={live}>
          <Links data={data} job={job} />
        </MaybeStale>
      )}
    </section>
  )
}

function Links({ data, job }: { data: JobLinkShares; job: string }) {
  if (data.links.length === 0) {
    return (
      <p class="dim">
        {data.computed_until_ms === null
          ? 'No shares of links are computed yet.'
          : `It has no share of a link between ${moment(data.from_ms)} and ${moment(data.to_ms)}; shares are computed until ${clock(data.computed_until_ms)}.`}
      </p>
    )
  }
  return (
    <div class="sideways">
      <table>
        <caption>
          {data.links.length < data.count ? `${data.links.length} of ${counted(data.count, 'direction')}` : counted(data.count, 'direction')} of links, the fullest first, from {moment(data.from_ms)} to {clock(data.to_ms)},
          over windows of 10 s in which the job sent over them; routing: {routings(data.links)}
        </caption>
        <thead>
          <tr>
            <th scope="col">Link</th>
            {['Speed', 'Full', 'Fullest', "This job's part"].map((title) => (
              <th key={title} scope="col" class="n">
                {title}
              </th>
            ))}
            <th scope="col">Known</th>
            <th scope="col" class="n">
              Others
            </th>
            <th scope="col">Known</th>
            <th scope="col">Who else</th>
          </tr>
        </thead>
        <tbody>
          {data.links.map((link) => (
            <Row key={link.subnet + link.link} link={link} job={job} />
          ))}
        </tbody>
      </table>
    </div>
  )
}

/** How the subnets of these links route. */
const routings = (links: readonly JobLink[]) => [...new Set(links.map((link) => routingText(link.routing)))].join(' and ')

function Row({ link, job }: { link: JobLink; job: string }) {
  const others = link.contributors.filter((c) => c.job_key !== job && !isNobody(c)).slice(0, NAMED)
  const part = (figures: JobLink['own']) => {
    const { share, between } = shareText(figures)
    return (
      <>
        {share}
        {between !== null && <small class="between">{between}</small>}
      </>
    )
  }
  return (
    <tr>
      <th scope="row">
        <a href={fabricPath({ subnet: link.subnet, link: link.link, job })}>{link.name}</a>
      </th>
      <td class="n">{rate(link.bytes_per_second)}</td>
      <td class="n">{percent(link.utilisation)}</td>
      <td class="n">
        {percent(link.peak_utilisation)}
        {link.is_above_speed && <small class="between">uneven readings</small>}
      </td>
      <td class="n">{part(link.own)}</td>
      <td>
        <Kind of={link.own} />
      </td>
      <td class="n">{part(link.others)}</td>
      <td>
        <Kind of={link.others} />
      </td>
      <td class="long">{others.length === 0 ? '–' : others.map((c) => `${c.label} ${percent(c.share)}`).join(', ')}</td>
    </tr>
  )
}
