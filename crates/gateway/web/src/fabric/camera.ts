// Which part of the unit square is visible: pan and zoom, as numbers only. Zooming in spreads the width fully and the
// height much less: a fabric is many switches wide and few layers high, and both ends of a cable should stay in sight.

export interface Camera {
  /** Middle of what is visible, in the unit square. */
  x: number
  y: number
  /** Magnification of the width; 1 shows all. */
  zoom: number
}
export const WHOLE: Camera = { x: 0.5, y: 0.5, zoom: 1 }
const ZOOM_MAX = 400
/** Part of the canvas that the square fills at zoom 1. */
const FILL = 0.94
const HEIGHT_POWER = 0.35

export interface Size {
  width: number
  height: number
}
/** Pixels = position × scale + shift. */
export interface Mapping {
  scaleX: number
  scaleY: number
  shiftX: number
  shiftY: number
}

export function mapping(camera: Camera, size: Size): Mapping {
  const scaleX = camera.zoom * FILL * size.width
  const scaleY = camera.zoom ** HEIGHT_POWER * FILL * size.height
  return { scaleX, scaleY, shiftX: size.width / 2 - camera.x * scaleX, shiftY: size.height / 2 - camera.y * scaleY }
}

const clamp = (value: number, low: number, high: number) => Math.min(Math.max(value, low), high)

/** Limits the camera so that part of the square stays visible. */
export function clamped(camera: Camera): Camera {
  return { x: clamp(camera.x, -0.1, 1.1), y: clamp(camera.y, -0.1, 1.1), zoom: clamp(camera.zoom, 0.5, ZOOM_MAX) }
}

/** Moves what is visible with the hand: by pixels. */
export function pan(camera: Camera, size: Size, dx: number, dy: number): Camera {
  const map = mapping(camera, size)
  return clamped({ ...camera, x: camera.x - dx / map.scaleX, y: camera.y - dy / map.scaleY })
}

/** Zooms by a factor; the point under (px, py) stays where it is. */
export function zoomAt(camera: Camera, size: Size, factor: number, px: number, py: number): Camera {
  const zoom = clamp(camera.zoom * factor, 0.5, ZOOM_MAX)
  const before = mapping(camera, size)
  const after = mapping({ ...camera, zoom }, size)
  const x = (px - before.shiftX) / before.scaleX
  const y = (py - before.shiftY) / before.scaleY
  return clamped({
    zoom,
    x: x - (px - size.width / 2) / after.scaleX,
    y: y - (py - size.height / 2) / after.scaleY,
  })
}

/** A camera that has all of the points in sight, with room around them, for a search's or a selection's sake. */
export function around(points: readonly (readonly [number, number])[], zoomMax: number): Camera {
  if (points.length === 0) return WHOLE
  const [left, right] = ends(points.map(([x]) => x))
  const [top, bottom] = ends(points.map(([, y]) => y))
  const wide = ROOM / Math.max(right - left, 1e-6)
  const high = (ROOM / Math.max(bottom - top, 1e-6)) ** (1 / HEIGHT_POWER)
  const zoom = clamp(Math.min(wide, high), 1, zoomMax)
  // Half of what is visible. No more than the square is shown, and of the height what lies nearest to its middle: at this
  // scale all layers nearly fit.
  const half = 0.5 / FILL
  const x = clamp((left + right) / 2, Math.min(half / zoom - EDGE, 0.5), Math.max(1 - half / zoom + EDGE, 0.5))
  const tall = half / zoom ** HEIGHT_POWER - EDGE
  const y = clamp(0.5, Math.min(bottom - tall, (top + bottom) / 2), Math.max(top + tall, (top + bottom) / 2))
  return clamped({ x, y, zoom })
}

/** Share of what is visible that points may lie apart, and room that is left beside them. */
const ROOM = 0.94
const EDGE = 0.03
const ends = (list: number[]): [number, number] => [Math.min(...list), Math.max(...list)]

/** As text for the URL, and back; undefined where it is the whole. */
export function cameraText(camera: Camera): string | undefined {
  const text = [camera.x.toFixed(4), camera.y.toFixed(3), camera.zoom.toPrecision(3)].join(',')
  return text === '0.5000,0.500,1.00' ? undefined : text
}

export function cameraOf(text: string | null): Camera {
  const parts = (text ?? '').split(',').map(Number)
  const [x, y, zoom] = parts
  if (parts.length !== 3 || parts.some((n) => !Number.isFinite(n))) return WHOLE
  return clamped({ x: x as number, y: y as number, zoom: zoom as number })
}
