// All links as a table, the worst first: what the map shows, for people who would rather read.
import { useEffect, useMemo, useState } from 'preact/hooks'
import { type LinkName, type Load, type Topology, address, fetchJson } from '../api/client.ts'
import { type Quantity, step } from '../colour.ts'
import type { Preferences } from '../shell/preferences.ts'
import { matches, rate, short, used } from '../text.ts'
import { type Values, findLink, isGuid, linkName, linkText, valuesOf, worstFirst } from './model.ts'
import type { Pick } from './picture.ts'
import { Swatch } from './swatch.tsx'

/** Rows that are shown at once; the filter finds the others. */
const ROWS = 200

interface Props {
  topology: Topology
  load: Load | undefined
  quantity: Quantity
  preferences: Preferences
  /** What the chosen job put on links, in place of all that they carry. */
  own: Values | null
  choose: (pick: Pick) => void
}

export function LinkTable({ topology, load, quantity, preferences, own, choose }: Props) {
  const [words, setWords] = useState('')
  const values = useMemo(() => own ?? (load === undefined ? undefined : valuesOf(load, quantity)), [load, quantity, own])
  const all = useMemo(() => (values === undefined ? topology.links.a.map((_, i) => i) : worstFirst(values)), [topology, values])
  const here = useMemo(() => (words.trim() === '' ? all : all.filter((i) => matches(linkText(topology, i), words.trim()))), [topology, all, words])
  const named = useNamed(topology, here.length === 0 ? words.trim() : '')
  const order = named === null ? here : [named]
  const format = (value: number | null | undefined) => (quantity === 'errors' ? short(value, '/s') : used(value))
  const [out, back] = quantity === 'errors' ? ['At first end', 'At second end'] : ['First to second', 'Second to first']
  return (
    <div class="scroll" data-testid="links">
      <label class="filter">
        Filter <input type="search" value={words} onInput={(e) => setWords(e.currentTarget.value)} placeholder="names of ends, GUIDs" />
      </label>
      <table>
        <caption>
          {Math.min(order.length, ROWS)} of {order.length} links, the highest {own === null ? quantity : 'share of their speed by the job'} first
        </caption>
        <thead>
          <tr>
            <th scope="col">Link</th>
            <th scope="col" class="n">
              Speed
            </th>
            <th scope="col" class="n">
              {out}
            </th>
            <th scope="col" class="n">
              {back}
            </th>
            <th scope="col">State</th>
          </tr>
        </thead>
        <tbody>
          {order.slice(0, ROWS).map((i) => (
            <tr key={i}>
              <td>
                <button type="button" class="plain" onClick={() => choose({ link: i })}>
                  {linkName(topology, i)}
                </button>
              </td>
              <td class="n">{rate(topology.links.bytes_per_second[i])}</td>
              <td class="n">
                <Swatch step={step(quantity, values?.a[i], load?.thresholds)} preferences={preferences} /> {format(values?.a[i])}
              </td>
              <td class="n">
                <Swatch step={step(quantity, values?.b[i], load?.thresholds)} preferences={preferences} /> {format(values?.b[i])}
              </td>
              <td>{topology.states[topology.links.state[i] as number]}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

/** The link that the server finds by a GUID which the topology here does not have: that of an adapter's port. */
function useNamed(topology: Topology, words: string): number | null {
  const [named, setNamed] = useState<number | null>(null)
  useEffect(() => {
    setNamed(null)
    if (!isGuid(words)) return undefined
    const stop = new AbortController()
    const find = async () => {
      // Of another subnet, of none, or of several: nothing is shown.
      const found = await fetchJson<LinkName>(address(`/link-names/${encodeURIComponent(words)}`), stop.signal).catch(() => null)
      if (!stop.signal.aborted && found?.subnet === topology.subnet) setNamed(findLink(topology, found.link))
    }
    void find()
    return () => stop.abort()
  }, [topology, words])
  return named
}
