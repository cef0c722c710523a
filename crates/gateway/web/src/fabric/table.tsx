// All links as a table, the worst first: what the map shows, for whoever reads rather than looks.
import { useMemo, useState } from 'preact/hooks'
import type { Load, Topology } from '../api/client.ts'
import { type Quantity, step } from '../colour.ts'
import type { Preferences } from '../shell/preferences.ts'
import { matches, rate, short, used } from '../text.ts'
import { type Values, linkName, valuesOf, worstFirst } from './model.ts'
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
  const order = useMemo(() => {
    const all = values === undefined ? topology.links.a.map((_, i) => i) : worstFirst(values)
    return words.trim() === '' ? all : all.filter((i) => matches(linkName(topology, i), words.trim()))
  }, [topology, values, words])
  const format = (value: number | null | undefined) => (quantity === 'errors' ? short(value, '/s') : used(value))
  const [out, back] = quantity === 'errors' ? ['At first end', 'At second end'] : ['First to second', 'Second to first']
  return (
    <div class="scroll" data-testid="links">
      <label class="filter">
        Filter <input type="search" value={words} onInput={(e) => setWords(e.currentTarget.value)} placeholder="names of ends" />
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
                <Swatch step={step(quantity, values?.a[i])} preferences={preferences} /> {format(values?.a[i])}
              </td>
              <td class="n">
                <Swatch step={step(quantity, values?.b[i])} preferences={preferences} /> {format(values?.b[i])}
              </td>
              <td>{topology.states[topology.links.state[i] as number]}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
