// Numbers, times and names as people read them: one way for all pages.

const DECIMAL = ['', 'k', 'M', 'G', 'T', 'P', 'E'] as const

/** A number with a decimal prefix and three digits: 12.2 G. */
export function short(value: number | null | undefined, unit = ''): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return '–'
  let size = Math.abs(value)
  let i = 0
  while (size >= 999.5 && i < DECIMAL.length - 1) {
    size /= 1000
    i += 1
  }
  const digits = size >= 99.95 || Number.isInteger(size) ? 0 : size >= 9.995 ? 1 : 2
  const sign = value < 0 ? '-' : ''
  const tail = `${DECIMAL[i]}${unit}`
  return `${sign}${size.toFixed(digits)}${tail === '' ? '' : ` ${tail}`}`
}

/** Bytes. */
export const bytes = (value: number | null | undefined) => short(value, 'B')
/** Bytes a second. */
export const rate = (value: number | null | undefined) => short(value, 'B/s')

/** A share as per cent: 3 digits below 10 %, whole above. */
export function percent(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return '–'
  const p = value * 100
  return `${p === 0 ? '0' : p < 0.1 ? '<0.1' : p < 9.95 ? p.toFixed(1) : p.toFixed(0)} %`
}

/** Shares from here on are more than 100 % in every rounding. */
const OVER_FULL = 1.0005

/** A share of a link's speed, or of the time in which it waited. More than all of it is not possible: the readings came at
 * uneven times, or the speed was read wrong, so no number is shown. */
export const used = (value: number | null | undefined) => ((value ?? 0) >= OVER_FULL ? '> 100 %, uneven readings' : percent(value))

/** How people call a job: the name that the scheduler has for it, else the program that it runs, else its key. */
export function jobName(job: { job_key: string; name: string | null; command?: string | null }): string {
  const program = job.command?.split(' ')[0]?.split('/').pop()
  return job.name ?? (program === undefined || program === '' ? job.job_key : program)
}

/** The key of a job; where it has a SLUID, the number that people know is before it. */
export function numberedKey(job: { job_key: string; native_id: string | null }): string {
  const { job_key: key, native_id: number } = job
  return number === null || key.includes(`:${number}.`) || key.includes(`:${number}@`) ? key : `${number} ${key}`
}

/** Seconds as the two largest units: 2 h 5 min. */
export function duration(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return '–'
  if (seconds < 0.001) return `${short(seconds * 1e6)} µs`
  if (seconds < 1) return `${short(seconds * 1e3)} ms`
  if (seconds < 59.5) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`
  const whole = Math.round(seconds)
  const parts: [number, string][] = [
    [Math.floor(whole / 86400), 'd'],
    [Math.floor(whole / 3600) % 24, 'h'],
    [Math.floor(whole / 60) % 60, 'min'],
    [whole % 60, 's'],
  ]
  const first = parts.findIndex(([n]) => n > 0)
  return parts
    .slice(first, first + 2)
    .filter(([n]) => n > 0)
    .map(([n, unit]) => `${n} ${unit}`)
    .join(' ')
}

/** So many of a thing: 1 job, 2 jobs. */
export const counted = (n: number, one: string) => `${n} ${one}${n === 1 ? '' : 's'}`

const pad = (n: number) => String(n).padStart(2, '0')

/** A time of this machine's zone: 2026-01-31 12:00:05. */
export function moment(time: string | number | Date | null | undefined): string {
  if (time === null || time === undefined) return '–'
  const d = new Date(time)
  if (Number.isNaN(d.getTime())) return '–'
  return `${d.getFullYear()}-${pad(d.getMonth() + 1)}-${pad(d.getDate())} ${clock(d)}`
}

/** Most nodes that are behind and named. */
const BEHIND_SHOWN = 3

/** As of when figures of a running job are, and which nodes are behind; nothing where they are final. */
export function asOf(of: { time_ms: number; behind: readonly { node: string; time_ms: number | null }[] } | null): string {
  if (of === null) return ''
  const behind = of.behind.slice(0, BEHIND_SHOWN).map((one) => (one.time_ms === null ? `nothing of ${one.node} yet` : `${one.node} as of ${clock(one.time_ms)}`))
  const more = of.behind.length - behind.length
  return [`as of ${clock(of.time_ms)}`, ...behind, ...(more > 0 ? [`${more} more nodes behind`] : [])].join(', ')
}

/** The hour of a time: 12:00:05. */
export function clock(time: string | number | Date): string {
  const d = new Date(time)
  return `${pad(d.getHours())}:${pad(d.getMinutes())}:${pad(d.getSeconds())}`
}

/** A mark of a time axis whose marks are `step` seconds apart: the hour, or the day at its beginning. */
export function mark(seconds: number, step: number): string {
  const d = new Date(seconds * 1000)
  const isDay = d.getHours() + d.getMinutes() + d.getSeconds() === 0
  if (isDay || step >= 86_400) return `${pad(d.getMonth() + 1)}-${pad(d.getDate())}`
  return step < 60 ? clock(d) : clock(d).slice(0, 5)
}

/** Compares names as people do: leaf2 before leaf10. */
const collator = new Intl.Collator('en', { numeric: true, sensitivity: 'base' })
export const byName = (a: string, b: string) => collator.compare(a, b)

/** Whether every word of `words` occurs in `text`, whatever the case. */
export function matches(text: string, words: string): boolean {
  const low = text.toLowerCase()
  return words.toLowerCase().split(/\s+/).every((word) => low.includes(word))
}
