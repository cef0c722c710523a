// The map as a thing on the page: canvases, hand and keys, one drawn frame for any number of changes. Reports what was
// chosen and which part is visible; the page decides what that means. For tests the canvas's data have how often it was drawn,
// whether with loads, and whether nothing more is to come.
import type { Topology } from '../api/client.ts'
import { type Camera, type Size, WHOLE, mapping, pan, zoomAt } from './camera.ts'
import { FONT, type Row, drawLabels, rows } from './labels.ts'
import type { Placed } from './layout.ts'
import { type Emphases, type Pick, type Steps, halves, lanes, marks, pickAt } from './picture.ts'
import { type Look, Scene } from './scene.ts'

export interface ViewEvents {
  chosen: (pick: Pick | null) => void
  opened: (leaf: number) => void
  hovered: (pick: Pick | null, x: number, y: number) => void
  /** After a movement has come to rest. */
  moved: (camera: Camera) => void
}

const REACH_PX = 9
/** The same for the Enter key, which takes what is nearest to the middle. */
const KEY_REACH_PX = 120
/** A press that moves less than this is a click. */
const CLICK_PX = 4
/** A second click at the same place within this is one of a double click, as most desktops have it. */
const DOUBLE_MS = 500
const REST_MS = 200
/** Frames that take longer than this are drawn in software: then with fewer pixels while moving. */
const SLOW_FRAME_MS = 45
const COARSE = 0.5
/** Between looks whether frames are drawn: a part of what the last one took, from this on. */
const LOOK_MS = 4
const LOOK_SHARE = 0.2
/** Frames that may be under way at once: a second one keeps a fast card busy, and makes a slow one lag. */
const UNDER_WAY = 2
const KEY_PAN_PX = 60
const KEY_ZOOM = 1.4

export class FabricView {
  camera: Camera = WHOLE
  private readonly scene: Scene
  private readonly labels: CanvasRenderingContext2D
  private readonly sizes: ResizeObserver
  private size: Size = { width: 1, height: 1 }
  private frame = 0
  /** Whether something changed since the last frame was begun. */
  private isWanted = false
  private looking: ReturnType<typeof setTimeout> | undefined
  /** What the last frame with all pixels took. */
  private took = 0
  private isCoarse = false
  private isMoving = false
  private rest: ReturnType<typeof setTimeout> | undefined
  private topology: Topology | undefined
  private placed: Placed | undefined
  private lane: Float32Array = new Float32Array()
  private rows: Row[] = []
  private always: number[] = []
  /** What marks are drawn of. */
  private marked: { emphases: Emphases; placed: Placed } | undefined
  private text = { ink: '#000', halo: '#fff' }
  private readonly fingers = new Map<number, { x: number; y: number }>()
  private travelled = 0
  /** What the last click chose, where on the page and when. */
  private clicked: { pick: Pick | null; x: number; y: number; time: number } | undefined
  private readonly stop = new AbortController()

  constructor(
    private readonly canvas: HTMLCanvasElement,
    labels: HTMLCanvasElement,
    private readonly events: ViewEvents,
  ) {
    this.scene = new Scene(canvas)
    const context = labels.getContext('2d')
    if (context === null) throw new Error('this browser cannot draw text on a canvas')
    this.labels = context
    this.sizes = new ResizeObserver(() => this.resized())
    this.sizes.observe(canvas)
    this.listen()
  }

  setLook(look: Look, text: { ink: string; halo: string }): void {
    this.scene.setLook(look)
    this.text = text
    this.wake()
  }

  setGraph(topology: Topology, placed: Placed): void {
    if (this.topology !== topology) this.lane = lanes(topology.links)
    this.topology = topology
    this.placed = placed
    this.labels.font = FONT
    this.rows = rows(topology, placed, (text) => this.labels.measureText(text).width)
  }

  /** Colours and what stands out; `always` are nodes whose names are always shown. `isLoaded`: colours are of loads. */
  setState(steps: Steps, emphases: Emphases, always: number[], isLoaded: boolean): void {
    if (!this.topology || !this.placed) return
    this.canvas.dataset.loaded = String(isLoaded)
    this.always = always
    this.scene.setHalves(halves(this.topology, this.placed, this.lane, steps, emphases))
    // Loads come every few seconds and change no mark.
    if (this.marked?.emphases !== emphases || this.marked.placed !== this.placed) this.scene.setMarks(marks(this.topology, this.placed, emphases))
    this.marked = { emphases, placed: this.placed }
    this.wake()
  }

  setCamera(camera: Camera): void {
    this.camera = camera
    this.wake()
  }

  destroy(): void {
    this.stop.abort()
    this.sizes.disconnect()
    cancelAnimationFrame(this.frame)
    clearTimeout(this.looking)
    clearTimeout(this.rest)
    this.scene.destroy()
  }

  private resized(): void {
    this.size = { width: this.canvas.clientWidth, height: this.canvas.clientHeight }
    this.wake()
  }

  /** Draws with the next frame, but none while enough are under way: more would make the page wait for the graphics. */
  private wake(): void {
    this.isWanted = true
    this.canvas.dataset.still = 'false'
    if (this.frame === 0 && this.looking === undefined) this.look()
  }

  private look(): void {
    this.looking = undefined
    const { waiting, took } = this.scene.progress(performance.now())
    if (took !== undefined && !this.isCoarse) this.took = took
    const mayDraw = waiting < (this.took > SLOW_FRAME_MS ? 1 : UNDER_WAY)
    if (this.isWanted && mayDraw && this.frame === 0) this.frame = requestAnimationFrame(() => this.draw())
    if (waiting > 0) this.lookSoon()
    else if (!this.isWanted && !this.isMoving) this.canvas.dataset.still = 'true'
  }

  private lookSoon(): void {
    this.looking = setTimeout(() => this.look(), Math.max(LOOK_MS, Math.min(this.took, REST_MS) * LOOK_SHARE))
  }

  /** Radius of a mark: as much as its neighbours leave, neither too small to see nor clumsy. */
  private radius(scaleX: number): number {
    return Math.min(Math.max((this.placed?.pitch ?? 1) * scaleX * 0.36, 2.2), 8)
  }

  private lineWidth(): number {
    return Math.min(1 + Math.log2(Math.max(this.camera.zoom, 1)) * 0.35, 2.6)
  }

  private draw(): void {
    this.frame = 0
    if (!this.topology || !this.placed || this.size.width === 0) return
    this.isWanted = false
    const map = mapping(this.camera, this.size)
    const radius = this.radius(map.scaleX)
    const sharp = Math.min(window.devicePixelRatio || 1, 2)
    this.isCoarse = this.isMoving && this.took > SLOW_FRAME_MS
    this.scene.draw(map, this.size, sharp, this.isCoarse ? COARSE : 1, radius, this.lineWidth())
    const surface = this.labels.canvas
    const [w, h] = [Math.round(this.size.width * sharp), Math.round(this.size.height * sharp)]
    if (surface.width !== w || surface.height !== h) {
      surface.width = w
      surface.height = h
    }
    this.labels.setTransform(sharp, 0, 0, sharp, 0, 0)
    this.labels.clearRect(0, 0, this.size.width, this.size.height)
    drawLabels(this.labels, this.topology, this.placed, this.rows, this.always, map, this.size, radius, this.text)
    if (this.looking === undefined) this.lookSoon()
    this.canvas.dataset.drawn = String(Number(this.canvas.dataset.drawn ?? '0') + 1)
  }

  private move(camera: Camera): void {
    this.camera = camera
    this.isMoving = true
    this.wake()
    clearTimeout(this.rest)
    this.rest = setTimeout(() => {
      this.isMoving = false
      this.wake()
      this.events.moved(this.camera)
    }, REST_MS)
  }

  private pick(x: number, y: number, reach = REACH_PX): Pick | null {
    if (!this.topology || !this.placed) return null
    const map = mapping(this.camera, this.size)
    return pickAt(this.topology, this.placed, this.lane, map, this.lineWidth() + 1.2, x, y, reach)
  }

  private listen(): void {
    const { canvas } = this
    const options = { signal: this.stop.signal }
    canvas.addEventListener('pointerdown', (event) => this.pressed(event), options)
    canvas.addEventListener('pointermove', (event) => this.dragged(event), options)
    canvas.addEventListener('pointerup', (event) => this.released(event), options)
    canvas.addEventListener('pointercancel', (event) => this.fingers.delete(event.pointerId), options)
    canvas.addEventListener('pointerleave', () => this.events.hovered(null, 0, 0), options)
    canvas.addEventListener('dblclick', (event) => this.doubled(event), options)
    canvas.addEventListener('keydown', (event) => this.key(event), options)
    const wheel = (event: WheelEvent) => {
      event.preventDefault()
      const lines = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 16 : 1
      this.move(zoomAt(this.camera, this.size, Math.exp(-event.deltaY * lines * 0.0015), event.offsetX, event.offsetY))
    }
    canvas.addEventListener('wheel', wheel, { ...options, passive: false })
  }

  private pressed(event: PointerEvent): void {
    if (event.button !== 0) return
    this.canvas.setPointerCapture(event.pointerId)
    this.fingers.set(event.pointerId, { x: event.offsetX, y: event.offsetY })
    this.travelled = this.fingers.size > 1 ? CLICK_PX : 0
  }

  private dragged(event: PointerEvent): void {
    const before = this.fingers.get(event.pointerId)
    if (before === undefined) {
      this.events.hovered(this.pick(event.offsetX, event.offsetY), event.offsetX, event.offsetY)
      return
    }
    const now = { x: event.offsetX, y: event.offsetY }
    const [dx, dy] = [now.x - before.x, now.y - before.y]
    this.travelled += Math.abs(dx) + Math.abs(dy)
    this.fingers.set(event.pointerId, now)
    if (this.travelled < CLICK_PX) return
    const other = [...this.fingers].find(([id]) => id !== event.pointerId)?.[1]
    if (other === undefined) {
      this.move(pan(this.camera, this.size, dx, dy))
    } else {
      const spread = Math.hypot(now.x - other.x, now.y - other.y) / Math.max(Math.hypot(before.x - other.x, before.y - other.y), 1)
      this.move(zoomAt(this.camera, this.size, spread, (now.x + other.x) / 2, (now.y + other.y) / 2))
    }
  }

  private released(event: PointerEvent): void {
    if (!this.fingers.delete(event.pointerId) || this.travelled >= CLICK_PX || this.again(event) !== undefined) return
    const pick = this.pick(event.offsetX, event.offsetY)
    this.clicked = { pick, x: event.clientX, y: event.clientY, time: event.timeStamp }
    this.events.chosen(pick)
  }

  /** What the first click of a double click chose. Its panel stands beside the map by now, and another thing under the pointer. */
  private again(event: MouseEvent): { pick: Pick | null } | undefined {
    const first = this.clicked
    if (first === undefined || event.timeStamp - first.time > DOUBLE_MS) return undefined
    return Math.hypot(event.clientX - first.x, event.clientY - first.y) < CLICK_PX ? first : undefined
  }

  private doubled(event: MouseEvent): void {
    const first = this.again(event)
    const pick = first === undefined ? this.pick(event.offsetX, event.offsetY) : first.pick
    if (pick !== null && 'node' in pick && this.placed?.folded.has(pick.node)) this.events.opened(pick.node)
    else this.move(zoomAt(this.camera, this.size, 2, event.offsetX, event.offsetY))
  }

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return
    const [x, y] = [this.size.width / 2, this.size.height / 2]
    const moves: Record<string, () => Camera> = {
      ArrowLeft: () => pan(this.camera, this.size, KEY_PAN_PX, 0),
      ArrowRight: () => pan(this.camera, this.size, -KEY_PAN_PX, 0),
      ArrowUp: () => pan(this.camera, this.size, 0, KEY_PAN_PX),
      ArrowDown: () => pan(this.camera, this.size, 0, -KEY_PAN_PX),
      '+': () => zoomAt(this.camera, this.size, KEY_ZOOM, x, y),
      '=': () => zoomAt(this.camera, this.size, KEY_ZOOM, x, y),
      '-': () => zoomAt(this.camera, this.size, 1 / KEY_ZOOM, x, y),
      '0': () => WHOLE,
    }
    if (event.key === 'Escape') this.events.chosen(null)
    if (event.key === 'Enter') this.events.chosen(this.pick(x, y, KEY_REACH_PX))
    const made = moves[event.key]
    if (made === undefined) return
    event.preventDefault()
    this.move(made())
  }
}
