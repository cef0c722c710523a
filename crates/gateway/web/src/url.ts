// State lives in the URL, so that a view can be sent to a colleague: reading, writing, and the paths of the pages.
import { useEffect, useState } from 'preact/hooks'

/** A path of at most two parts: the page, and the thing that it is about. The first page has the path `/`, too. */
export function place(path: string): { page: string; thing: string | undefined } | undefined {
  const [page = 'fabric', thing, ...more] = path.split('/').filter((part) => part !== '')
  if (more.length > 0) return undefined
  try {
    return { page, thing: thing === undefined ? undefined : decodeURIComponent(thing) }
  } catch {
    return undefined
  }
}

export const jobPath = (id: string | number) => `/jobs/${encodeURIComponent(String(id))}`
export const nodePath = (name: string) => `/nodes/${encodeURIComponent(name)}`
export const fabricPath = (query: Record<string, string | undefined>) => withQuery('/fabric', query)
export const groupsPath = (query: Record<string, string | undefined>) => withQuery('/multicast', query)
export const groupPath = (mlid: string, query: Record<string, string | undefined>) => withQuery(`/multicast/${encodeURIComponent(mlid)}`, query)

function withQuery(path: string, query: Record<string, string | undefined>): string {
  const text = withValues('', query)
  return text === '' ? path : `${path}?${text}`
}

/** A query string with some values set, or taken away where undefined or empty. Keys are sorted, so that one view
 * has one URL. */
export function withValues(query: string, values: Record<string, string | undefined>): string {
  const all = new URLSearchParams(query)
  for (const [key, value] of Object.entries(values)) {
    if (value === undefined || value === '') all.delete(key)
    else all.set(key, value)
  }
  all.sort()
  // Commas and colons are harmless in a query and readable.
  return all.toString().replaceAll('%2C', ',').replaceAll('%3A', ':')
}

/** One of a list of words, else the first. */
export function oneOf<T extends string>(list: readonly T[], value: string | null): T {
  return list.find((item) => item === value) ?? (list[0] as T)
}

/** A time of a URL as the API takes it, RFC 3339 or milliseconds since 1970; NaN where it is none. */
export function timeOf(time: string): number {
  return /^\d+$/.test(time) ? Number(time) : Date.parse(time)
}

/** Parameters from and to of a range that ends at a time of the URL; none for now. What is no time goes on as it is:
 * the API reports the error. */
export function rangeBefore(time: string | null | undefined, milliseconds: number): { from?: string; to?: string } {
  if (time === null || time === undefined) return {}
  const end = timeOf(time)
  return Number.isNaN(end) ? { to: time } : { from: new Date(end - milliseconds).toISOString(), to: time }
}

/** Values of the query that are none of those that a page knows, each in words. */
export function unknownValues(query: URLSearchParams, known: Record<string, readonly string[]>): string[] {
  return Object.entries(known).flatMap(([key, list]) => {
    const value = query.get(key)
    return value === null || list.includes(value) ? [] : [`${key} is one of ${list.join(', ')}, not ${value}`]
  })
}

const CHANGED = 'throughline:url'

/** Goes to another page, without loading everything anew. */
export function go(url: string): void {
  history.pushState(null, '', url)
  window.dispatchEvent(new Event(CHANGED))
}

/** Changes values of the query. `push` makes a step that Back undoes: for a choice, not for each move of a slider. */
export function setQuery(values: Record<string, string | undefined>, push = false): void {
  const query = withValues(location.search, values)
  const url = location.pathname + (query === '' ? '' : `?${query}`)
  if (url === location.pathname + location.search) return
  if (push) history.pushState(null, '', url)
  else history.replaceState(null, '', url)
  window.dispatchEvent(new Event(CHANGED))
}

/** Path and query of now, anew whenever they change. */
export function useUrl(): { path: string; query: URLSearchParams } {
  const [url, setUrl] = useState(location.pathname + location.search)
  useEffect(() => {
    const changed = () => setUrl(location.pathname + location.search)
    window.addEventListener('popstate', changed)
    window.addEventListener(CHANGED, changed)
    return () => {
      window.removeEventListener('popstate', changed)
      window.removeEventListener(CHANGED, changed)
    }
  }, [])
  const at = url.indexOf('?')
  return at < 0
    ? { path: url, query: new URLSearchParams() }
    : { path: url.slice(0, at), query: new URLSearchParams(url.slice(at)) }
}

/** Follows links to pages by `go`, unless the reader wants a new tab. */
export function followLinks(event: MouseEvent, isPage: (path: string) => boolean): void {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return
  const link = (event.target as Element | null)?.closest?.('a[href]')
  if (!(link instanceof HTMLAnchorElement) || link.target !== '' || link.origin !== location.origin) return
  if (link.hasAttribute('download') || !isPage(link.pathname)) return
  event.preventDefault()
  go(link.pathname + link.search)
}
