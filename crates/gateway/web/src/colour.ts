// What colour a value has: steps of utilisation, waiting and errors, and the two palettes in light and dark.

/** What the halves of links are coloured by. */
export type Quantity = 'utilisation' | 'waiting' | 'errors'
export const QUANTITIES: readonly Quantity[] = ['utilisation', 'waiting', 'errors']

/** `site`: grey, greens, orange, red, as the dashboards; `blind`: grey, blues, orange and a last one by its brightness,
 * distinguishable without red and green. */
export type Palette = 'site' | 'blind'
export const PALETTES: readonly Palette[] = ['site', 'blind']
export type Theme = 'light' | 'dark'

/** Index into a palette: 0 not known, 1 nothing, 2 to 5 rising. */
export type Step = 0 | 1 | 2 | 3 | 4 | 5
export const UNKNOWN: Step = 0
export const STEPS = 6

/** Upper ends of steps 2, 3 and 4. */
export type Ends = readonly [number, number, number]
/** Shares of one thing of another where no threshold is known. */
const SHARE_ENDS: Ends = [0.25, 0.5, 0.75]
/** Errors a second: a few an hour, one a minute, one a second. */
const ERROR_ENDS: Ends = [1 / 600, 1 / 60, 1]
/** Less than this share is shown as nothing: management packets alone make 1e-6. */
const NOTHING = 0.0005

interface Threshold {
  busy_above: number
  full_above: number
}
/** Those that the site has for what is shown of links. */
export type Thresholds = Record<Exclude<Quantity, 'errors'>, Threshold>

/** Upper ends of steps 2, 3 and 4 by a threshold: half of what is busy, busy, full. */
export const endsOf = (threshold: Threshold): Ends => [threshold.busy_above / 2, threshold.busy_above, threshold.full_above]

/** The ends of a quantity, by the thresholds of the site where they are known. */
export function endsFor(quantity: Quantity, thresholds: Thresholds | undefined): Ends {
  if (quantity === 'errors') return ERROR_ENDS
  return thresholds === undefined ? SHARE_ENDS : endsOf(thresholds[quantity])
}

/** The step of a value; null and undefined are not known, which is not nothing. */
export function step(quantity: Quantity, value: number | null | undefined, thresholds?: Thresholds): Step {
  return stepAbove(endsFor(quantity, thresholds), quantity === 'errors' ? 0 : NOTHING, value)
}

/** The step of a share of a link's speed between such ends. */
export const stepBetween = (ends: Ends, value: number | null | undefined): Step => stepAbove(ends, NOTHING, value)

function stepAbove(ends: Ends, nothing: number, value: number | null | undefined): Step {
  if (value === null || value === undefined || Number.isNaN(value)) return UNKNOWN
  if (value <= nothing) return 1
  return value <= ends[0] ? 2 : value <= ends[1] ? 3 : value <= ends[2] ? 4 : 5
}

/** The legend's text for each step. */
export function legend(quantity: Quantity, thresholds?: Thresholds): string[] {
  return quantity === 'errors' ? ['not read', 'none', 'to 6 an hour', 'to 1 a minute', 'to 1 a second', 'more'] : legendOf(endsFor(quantity, thresholds))
}

/** The legend of such ends. */
export const legendOf = (ends: Ends): string[] => ['not read', '0', ...ends.map((end) => `to ${Math.round(end * 100)} %`), 'more']

const COLOURS: Record<Palette, Record<Theme, readonly string[]>> = {
  site: {
    light: ['#d9dde6', '#a3a8b0', '#7fcf7f', '#1d7a32', '#ef8a17', '#cf1f1f'],
    dark: ['#2c323c', '#6b727d', '#9be29b', '#35a54f', '#ff9d2e', '#ff4b4b'],
  },
  blind: {
    light: ['#d9dde6', '#a3a8b0', '#8cc4ea', '#1f66b0', '#ef8a17', '#7d0f16'],
    dark: ['#2c323c', '#6b727d', '#3d7fd6', '#a9d6f5', '#ff9a1f', '#ffe98a'],
  },
}

/** The six colours of a palette, as #rrggbb. */
export function colours(palette: Palette, theme: Theme): readonly string[] {
  return COLOURS[palette][theme]
}

/** #rrggbb as three numbers from 0 to 1. */
export function rgb(colour: string): [number, number, number] {
  const n = Number.parseInt(colour.slice(1), 16)
  return [(n >> 16) / 255, ((n >> 8) & 255) / 255, (n & 255) / 255]
}

/** Colours of a rising quantity without steps (matrix cells), dark to light: viridis' five corners, which colour-blind
 * readers can order. */
const RAMP = ['#440154', '#3b528b', '#21918c', '#5ec962', '#fde725'].map(rgb)

/** The ramp's colour at a share from 0 to 1, as bytes. */
export function ramp(share: number): [number, number, number] {
  const at = Math.min(Math.max(share, 0), 1) * (RAMP.length - 1)
  const i = Math.min(Math.floor(at), RAMP.length - 2)
  const from = RAMP[i] as [number, number, number]
  const to = RAMP[i + 1] as [number, number, number]
  const mix = (k: 0 | 1 | 2) => Math.round((from[k] + (to[k] - from[k]) * (at - i)) * 255)
  return [mix(0), mix(1), mix(2)]
}
