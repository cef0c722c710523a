// Finds switches, adapters, hosts and jobs, and goes there: a text field with a list, by hand or by keys.
import { useEffect, useRef, useState } from 'preact/hooks'
import { type Search as Results, type SearchResult, address, asApiError, fetchJson } from '../api/client.ts'
import { fabricPath, go, jobPath, nodePath, place } from '../url.ts'

const REST_MS = 200
const SHOWN = 12

/** Where a result leads. A node of the fabric leaves the rest of the map as it is. */
export function target(result: SearchResult, here: { path: string; query: URLSearchParams }): string {
  if (result.kind === 'job' && result.job_key !== null) return jobPath(result.job_key)
  if (result.kind === 'host' && result.host !== null) return nodePath(result.host)
  const unchanged = place(here.path)?.page === 'fabric' ? Object.fromEntries(here.query) : {}
  delete unchanged.link
  delete unchanged.view
  return fabricPath({ ...unchanged, subnet: result.subnet ?? undefined, node: result.guid ?? undefined, find: '1' })
}

export function Search() {
  const [words, setWords] = useState('')
  const [results, setResults] = useState<SearchResult[]>([])
  const [note, setNote] = useState('')
  const [at, setAt] = useState(0)
  const [open, setOpen] = useState(false)
  const field = useRef<HTMLInputElement>(null)
  useEffect(() => {
    const text = words.trim()
    setResults([])
    setNote('')
    if (text === '') return undefined
    const stop = new AbortController()
    const timer = setTimeout(async () => {
      try {
        const answer = await fetchJson<Results>(address('/search', { q: text, limit: SHOWN }), stop.signal)
        setResults(answer.results)
        setAt(0)
        setNote(answer.results.length === 0 ? `Nothing is called ${text}` : '')
      } catch (cause) {
        if (!stop.signal.aborted) setNote(`No search: ${asApiError(cause).message}`)
      }
    }, REST_MS)
    return () => {
      stop.abort()
      clearTimeout(timer)
    }
  }, [words])
  const take = (result: SearchResult | undefined) => {
    if (result === undefined) return
    setOpen(false)
    setWords('')
    field.current?.blur()
    go(target(result, { path: location.pathname, query: new URLSearchParams(location.search) }))
  }
  const key = (event: KeyboardEvent) => {
    if (event.key === 'ArrowDown') setAt(Math.min(at + 1, results.length - 1))
    else if (event.key === 'ArrowUp') setAt(Math.max(at - 1, 0))
    else if (event.key === 'Enter') take(results[at])
    else if (event.key === 'Escape') setOpen(false)
    else return
    event.preventDefault()
  }
  const shown = open && (results.length > 0 || note !== '')
  return (
    <div class="search" role="search">
      <input
        ref={field}
        type="text"
        role="combobox"
        aria-label="Search switches, adapters, hosts and jobs"
        aria-expanded={shown}
        aria-controls="found"
        aria-activedescendant={shown && results.length > 0 ? `found-${at}` : undefined}
        aria-autocomplete="list"
        autocomplete="off"
        placeholder="Name, GUID, LID, job"
        value={words}
        onInput={(e) => {
          setWords(e.currentTarget.value)
          setOpen(true)
        }}
        onKeyDown={key}
        onBlur={() => setOpen(false)}
      />
      <ul id="found" role="listbox" aria-label="Found" hidden={!shown}>
        {results.map((result, i) => (
          <li
            key={`${result.kind}${result.guid ?? ''}${result.name}`}
            id={`found-${i}`}
            role="option"
            aria-selected={i === at}
            onPointerDown={(e) => {
              e.preventDefault()
              take(result)
            }}
          >
            <span>{result.name}</span> <small>{result.kind}</small>
          </li>
        ))}
        {note !== '' && (
          <li role="option" aria-selected="false" aria-disabled="true">
            {note}
          </li>
        )}
      </ul>
    </div>
  )
}
