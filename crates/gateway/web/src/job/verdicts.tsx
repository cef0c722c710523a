// What slows a job down and what to do: the first thing on its page.
import type { JobDetail } from '../api/client.ts'
import { clock, percent } from '../text.ts'
import { jobPath } from '../url.ts'

type Verdict = JobDetail['verdicts'][number]

const NAMES: Partial<Record<Verdict['kind'], string>> = {
  link_bound: 'link-bound',
  latency_bound: 'latency-bound',
  one_directional_ring: 'one-directional ring',
}

/** `slow_rank` as `slow rank`. */
export const verdictName = (kind: Verdict['kind']): string => NAMES[kind] ?? kind.replaceAll('_', ' ')

const NOT_YET = 'Not judged yet: jobs are judged within 20 s of their start, and each minute.'
const NOT_JUDGED =
  'No verdict: a job is judged a minute after its end, or when its records come. One that ran for less than 5 s, or whose records came when others of its time had expired, has none.'

export function VerdictsView({ data }: { data: JobDetail }) {
  if (data.verdicts.length === 0) return <p class="dim">{data.job.end_ms === null ? NOT_YET : NOT_JUDGED}</p>
  return (
    <section aria-label="Verdicts" data-testid="verdicts">
      {data.verdicts.map((verdict) => (
        <VerdictView key={`${verdict.kind} ${verdict.subject}`} verdict={verdict} isOfBefore={isOfBefore(verdict, data.job)} />
      ))}
    </section>
  )
}

/** A job is judged for the last time 45 s after its end: what was said sooner after it, by clocks that may differ, was said while it ran. */
const LAST_AFTER_MS = 20_000

/** Whether a verdict is of a time at which the job ran: its figures are of then. */
export const isOfBefore = (verdict: Pick<Verdict, 'last_ms'>, job: Pick<JobDetail['job'], 'end_ms'>): boolean =>
  job.end_ms === null || verdict.last_ms < job.end_ms + LAST_AFTER_MS

function VerdictView({ verdict, isOfBefore }: { verdict: Verdict; isOfBefore: boolean }) {
  const isNothing = verdict.kind === 'nothing_found'
  return (
    <article class={`verdict ${isNothing ? 'nothing' : verdict.kind}`}>
      <p>
        {!isNothing && (
          <>
            <strong>{verdictName(verdict.kind)}</strong> <span class="kind">{verdict.confidence}</span>{' '}
          </>
        )}
        {verdict.observation}
        {isOfBefore && <span class="dim"> judged {clock(verdict.last_ms)}</span>}
        {verdict.other_job !== null && (
          <>
            {' '}
            <a href={jobPath(verdict.other_job)}>the other job</a>
          </>
        )}
      </p>
      <p class="remedy">
        <span class="dim">What to do:</span> {verdict.remedy}
      </p>
      <details>
        <summary>Evidence</summary>
        <ul>
          {verdict.facts.map((fact) => (
            <li key={fact.name}>
              {fact.name}: {figure(fact.value, fact.unit)}
              {fact.threshold !== null && <span class="dim"> (from {figure(fact.threshold, fact.unit)} on)</span>}
            </li>
          ))}
        </ul>
      </details>
    </article>
  )
}

/** A figure with its unit: shares in per cent. */
export function figure(value: number, unit: Verdict['facts'][number]['unit']): string {
  if (unit === 'share') return percent(value)
  const digits = value !== 0 && Math.abs(value) < 10 ? value.toPrecision(2) : Math.round(value).toLocaleString('en')
  return unit === '1' ? digits : `${digits} ${unit}`
}
