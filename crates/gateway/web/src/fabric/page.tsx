// The fabric map: the whole subnet drawn, coloured by what links carry, now or at any past time.
import type { ComponentChildren } from 'preact'
import { useEffect, useMemo, useState } from 'preact/hooks'
import { type Load, type Overlay, type Topology, type Tree, address, part, type Subnets } from '../api/client.ts'
import { useLive } from '../api/live.ts'
import { QUANTITIES, type Quantity, colours, legend } from '../colour.ts'
import type { Preferences } from '../shell/preferences.ts'
import { MaybeStale, Status, Unknown } from '../shell/status.tsx'
import { TimeBar } from '../shell/time.tsx'
import { moment } from '../text.ts'
import { oneOf, setQuery, unknownValues } from '../url.ts'
import { FabricCanvas } from './canvas.tsx'
import { layout } from './layout.ts'
import { LinkPanel } from './link-panel.tsx'
import { linkId, openLeaves, overlaidPlaces, pickOf, stepsOf, toggled } from './model.ts'
import { NodePanel } from './node-panel.tsx'
import { Overlaid, OverlayChoice, useOverlay } from './overlay.tsx'
import type { Pick } from './picture.ts'
import { LinkTable } from './table.tsx'

/** The server caches one response for all readers; crawlers sweep every few seconds. */
const LIVE_MS = 2_000
const WINDOWS = ['10', '60', '300', '3600'] as const
const WINDOW_NAMES: Record<string, string> = { '10': '10 s', '60': '1 min', '300': '5 min', '3600': '1 h' }
const NAMES: Record<Quantity, string> = { utilisation: 'utilisation', waiting: 'time waiting to send', errors: 'errors' }

export function FabricPage({ query, preferences }: { query: URLSearchParams; preferences: Preferences }) {
  const subnets = useLive<Subnets>(address('/subnets'), 60_000)
  const subnet = query.get('subnet') ?? subnets.data?.subnets[0]?.subnet ?? null
  if (subnet === null) {
    return (
      <section class="page">
        <Status of={[subnets]} what="list of subnets" />
        {subnets.data && <p>No fabric has been discovered yet: run `throughline-fabric run` on a host with an adapter.</p>}
      </section>
    )
  }
  const others = (subnets.data?.subnets ?? []).map((s) => s.subnet)
  return <Subnet key={subnet} subnet={subnet} others={others} query={query} preferences={preferences} />
}

interface Shown {
  subnet: string
  others: string[]
  query: URLSearchParams
  preferences: Preferences
}

/** Answers about the subnet at the time of the URL; the topology is fetched again when the load is of another. */
function useFabric(subnet: string, query: URLSearchParams) {
  const at = query.get('t') ?? undefined
  const window = oneOf(WINDOWS, query.get('window'))
  const base = `/fabric/${part(subnet)}`
  const topology = useLive<Topology>(address(`${base}/topology`, { at }), undefined, true)
  const load = useLive<Load>(address(`${base}/load`, { at, window }), at === undefined ? LIVE_MS : undefined, true)
  const overlay = useOverlay(base, query)
  const wanted = load.data?.topology
  const [fetched, setFetched] = useState('')
  useEffect(() => {
    // Once for each version: a server whose answers disagree must not be queried forever.
    if (wanted === undefined || wanted === topology.data?.version || wanted === fetched || topology.data === undefined) return
    setFetched(wanted)
    topology.again()
  }, [wanted, topology.data?.version])
  return { at, window, topology, load, overlay }
}

function Subnet({ subnet, others, query, preferences }: Shown) {
  const { at, window, topology, load, overlay } = useFabric(subnet, query)
  const quantity = oneOf(QUANTITIES, query.get('colour'))
  const shown = topology.data
  const isTable = query.get('table') === '1'
  return (
    <section class="fabric" aria-label="Fabric map">
      <Toolbar subnet={subnet} others={others} query={query} quantity={quantity} window={window} />
      <Unknown list={unknownValues(query, { colour: QUANTITIES, window: WINDOWS })} />
      <Status of={[topology, load]} what="fabric" />
      <Status of={[overlay]} what={`${query.get('job') === null ? 'multicast group' : 'job'} on the map`} />
      <Legend quantity={quantity} preferences={preferences} load={load.data}>
        {shown && overlay.data !== undefined && <Overlaid overlay={overlay.data} topology={shown} />}
      </Legend>
      <div class="stage">
        {shown && shown.nodes.guid.length === 0 && <p>Nothing is known of the fabric at this time: the slider below spans what is.</p>}
        {shown && shown.nodes.guid.length > 0 && (
          <MaybeStale live={load.error ? load : topology}>
            <Stage {...{ query, preferences, quantity, isTable }} topology={shown} load={load.data} overlay={overlay.data} />
          </MaybeStale>
        )}
      </div>
      <TimeBar at={at} shown={load.data?.at_ms} table="ib_port_counters" />
    </section>
  )
}

interface StageProps {
  query: URLSearchParams
  preferences: Preferences
  quantity: Quantity
  isTable: boolean
  topology: Topology
  load: Load | undefined
  overlay: Overlay | Tree | undefined
}

/** Map or table, and the panel of what is chosen. */
function Stage({ query, preferences, quantity, isTable, topology, load, overlay }: StageProps) {
  const open = query.get('open')
  const placed = useMemo(() => layout(topology, openLeaves(topology, open)), [topology, open])
  const steps = useMemo(() => stepsOf(topology, load, quantity), [topology, load, quantity])
  const overlaid = useMemo(() => overlaidPlaces(topology, overlay), [topology, overlay])
  const [link, node] = [query.get('link'), query.get('node')]
  const pick = useMemo(() => pickOf(topology, link, node), [topology, link, node])
  const choose = (chosen: Pick | null) => setQuery(chosenQuery(topology, chosen), true)
  const toggle = (leaf: number) => setQuery({ open: toggled(topology, open, leaf) }, true)
  const missing = pick === null && (link !== null || node !== null)
  const matching = load !== undefined && load.topology === topology.version ? load : undefined
  return (
    <>
      {isTable ? (
        <LinkTable {...{ topology, quantity, preferences, choose }} load={matching} />
      ) : (
        <FabricCanvas {...{ topology, placed, steps, overlaid, pick, preferences, query, choose, toggle, quantity }} load={matching} />
      )}
      {missing && (
        <p class="note" role="status">
          {link ?? node} is not part of the fabric at this time.{' '}
          <button type="button" onClick={() => choose(null)}>
            Forget it
          </button>
        </p>
      )}
      {pick !== null && 'link' in pick && <LinkPanel key={linkId(topology, pick.link)} {...{ topology, query, choose, preferences }} link={pick.link} />}
      {pick !== null && 'node' in pick && (
        <NodePanel {...{ topology, choose, toggle, quantity, preferences }} node={pick.node} load={matching} isOpen={openLeaves(topology, open)(pick.node)} />
      )}
    </>
  )
}

function chosenQuery(topology: Topology, pick: Pick | null): Record<string, string | undefined> {
  if (pick === null) return { link: undefined, node: undefined }
  if ('link' in pick) return { link: linkId(topology, pick.link), node: undefined }
  return { link: undefined, node: topology.nodes.guid[pick.node] }
}

interface ToolbarProps {
  subnet: string
  others: string[]
  query: URLSearchParams
  quantity: Quantity
  window: string
}

function Toolbar({ subnet, others, query, quantity, window }: ToolbarProps) {
  const isTable = query.get('table') === '1'
  const allOpen = query.get('open') === 'all'
  return (
    <div class="toolbar">
      <h1>Fabric</h1>
      {others.length > 1 && (
        <label>
          Subnet{' '}
          <select value={subnet} onChange={(e) => setQuery({ subnet: e.currentTarget.value, link: undefined, node: undefined }, true)}>
            {others.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
      )}
      <label>
        Colour by{' '}
        <select value={quantity} onChange={(e) => setQuery({ colour: e.currentTarget.value === 'utilisation' ? undefined : e.currentTarget.value }, true)}>
          {QUANTITIES.map((name) => (
            <option key={name} value={name}>
              {NAMES[name]}
            </option>
          ))}
        </select>
      </label>
      <label>
        over{' '}
        <select value={window} onChange={(e) => setQuery({ window: e.currentTarget.value === '10' ? undefined : e.currentTarget.value }, true)}>
          {WINDOWS.map((seconds) => (
            <option key={seconds} value={seconds}>
              {WINDOW_NAMES[seconds]}
            </option>
          ))}
        </select>
      </label>
      <OverlayChoice base={`/fabric/${part(subnet)}`} query={query} />
      <span class="spring" />
      <button type="button" aria-pressed={allOpen} onClick={() => setQuery({ open: allOpen ? undefined : 'all' }, true)}>
        {allOpen ? 'Fold hosts' : 'Open all hosts'}
      </button>
      <button type="button" aria-pressed={isTable} onClick={() => setQuery({ table: isTable ? undefined : '1' }, true)}>
        {isTable ? 'Show map' : 'Show table'}
      </button>
    </div>
  )
}

interface LegendProps {
  quantity: Quantity
  preferences: Preferences
  load: Load | undefined
  children: ComponentChildren
}

function Legend({ quantity, preferences, load, children }: LegendProps) {
  const list = colours(preferences.palette, preferences.theme)
  return (
    <div class="legend">
      <span>{quantity === 'errors' ? 'At each end, errors:' : 'Each half by what its end sends:'}</span>
      {legend(quantity).map((text, i) => (
        <span key={text} class="key">
          <svg width="18" height="10" aria-hidden="true">
            <rect width="18" height="10" rx="2" fill={list[i]} />
          </svg>
          {text}
        </span>
      ))}
      <span class="spring" />
      {children}
      {load?.round && (
        <span>
          read {load.round.read} of {load.round.expected} ports at {moment(load.round.time_ms)}
        </span>
      )}
    </div>
  )
}
