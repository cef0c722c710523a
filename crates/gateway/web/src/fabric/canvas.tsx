// Puts the map's view into the page, and describes the drawing for screen readers.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import type { Load, Topology } from '../api/client.ts'
import { type Quantity, colours, rgb } from '../colour.ts'
import type { Preferences } from '../shell/preferences.ts'
import { counted, percent, short, used } from '../text.ts'
import { setQuery } from '../url.ts'
import { around, cameraOf, cameraText } from './camera.ts'
import { type Placed, HOST_ROWS } from './layout.ts'
import { type Values, linkName, valuesOf } from './model.ts'
import { type Pick, type Steps, emphasise, isPlaced, linksOf } from './picture.ts'
import { FabricView } from './view.ts'

interface Props {
  topology: Topology
  placed: Placed
  steps: Steps
  /** Nodes and links of a job or a multicast group. */
  overlaid: { nodes: readonly number[]; links: readonly number[] } | null
  pick: Pick | null
  /** What the chosen job put on links, where that colours them. */
  own: Values | null
  load: Load | undefined
  quantity: Quantity
  preferences: Preferences
  query: URLSearchParams
  choose: (pick: Pick | null) => void
  toggle: (leaf: number) => void
}

const INK = { light: { ink: '#3c4654', accent: '#0b57d0', paper: '#ffffff' }, dark: { ink: '#b9c2cf', accent: '#7cb7ff', paper: '#14181f' } }

export function FabricCanvas(props: Props) {
  const { topology, placed, steps, overlaid, pick, load, preferences, query } = props
  const drawing = useRef<HTMLCanvasElement>(null)
  const names = useRef<HTMLCanvasElement>(null)
  const view = useRef<FabricView | null>(null)
  const [failure, setFailure] = useState('')
  const [hover, setHover] = useState<{ pick: Pick; x: number; y: number } | null>(null)
  /** The view that the address was given last. */
  const written = useRef<string | undefined>(undefined)
  const latest = useRef(props)
  latest.current = props

  useEffect(() => {
    if (drawing.current === null || names.current === null) return undefined
    try {
      view.current = new FabricView(drawing.current, names.current, {
        chosen: (chosen) => latest.current.choose(chosen),
        opened: (leaf) => latest.current.toggle(leaf),
        hovered: (found, x, y) => setHover(found === null ? null : { pick: found, x, y }),
        moved: (camera) => {
          written.current = cameraText(camera)
          setQuery({ view: written.current })
        },
      })
    } catch (cause) {
      setFailure(cause instanceof Error ? cause.message : String(cause))
    }
    return () => view.current?.destroy()
  }, [])

  useEffect(() => {
    const text = INK[preferences.theme]
    const palette = colours(preferences.palette, preferences.theme).map(rgb)
    view.current?.setLook({ palette, ink: rgb(text.ink), accent: rgb(text.accent), paper: rgb(text.paper) }, { ink: text.ink, halo: text.paper })
  }, [preferences.theme, preferences.palette])
  useEffect(() => view.current?.setGraph(topology, placed), [topology, placed])
  const near = useMemo(() => linksOf(topology), [topology])
  const emphases = useMemo(() => emphasise(topology, near, pick, overlaid), [topology, near, pick, overlaid])
  useEffect(() => {
    const always = [...endsOf(topology, pick), ...(overlaid !== null && overlaid.nodes.length <= 64 ? overlaid.nodes : [])]
    view.current?.setState(steps, emphases, always, load !== undefined)
  }, [topology, placed, steps, emphases])
  const wanted = query.get('view')
  useEffect(() => {
    // What the hand itself has written there is no order: it may have moved on meanwhile.
    if (view.current === null || (wanted ?? undefined) === written.current) return
    written.current = wanted ?? undefined
    view.current.setCamera(cameraOf(wanted))
  }, [wanted])
  // A search sets `find` to bring its result into view.
  const find = query.get('find')
  useEffect(() => {
    if (find === null || pick === null) return
    const points = foundWithNeighbours(topology, near, placed, pick)
      .map((i) => [placed.x[i] as number, placed.y[i] as number] as const)
    const camera = around(points, Math.max(1, 0.1 / placed.pitch / HOST_ROWS))
    setQuery({ find: undefined, view: cameraText(camera) })
  }, [find, pick, placed])

  const label = `Map of ${counted(topology.nodes.guid.length, 'node')} and ${counted(topology.links.a.length, 'link')}. Arrow keys move it, plus and minus zoom, 0 shows all, Enter chooses what is nearest to the middle, Escape ends a choice. The table has the same data.`
  if (failure !== '') return <p class="banner bad">The map can't be drawn: {failure}.</p>
  return (
    <div class="map">
      <canvas ref={drawing} tabIndex={0} role="img" aria-label={label} data-testid="map" />
      <canvas ref={names} class="names" aria-hidden="true" />
      {hover !== null && <Tip {...props} hover={hover} />}
    </div>
  )
}

function endsOf(topology: Topology, pick: Pick | null): number[] {
  if (pick === null) return []
  return 'node' in pick ? [pick.node] : [topology.links.a[pick.link] as number, topology.links.b[pick.link] as number]
}

/** What was found, or the leaf that it is folded into, and what hangs on it: a leaf without its spines has no context. */
function foundWithNeighbours(topology: Topology, near: number[][], placed: Placed, pick: Pick): number[] {
  const found = endsOf(topology, pick).map((i) => (isPlaced(placed, i) ? i : (topology.nodes.leaf[i] ?? i)))
  const others = 'link' in pick ? [] : found.flatMap((i) => near[i] ?? []).flatMap((i) => [topology.links.a[i] as number, topology.links.b[i] as number])
  return [...new Set([...found, ...others])].filter((i) => isPlaced(placed, i))
}

/** What lies under the pointer. */
function Tip({ topology, load, quantity, placed, own, hover }: Props & { hover: { pick: Pick; x: number; y: number } }) {
  const at = useRef<HTMLDivElement>(null)
  useEffect(() => {
    // Through the object model: the content security policy allows no style attributes.
    if (at.current === null) return
    at.current.style.left = `${hover.x + 14}px`
    at.current.style.top = `${hover.y + 14}px`
  })
  let text: string[]
  if ('link' in hover.pick) {
    const i = hover.pick.link
    const { name } = topology.nodes
    const [a, b] = [name[topology.links.a[i] as number], name[topology.links.b[i] as number]]
    const values = load === undefined ? null : valuesOf(load, quantity)
    const format = (value: number | null | undefined) => (quantity === 'errors' ? short(value, '/s') : used(value))
    text = [linkName(topology, i)]
    if (values !== null && quantity === 'errors') text.push(`${a}: ${format(values.a[i])}`, `${b}: ${format(values.b[i])}`)
    else if (values !== null) text.push(`${a} → ${b}: ${format(values.a[i])}`, `${b} → ${a}: ${format(values.b[i])}`)
    if (own !== null) text.push(`the job's own bytes → ${percent(own.a[i])}, ← ${percent(own.b[i])}`)
  } else {
    const i = hover.pick.node
    const hosts = placed.folded.get(i)?.length
    text = [topology.nodes.name[i] ?? '', `${topology.kinds[topology.nodes.kind[i] as number]}, LID ${topology.nodes.lid[i]}`]
    if (hosts !== undefined) text.push(`${counted(hosts, 'host')}: double click opens or folds`)
  }
  return (
    <div ref={at} class="tip" aria-hidden="true">
      {text.map((line) => (
        <div key={line}>{line}</div>
      ))}
    </div>
  )
}
