// The fabric map: the whole subnet drawn, coloured by what links carry, now or at any past time.
import type { ComponentChildren } from 'preact'
import { useEffect, useMemo, useState } from 'preact/hooks'
import { type JobLinkShares, type Load, type Overlay, type Topology, type Tree, address, part, type Subnets } from '../api/client.ts'
import { type Live, useLive } from '../api/live.ts'
import { QUANTITIES, type Quantity, colours, legend } from '../colour.ts'
import { jobValues } from '../shares.ts'
import type { Preferences } from '../shell/preferences.ts'
import { MaybeStale, Status, Unknown } from '../shell/status.tsx'
import { TimeBar } from '../shell/time.tsx'
import { moment } from '../text.ts'
import { oneOf, setQuery, unknownValues } from '../url.ts'
import { FabricCanvas } from './canvas.tsx'
import { layout } from './layout.ts'
import { LinkPanel } from './link-panel.tsx'
import { type Values, linkId, openLeaves, overlaidPlaces, pickOf, stepsOf, stepsOfShares, toggled } from './model.ts'
import { NodePanel } from './node-panel.tsx'
import { Overlaid, OverlayChoice, useJobShares, useOverlay } from './overlay.tsx'
import type { Pick } from './picture.ts'
import { Headline } from './headline.tsx'
import { LinkTable } from './table.tsx'

/** The server caches one response for all readers; crawlers sweep every few seconds. */
const LIVE_MS = 2_000
const WINDOWS = ['10', '60', '300', '3600'] as const
const WINDOW_NAMES: Record<string, string> = { '10': '10 s', '60': '1 min', '300': '5 min', '3600': '1 h' }
/** In place of a subnet: all of them. */
const ALL = 'all'
/** Subnets of a site that are all shown unless one is chosen: each map is drawn by itself, and read each 2 s. */
const SHOWN_AT_ONCE = 4
const NAMES: Record<Quantity, string> = { utilisation: 'utilisation', waiting: 'time waiting to send', errors: 'errors' }

export function FabricPage({ query, preferences }: { query: URLSearchParams; preferences: Preferences }) {
  const subnets = useLive<Subnets>(address('/subnets'), 60_000)
  const others = (subnets.data?.subnets ?? []).map((s) => s.subnet)
  const subnet = query.get('subnet') ?? (others.length > 1 && others.length <= SHOWN_AT_ONCE ? ALL : (others[0] ?? null))
  if (subnet === null) {
    return (
      <section class="page">
        <Status of={[subnets]} what="list of fabrics" />
        {subnets.data && <p>No fabric has been discovered yet: run `throughline-fabric run` on a host with an adapter.</p>}
      </section>
    )
  }
  // A site with several rails: all of them under each other.
  if (subnet === ALL) return <Rails others={others} query={query} preferences={preferences} />
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
  const at = query.get('at') ?? undefined
  const window = oneOf(WINDOWS, query.get('window'))
  const base = `/fabric/${part(subnet)}`
  const topology = useLive<Topology>(address(`${base}/topology`, { at }), undefined, true)
  const load = useLive<Load>(address(`${base}/load`, { at, window }), at === undefined ? LIVE_MS : undefined, true)
  const overlay = useOverlay(base, query)
  const shares = useJobShares(query)
  const wanted = load.data?.topology
  const [fetched, setFetched] = useState('')
  useEffect(() => {
    // Once for each version: a server whose answers disagree must not be queried forever.
    if (wanted === undefined || wanted === topology.data?.version || wanted === fetched || topology.data === undefined) return
    setFetched(wanted)
    topology.again()
  }, [wanted, topology.data?.version])
  return { at, window, topology, load, overlay, shares }
}

/** The maps of all subnets under each other, at one time and with one job over them. */
function Rails({ others, query, preferences }: Omit<Shown, 'subnet'>) {
  const quantity = oneOf(QUANTITIES, query.get('colour'))
  const load = useLive<Load>(others[0] === undefined ? null : address(`/fabric/${part(others[0])}/load`, { at: query.get('at') ?? undefined }), undefined)
  return (
    <section class="fabric" aria-label="Fabric maps">
      <Toolbar subnet={ALL} others={others} query={query} quantity={quantity} window={oneOf(WINDOWS, query.get('window'))} />
      <Unknown list={unknownValues(query, { colour: QUANTITIES, window: WINDOWS })} />
      <div class="rails">
        {others.map((subnet) => (
          <Rail key={subnet} {...{ subnet, others, query, preferences }} />
        ))}
      </div>
      <TimeBar at={query.get('at') ?? undefined} shown={load.data?.at_ms} table="ib_port_counters" />
    </section>
  )
}

function Subnet(shown: Shown) {
  const { at, window, topology, load, overlay, shares } = useFabric(shown.subnet, shown.query)
  const quantity = oneOf(QUANTITIES, shown.query.get('colour'))
  return (
    <section class="fabric" aria-label="Fabric map">
      <Toolbar {...shown} quantity={quantity} window={window} />
      <Unknown list={unknownValues(shown.query, { colour: QUANTITIES, window: WINDOWS })} />
      <Drawn {...shown} {...{ topology, load, overlay, shares, quantity }} isOnly={true} />
      <TimeBar at={at} shown={load.data?.at_ms} table="ib_port_counters" />
    </section>
  )
}

/** One of several subnets. */
function Rail(shown: Shown) {
  const { topology, load, overlay, shares } = useFabric(shown.subnet, shown.query)
  return (
    <section class="rail" aria-label={`Fabric ${shown.subnet}`} data-testid="rail">
      <h2>Fabric {shown.subnet}</h2>
      <Drawn {...shown} {...{ topology, load, overlay, shares }} quantity={oneOf(QUANTITIES, shown.query.get('colour'))} isOnly={false} />
    </section>
  )
}

interface DrawnProps extends Shown {
  topology: Live<Topology>
  load: Live<Load>
  overlay: Live<Overlay | Tree>
  shares: Live<JobLinkShares>
  quantity: Quantity
  /** No other subnet is shown beside it. */
  isOnly: boolean
}

/** Legend, and map or table. */
function Drawn({ topology, load, overlay, shares, query, preferences, quantity, isOnly }: DrawnProps) {
  const shown = topology.data
  const own = useOwn(shown, shares.data, query, quantity)
  const isTable = query.get('table') === '1'
  return (
    <>
      <Status of={[topology, load]} what="fabric" />
      <Status of={[overlay]} what={`${query.get('job') === null ? 'multicast group' : 'job'} on the map`} />
      {shown && shown.nodes.guid.length > 0 && <Headline topology={shown} load={load.data} />}
      <Legend quantity={quantity} preferences={preferences} load={load.data} isOwn={own !== null}>
        {shown && overlay.data !== undefined && <Overlaid overlay={overlay.data} topology={shown} shares={shares.data} coloured={own?.links.length ?? null} />}
      </Legend>
      <div class="stage">
        {shown && shown.nodes.guid.length === 0 && <p>Nothing is known of the fabric at this time: the slider below spans what is.</p>}
        {shown && shown.nodes.guid.length > 0 && (
          <MaybeStale live={load.error ? load : topology}>
            <Stage {...{ query, preferences, quantity, isTable, own, isOnly }} topology={shown} load={load.data} overlay={overlay.data} />
          </MaybeStale>
        )}
      </div>
    </>
  )
}

/** What the chosen job put on links, where it is what colours them. */
function useOwn(topology: Topology | undefined, shares: JobLinkShares | undefined, query: URLSearchParams, quantity: Quantity) {
  const isWanted = quantity === 'utilisation' && query.get('bytes') !== 'all' && query.get('job') !== null
  return useMemo(() => (topology === undefined || !isWanted ? null : jobValues(topology, shares)), [topology, shares, isWanted])
}

interface StageProps {
  query: URLSearchParams
  preferences: Preferences
  quantity: Quantity
  isTable: boolean
  topology: Topology
  load: Load | undefined
  overlay: Overlay | Tree | undefined
  /** What the chosen job put on links. */
  own: (Values & { links: number[] }) | null
  isOnly: boolean
}

/** Map or table, and the panel of what is chosen. */
function Stage({ query, preferences, quantity, isTable, topology, load, overlay, own, isOnly }: StageProps) {
  const open = query.get('open')
  const placed = useMemo(() => layout(topology, openLeaves(topology, open)), [topology, open])
  const steps = useMemo(() => (own === null ? stepsOf(topology, load, quantity) : stepsOfShares(own, load?.thresholds)), [topology, load, quantity, own])
  const places = useMemo(() => overlaidPlaces(topology, overlay), [topology, overlay])
  // Links on which it has bytes are lit, and not those that it could use.
  const overlaid = useMemo(() => (places === null || own === null ? places : { ...places, links: own.links }), [places, own])
  const [link, node] = [query.get('link'), query.get('node')]
  const pick = useMemo(() => pickOf(topology, link, node), [topology, link, node])
  const choose = (chosen: Pick | null) => setQuery(chosenQuery(topology, chosen), true)
  const toggle = (leaf: number) => setQuery({ open: toggled(topology, open, leaf) }, true)
  // Of several subnets, one has it.
  const missing = isOnly && pick === null && (link !== null || node !== null)
  const matching = load !== undefined && load.topology === topology.version ? load : undefined
  return (
    <>
      {isTable ? (
        <LinkTable {...{ topology, quantity, preferences, choose, own }} load={matching} />
      ) : (
        <FabricCanvas {...{ topology, placed, steps, overlaid, pick, preferences, query, choose, toggle, quantity, own }} load={matching} />
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
          Fabric{' '}
          <select value={subnet} onChange={(e) => setQuery({ subnet: e.currentTarget.value, link: undefined, node: undefined }, true)}>
            {others.map((name) => (
              <option key={name}>{name}</option>
            ))}
            <option value={ALL}>all</option>
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
      <OverlayChoice base={`/fabric/${part(subnet === ALL ? (others[0] ?? ALL) : subnet)}`} query={query} />
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
  /** Colours are of one job's bytes. */
  isOwn: boolean
  children: ComponentChildren
}

function Legend({ quantity, preferences, load, isOwn, children }: LegendProps) {
  const list = colours(preferences.palette, preferences.theme)
  return (
    <div class="legend">
      <span>{isOwn ? 'Each half by what the job sends at its end:' : quantity === 'errors' ? 'At each end, errors:' : 'Each half by what its end sends:'}</span>
      {legend(quantity, load?.thresholds).map((text, i) => (
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
