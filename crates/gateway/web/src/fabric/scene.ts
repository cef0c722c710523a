// Draws the fabric with WebGL 2: each half of a link and each node is two triangles whose vertices look their place up in
// a texture, so that a frame is two draw calls whatever the size of the fabric, and panning changes two uniforms. Instances
// of a quad would be a draw call each where graphics are drawn in software. Nor does any call here wait for the graphics:
// there that would be tenths of a second. Knows positions and steps, no meaning.
import * as twgl from 'twgl.js'
import type { Mapping, Size } from './camera.ts'

/** Numbers for each half of a link: x and y of its end, x and y of the middle, lane, look (see [`look`]), two of none. */
export const HALF = 8
/** Numbers for each node: x, y, shape (0 host, 1 switch, 2 leaf with folded hosts), look. */
export const MARK = 4
/** Numbers of a point of the texture. */
const POINT = 4
/** Points of a row of the texture: every browser has twice as many, and as many rows are room for a million links. */
const ROW = 1024
/** Two triangles. */
const VERTICES = 6

/** How much something stands out. */
export const PLAIN = 0
export const DIM = 1
export const LIT = 2
export type Emphasis = 0 | 1 | 2
/** Step of colour and emphasis in one number. */
export const look = (step: number, emphasis: Emphasis) => step + 8 * emphasis

/** The corner of a vertex, from (0, -1) to (1, 1), and points of the texture. */
const LOOKED_UP = `#version 300 es
precision highp float;
uniform highp sampler2D items;
vec2 corner_of(int vertex) {
  int i = vertex % ${VERTICES};
  return vec2(i == 1 || i == 3 || i == 4 ? 1.0 : 0.0, i == 2 || i >= 4 ? 1.0 : -1.0);
}
vec4 point_of(int i) {
  return texelFetch(items, ivec2(i % ${ROW}, i / ${ROW}), 0);
}
`
const HALF_VERTEX = `${LOOKED_UP}
uniform vec2 scale, shift, size;
uniform float width, spacing;
uniform vec3 palette[6];
out vec4 colour;
out float across;
out float reach;
void main() {
  int item = gl_VertexID / ${VERTICES};
  vec2 corner = corner_of(gl_VertexID);
  vec4 ends = point_of(item * 2);
  vec2 kind = point_of(item * 2 + 1).xy;
  float emphasis = floor(kind.y / 8.0);
  int step = int(kind.y - 8.0 * emphasis + 0.5);
  vec2 from = ends.xy * scale + shift;
  vec2 to = ends.zw * scale + shift;
  vec2 along = to - from;
  along /= max(length(along), 1e-3);
  vec2 side = vec2(-along.y, along.x);
  float half_width = width * (emphasis == 2.0 ? 1.2 : 0.5);
  reach = half_width + 0.5;
  across = corner.y * reach;
  vec2 at = mix(from, to, corner.x) + side * (across + kind.x * spacing);
  gl_Position = vec4(at / size * vec2(2.0, -2.0) + vec2(-1.0, 1.0), 0.0, 1.0);
  colour = vec4(palette[step], emphasis == 1.0 ? 0.1 : (step <= 1 && emphasis == 0.0 ? 0.55 : 0.95));
}`
const HALF_FRAGMENT = `#version 300 es
precision mediump float;
in vec4 colour;
in float across;
in float reach;
out vec4 result;
void main() {
  float cover = clamp(reach - abs(across), 0.0, 1.0);
  float alpha = colour.a * cover;
  result = vec4(colour.rgb * alpha, alpha);
}`
const MARK_VERTEX = `${LOOKED_UP}
uniform vec2 scale, shift, size;
uniform float radius;
uniform vec3 ink, accent, paper;
out vec2 at;
out float extent;
out vec3 fill;
flat out float shape;
out float alpha;
out vec3 edge;
void main() {
  vec2 corner = corner_of(gl_VertexID);
  vec4 mark = point_of(gl_VertexID / ${VERTICES});
  float emphasis = floor(mark.w / 8.0);
  shape = mark.z;
  extent = radius * (shape == 0.0 ? 0.75 : 1.0) * (emphasis == 2.0 ? 1.35 : 1.0);
  at = (vec2(corner.x * 2.0 - 1.0, corner.y)) * (extent + 1.0);
  vec2 centre = mark.xy * scale + shift;
  gl_Position = vec4((centre + at) / size * vec2(2.0, -2.0) + vec2(-1.0, 1.0), 0.0, 1.0);
  fill = emphasis == 2.0 ? accent : ink;
  edge = paper;
  alpha = emphasis == 1.0 ? 0.3 : 1.0;
}`
const MARK_FRAGMENT = `#version 300 es
precision mediump float;
in vec2 at;
in float extent;
in vec3 fill;
in vec3 edge;
flat in float shape;
in float alpha;
out vec4 result;
void main() {
  float away = shape == 0.0 ? length(at) : max(abs(at.x), abs(at.y));
  float cover = clamp(extent - away + 0.5, 0.0, 1.0) * alpha;
  float rim = extent > 4.0 ? clamp(extent - 1.0 - away + 0.5, 0.0, 1.0) : 1.0;
  result = vec4(mix(edge, fill, rim) * cover, cover);
}`

/** Colours of a theme, as shares. */
export interface Look {
  palette: readonly (readonly [number, number, number])[]
  ink: readonly [number, number, number]
  accent: readonly [number, number, number]
  paper: readonly [number, number, number]
}

interface Layer {
  program: twgl.ProgramInfo
  items: WebGLTexture
  /** Rows of the texture. */
  rows: number
  count: number
}

export class Scene {
  private readonly gl: WebGL2RenderingContext
  private readonly halves: Layer
  private readonly marks: Layer
  /** Where coarse frames are drawn. Resizing the canvas for them instead would wait for all that is being drawn. */
  private coarse: { frame: WebGLFramebuffer; texture: WebGLTexture; w: number; h: number } | undefined
  /** Frames that are being drawn: what is signalled when one is done, and when it was begun. */
  private readonly underWay: { done: WebGLSync; begun: number }[] = []
  private doneAt = 0
  private theme: Look = { palette: [], ink: [0, 0, 0], accent: [0, 0, 0], paper: [1, 1, 1] }

  /** Throws where the browser has no WebGL 2. */
  constructor(private readonly canvas: HTMLCanvasElement) {
    const gl = canvas.getContext('webgl2', { antialias: false, alpha: true, premultipliedAlpha: true })
    if (gl === null) throw new Error('this browser has no WebGL 2: the table of links has the same data')
    this.gl = gl
    this.halves = layer(gl, HALF_VERTEX, HALF_FRAGMENT)
    this.marks = layer(gl, MARK_VERTEX, MARK_FRAGMENT)
    gl.enable(gl.BLEND)
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA)
  }

  setLook(theme: Look): void {
    this.theme = theme
  }

  /** Replaces the halves of links: [`HALF`] numbers for each, those to be on top last. */
  setHalves(data: Float32Array): void {
    fill(this.gl, this.halves, data, HALF)
  }

  /** Replaces the nodes: [`MARK`] numbers for each. */
  setMarks(data: Float32Array): void {
    fill(this.gl, this.marks, data, MARK)
  }

  /** How many frames are still being drawn, and what the last one that is done took, in milliseconds. */
  progress(now: number): { waiting: number; took: number | undefined } {
    const { gl, underWay } = this
    let took: number | undefined
    for (let first = underWay[0]; first !== undefined; first = underWay[0]) {
      if (!gl.isContextLost() && gl.getSyncParameter(first.done, gl.SYNC_STATUS) !== gl.SIGNALED) break
      gl.deleteSync(first.done)
      underWay.shift()
      // It may have waited for the one before.
      took = now - Math.max(first.begun, this.doneAt)
      this.doneAt = now
    }
    return { waiting: underWay.length, took }
  }

  /** Draws a frame; sizes are in CSS pixels, and the canvas has `full` pixels for each of them. With a share below 1 only so many
   * pixels of it are drawn each way, and made larger. */
  draw(map: Mapping, size: Size, full: number, share: number, radius: number, width: number): void {
    const gl = this.gl
    const [wide, high] = [Math.round(size.width * full), Math.round(size.height * full)]
    if (this.canvas.width !== wide || this.canvas.height !== high) {
      this.canvas.width = wide
      this.canvas.height = high
    }
    const ratio = full * share
    const w = Math.round(size.width * ratio)
    const h = Math.round(size.height * ratio)
    gl.bindFramebuffer(gl.FRAMEBUFFER, share < 1 ? this.coarseFrame(w, h) : null)
    gl.viewport(0, 0, w, h)
    gl.clearColor(0, 0, 0, 0)
    gl.clear(gl.COLOR_BUFFER_BIT)
    const shared = {
      scale: [map.scaleX * ratio, map.scaleY * ratio],
      shift: [map.shiftX * ratio, map.shiftY * ratio],
      size: [w, h],
    }
    const palette = this.theme.palette.flat()
    this.paint(this.halves, { ...shared, palette, width: width * ratio, spacing: (width + 1.2) * ratio })
    const { ink, accent, paper } = this.theme
    this.paint(this.marks, { ...shared, ink, accent, paper, radius: radius * ratio })
    if (share < 1) {
      gl.bindFramebuffer(gl.DRAW_FRAMEBUFFER, null)
      gl.blitFramebuffer(0, 0, w, h, 0, 0, wide, high, gl.COLOR_BUFFER_BIT, gl.LINEAR)
    }
    const done = gl.fenceSync(gl.SYNC_GPU_COMMANDS_COMPLETE, 0)
    if (done !== null) this.underWay.push({ done, begun: performance.now() })
    gl.flush()
  }

  private coarseFrame(w: number, h: number): WebGLFramebuffer {
    const gl = this.gl
    if (this.coarse?.w === w && this.coarse.h === h) return this.coarse.frame
    const { frame, texture } = this.coarse ?? { frame: gl.createFramebuffer(), texture: gl.createTexture() }
    gl.bindTexture(gl.TEXTURE_2D, texture)
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA8, w, h, 0, gl.RGBA, gl.UNSIGNED_BYTE, null)
    gl.bindFramebuffer(gl.FRAMEBUFFER, frame)
    gl.framebufferTexture2D(gl.FRAMEBUFFER, gl.COLOR_ATTACHMENT0, gl.TEXTURE_2D, texture, 0)
    this.coarse = { frame, texture, w, h }
    return frame
  }

  private paint(layer: Layer, uniforms: Record<string, unknown>): void {
    if (layer.count === 0) return
    const gl = this.gl
    gl.useProgram(layer.program.program)
    twgl.setUniforms(layer.program, { ...uniforms, items: layer.items })
    gl.drawArrays(gl.TRIANGLES, 0, layer.count * VERTICES)
  }

  destroy(): void {
    this.gl.getExtension('WEBGL_lose_context')?.loseContext()
  }
}

function layer(gl: WebGL2RenderingContext, vertex: string, fragment: string): Layer {
  const problems: string[] = []
  const program = twgl.createProgramInfo(gl, [vertex, fragment], (text) => problems.push(text))
  if (!program?.program) throw new Error(`the drawing program is refused by this browser: ${problems.join(' ')}`)
  const items = gl.createTexture()
  gl.bindTexture(gl.TEXTURE_2D, items)
  gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MIN_FILTER, gl.NEAREST)
  gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MAG_FILTER, gl.NEAREST)
  return { program, items, rows: 0, count: 0 }
}

function fill(gl: WebGL2RenderingContext, layer: Layer, data: Float32Array, numbers: number): void {
  gl.bindTexture(gl.TEXTURE_2D, layer.items)
  const whole = Math.floor(data.length / (ROW * POINT))
  const rest = data.subarray(whole * ROW * POINT)
  const rows = whole + (rest.length > 0 ? 1 : 0)
  if (rows > layer.rows) {
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA32F, ROW, rows, 0, gl.RGBA, gl.FLOAT, null)
    layer.rows = rows
  }
  if (whole > 0) gl.texSubImage2D(gl.TEXTURE_2D, 0, 0, 0, ROW, whole, gl.RGBA, gl.FLOAT, data)
  if (rest.length > 0) gl.texSubImage2D(gl.TEXTURE_2D, 0, 0, whole, rest.length / POINT, 1, gl.RGBA, gl.FLOAT, rest)
  layer.count = data.length / numbers
}
