// The only way to the server: the JSON API, with types made from its OpenAPI document, so that a change of the contract
// fails the build. Errors become one type with cause and remedy.
import type { components, operations, paths } from './schema.ts'

type Schemas = components['schemas']
export type Topology = Schemas['Topology']
export type DatabaseClock = Schemas['DatabaseClock']
export type Load = Schemas['Load']
export type Link = Schemas['Link']
export type LinkEnd = Schemas['LinkEnd']
export type LinkName = Schemas['LinkName']
export type LinkShares = Schemas['LinkShares']
export type DirectionShares = Schemas['DirectionShares']
export type LinkContributor = Schemas['LinkContributor']
export type ShareFigures = Schemas['ShareFigures']
export type JobRegions = Schemas['Regions']
export type JobAccount = Schemas['JobAccount']
export type JobWaits = Schemas['JobWaits']
export type JobLinkShares = Schemas['JobLinkShares']
export type JobLink = JobLinkShares['links'][number]
export type Overlay = Schemas['Overlay']
export type Groups = Schemas['Groups']
export type Tree = Schemas['Tree']
export type Search = Schemas['Search']
export type SearchResult = Search['results'][number]
export type Range = Schemas['Range']
export type Subnets = Schemas['Subnets']
export type Nodes = Schemas['Nodes']
export type Jobs = Schemas['Jobs']
export type JobState = Schemas['Job']['state']
export type Node = Schemas['Node']
export type Pcie = Schemas['Pcie']
export type Broadcast = Schemas['Broadcast']
export type Pvars = Schemas['Pvars']
export type NvlinkMetric = Schemas['NvlinkMetric']
export type GpuMetrics = Schemas['GpuMetrics']
export type Threshold = Schemas['Threshold']
export type Job = Schemas['Job']
export type AccountSteps = Schemas['AccountSteps']
export type GpuTraffic = Schemas['GpuTraffic']
export type JobLanes = Schemas['JobLanes']
export type JobGpus = Schemas['JobGpus']
export type JobVerdicts = Schemas['JobVerdicts']
export type DetailRequests = Schemas['DetailRequests']
export type Events = Schemas['Events']
export type JobDetail = Schemas['JobDetail']
export type JobLive = Schemas['JobLive']
export type Ranks = Schemas['Ranks']
export type Matrix = Schemas['Matrix']
export type Operations = Schemas['Operations']
export type LinkRates = Schemas['LinkRates']
export type { operations, paths }

/** Longest time that the pages wait for an answer; the server's own limit is shorter. */
const PATIENCE_MS = 30_000

/** What went wrong, as the pages show it. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly remedy: string,
  ) {
    super(message)
  }
}

/** Anything that is thrown, as an error of ours. */
export function asApiError(cause: unknown): ApiError {
  if (cause instanceof ApiError) return cause
  if (cause instanceof DOMException && cause.name === 'TimeoutError') {
    return new ApiError(0, 'too_slow', `no answer within ${PATIENCE_MS / 1000} s`, 'the server or its database is slow: choose a shorter time')
  }
  return new ApiError(0, 'unreachable', 'the server does not answer', 'is `throughline serve` running, and the network there?')
}

export type Query = Record<string, string | number | boolean | undefined>

/** The address of an answer. Path parts must be encoded by the caller ([`part`]). */
export function address(path: string, query: Query = {}): string {
  const values = new URLSearchParams()
  for (const [key, value] of Object.entries(query)) if (value !== undefined && value !== '') values.set(key, String(value))
  const text = values.toString()
  return `/api/v1${path}${text === '' ? '' : `?${text}`}`
}

export const part = (text: string) => encodeURIComponent(text)

const TOKEN_KEY = 'throughline-token'
const tokenWatchers = new Set<() => void>()
/** The bearer token that the reader has given in this tab; it is stored nowhere else. */
export const token = {
  get: () => sessionStorage.getItem(TOKEN_KEY),
  set: (value: string) => {
    sessionStorage.setItem(TOKEN_KEY, value)
    for (const watcher of tokenWatchers) watcher()
  },
  /** Calls `watcher` when a token is given, until the function that this returns is called. */
  watch: (watcher: () => void) => {
    tokenWatchers.add(watcher)
    return () => void tokenWatchers.delete(watcher)
  },
}

/** Characters that hide text or turn its direction: names come from other people's programs. */
const DECEPTIVE = /[\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g

/** A text in which nothing turns the direction of what stands around it. */
export const plain = (text: string) => text.replace(DECEPTIVE, '\ufffd')

/** Fetches one answer. */
export async function fetchJson<T>(url: string, signal?: AbortSignal): Promise<T> {
  return send<T>('GET', url, signal)
}

/** Makes a request for detail, or the live request of a job: the only things that pages write. */
export async function postJson<T>(url: string): Promise<T> {
  return send<T>('POST', url)
}

async function send<T>(method: 'GET' | 'POST', url: string, signal?: AbortSignal): Promise<T> {
  const limit = AbortSignal.timeout(PATIENCE_MS)
  const secret = token.get()
  const headers: Record<string, string> = { Accept: 'application/json' }
  if (secret !== null) headers.Authorization = `Bearer ${secret}`
  const response = await fetch(url, { method, headers, signal: signal ? either(signal, limit) : limit })
  if (response.ok) return JSON.parse(plain(await response.text())) as T
  throw await errorOf(response)
}

async function errorOf(response: Response): Promise<ApiError> {
  const status = response.status
  try {
    const body = (await response.json()) as Partial<Schemas['Error']>
    if (body.error) return new ApiError(status, body.error.code, body.error.message, body.error.remedy)
  } catch {
    // Not ours: a proxy's page.
  }
  return new ApiError(status, 'internal', `the server answered ${status} ${response.statusText}`.trim(), 'look into the log of `throughline serve`')
}

/** A signal that ends with the first of two. AbortSignal.any is too new for some browsers on site desktops. */
function either(a: AbortSignal, b: AbortSignal): AbortSignal {
  const both = new AbortController()
  for (const one of [a, b]) {
    if (one.aborted) both.abort(one.reason)
    one.addEventListener('abort', () => both.abort(one.reason), { once: true })
  }
  return both.signal
}
