// Draws the fabric with WebGL 2: each half of a link and each node is one instance of a quad, so that a frame is two
// draw calls whatever the size of the fabric, and panning changes two uniforms. Knows positions and steps, no meaning.
import * as twgl from 'twgl.js'
import type { Mapping, Size } from './camera.ts'

/** Numbers for each half of a link: x and y of its end, x and y of the middle, lane, look (see [`look`]). */
const HALF = 6
/** Numbers for each node: x, y, shape (0 host, 1 switch, 2 leaf with folded hosts), look. */
const MARK = 4

/** How much something stands out. */
export const PLAIN = 0
export const DIM = 1
export const LIT = 2
export type Emphasis = 0 | 1 | 2
/** Step of colour and emphasis in one number. */
export const look = (step: number, emphasis: Emphasis) => step + 8 * emphasis

const HALF_VERTEX = `#version 300 es
precision highp float;
in vec2 corner;
in vec4 ends;
in vec2 kind;
uniform vec2 scale, shift, size;
uniform float width, spacing;
uniform vec3 palette[6];
out vec4 colour;
out float across;
out float reach;
void main() {
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
const MARK_VERTEX = `#version 300 es
precision highp float;
in vec2 corner;
in vec4 mark;
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
  array: twgl.VertexArrayInfo
  buffer: WebGLBuffer
  capacity: number
  count: number
}

export class Scene {
  private readonly gl: WebGL2RenderingContext
  private readonly halves: Layer
  private readonly marks: Layer
  private theme: Look = { palette: [], ink: [0, 0, 0], accent: [0, 0, 0], paper: [1, 1, 1] }

  /** Throws where the browser has no WebGL 2. */
  constructor(private readonly canvas: HTMLCanvasElement) {
    const gl = canvas.getContext('webgl2', { antialias: false, alpha: true, premultipliedAlpha: true })
    if (gl === null) throw new Error('this browser has no WebGL 2: the table of links has the same data')
    this.gl = gl
    this.halves = layer(gl, HALF_VERTEX, HALF_FRAGMENT, HALF, { ends: [4, 0], kind: [2, 16] })
    this.marks = layer(gl, MARK_VERTEX, MARK_FRAGMENT, MARK, { mark: [4, 0] })
    gl.enable(gl.BLEND)
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA)
  }

  setLook(theme: Look): void {
    this.theme = theme
  }

  /** Replaces the halves of links: `data` has 6 numbers for each, those to be on top last. */
  setHalves(data: Float32Array): void {
    fill(this.gl, this.halves, data, HALF)
  }

  /** Replaces the nodes: 4 numbers for each. */
  setMarks(data: Float32Array): void {
    fill(this.gl, this.marks, data, MARK)
  }

  /** Draws a frame; sizes are in CSS pixels. */
  draw(map: Mapping, size: Size, ratio: number, radius: number, width: number): void {
    const gl = this.gl
    const w = Math.round(size.width * ratio)
    const h = Math.round(size.height * ratio)
    if (this.canvas.width !== w || this.canvas.height !== h) {
      this.canvas.width = w
      this.canvas.height = h
    }
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
  }

  private paint(layer: Layer, uniforms: Record<string, unknown>): void {
    if (layer.count === 0) return
    const gl = this.gl
    gl.useProgram(layer.program.program)
    gl.bindVertexArray(layer.array.vertexArrayObject ?? null)
    twgl.setUniforms(layer.program, uniforms)
    gl.drawArraysInstanced(gl.TRIANGLE_STRIP, 0, 4, layer.count)
  }

  destroy(): void {
    this.gl.getExtension('WEBGL_lose_context')?.loseContext()
  }
}

function layer(
  gl: WebGL2RenderingContext,
  vertex: string,
  fragment: string,
  numbers: number,
  fields: Record<string, [count: number, offset: number]>,
): Layer {
  const problems: string[] = []
  const program = twgl.createProgramInfo(gl, [vertex, fragment], (text) => problems.push(text))
  if (!program?.program) throw new Error(`the drawing program is refused by this browser: ${problems.join(' ')}`)
  const buffer = gl.createBuffer()
  const attributes: Record<string, unknown> = { corner: { numComponents: 2, data: [0, -1, 1, -1, 0, 1, 1, 1] } }
  for (const [name, [count, offset]] of Object.entries(fields)) {
    attributes[name] = { numComponents: count, buffer, type: gl.FLOAT, stride: numbers * 4, offset, divisor: 1 }
  }
  const info = twgl.createBufferInfoFromArrays(gl, attributes as twgl.Arrays)
  return { program, array: twgl.createVertexArrayInfo(gl, program, info), buffer, capacity: 0, count: 0 }
}

function fill(gl: WebGL2RenderingContext, layer: Layer, data: Float32Array, numbers: number): void {
  gl.bindBuffer(gl.ARRAY_BUFFER, layer.buffer)
  if (data.length > layer.capacity) {
    gl.bufferData(gl.ARRAY_BUFFER, data, gl.DYNAMIC_DRAW)
    layer.capacity = data.length
  } else {
    gl.bufferSubData(gl.ARRAY_BUFFER, 0, data)
  }
  layer.count = data.length / numbers
}
