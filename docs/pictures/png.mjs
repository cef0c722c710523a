// Writes a picture with 256 colours at most, which is a third of the bytes of one with all. No dependency: the browser
// that took the picture decodes it, and zlib packs it again.
import fs from 'node:fs'
import zlib from 'node:zlib'

const MOST = 256

/** Colours that stand for all: boxes of colours are cut at the middle of their longest side until there are enough. */
export function palette(counts) {
  const split = (n) => [n >> 16, (n >> 8) & 255, n & 255]
  const box = (list) => {
    const sides = [0, 1, 2].map((k) => {
      const values = list.map(([c]) => c[k])
      return values.reduce((h, v) => Math.max(h, v), 0) - values.reduce((l, v) => Math.min(l, v), 255)
    })
    const longest = sides.indexOf(Math.max(...sides))
    // A large flat area needs one colour, a small gradient many: what counts is how far apart colours are.
    const weight = list.reduce((sum, [, n]) => sum + Math.sqrt(n), 0)
    return { list, longest, cost: sides[longest] * Math.sqrt(weight) }
  }
  const boxes = [box([...counts].map(([colour, n]) => [split(colour), n]))]
  while (boxes.length < MOST) {
    boxes.sort((a, b) => b.cost - a.cost)
    const { list, longest, cost } = boxes[0]
    if (cost === 0) break
    list.sort(([a], [b]) => a[longest] - b[longest])
    const total = list.reduce((sum, [, n]) => sum + Math.sqrt(n), 0)
    let at = 0
    for (let sum = 0; at < list.length - 1 && sum < total / 2; at += 1) sum += Math.sqrt(list[at][1])
    at = Math.min(Math.max(at, 1), list.length - 1)
    boxes.splice(0, 1, box(list.slice(0, at)), box(list.slice(at)))
  }
  const map = new Map()
  const colours = boxes.map(({ list }, i) => {
    for (const [c] of list) map.set((c[0] << 16) | (c[1] << 8) | c[2], i)
    // The commonest colour of the box and not a mean: paper stays white.
    return list.reduce((best, one) => (one[1] > best[1] ? one : best))[0]
  })
  return { colours, map }
}

const CRCS = Uint32Array.from({ length: 256 }, (_, n) => {
  let c = n
  for (let k = 0; k < 8; k += 1) c = c & 1 ? 0xedb88320 ^ (c >>> 1) : c >>> 1
  return c
})

function chunk(kind, data) {
  const body = Buffer.concat([Buffer.from(kind, 'latin1'), data])
  let crc = 0xffffffff
  for (const byte of body) crc = CRCS[(crc ^ byte) & 255] ^ (crc >>> 8)
  const all = Buffer.alloc(body.length + 8)
  all.writeUInt32BE(data.length, 0)
  body.copy(all, 4)
  all.writeUInt32BE((crc ^ 0xffffffff) >>> 0, body.length + 4)
  return all
}

/** Writes a PNG of `page`'s browser as one with a palette. */
export async function writePng(page, png, file) {
  const decoded = await page.context().newPage()
  const { width, height, data } = await decoded.evaluate(async (text) => {
    const bitmap = await createImageBitmap(await (await fetch(`data:image/png;base64,${text}`)).blob())
    const canvas = new OffscreenCanvas(bitmap.width, bitmap.height)
    const context = canvas.getContext('2d')
    context.drawImage(bitmap, 0, 0)
    const { data: points } = context.getImageData(0, 0, canvas.width, canvas.height)
    let binary = ''
    for (let i = 0; i < points.length; i += 32768) binary += String.fromCharCode(...points.subarray(i, i + 32768))
    return { width: canvas.width, height: canvas.height, data: btoa(binary) }
  }, png.toString('base64'))
  await decoded.close()
  const points = Buffer.from(data, 'base64')
  const colour = (i) => (points[i * 4] << 16) | (points[i * 4 + 1] << 8) | points[i * 4 + 2]
  const counts = new Map()
  for (let i = 0; i < width * height; i += 1) counts.set(colour(i), (counts.get(colour(i)) ?? 0) + 1)
  const { colours, map } = palette(counts)
  const rows = Buffer.alloc((width + 1) * height)
  for (let y = 0; y < height; y += 1) {
    for (let x = 0; x < width; x += 1) rows[y * (width + 1) + 1 + x] = map.get(colour(y * width + x))
  }
  const header = Buffer.alloc(13)
  header.writeUInt32BE(width, 0)
  header.writeUInt32BE(height, 4)
  // Eight bits a point, by palette.
  header.set([8, 3, 0, 0, 0], 8)
  const parts = [
    Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]),
    chunk('IHDR', header),
    chunk('PLTE', Buffer.from(colours.flat())),
    chunk('IDAT', zlib.deflateSync(rows, { level: 9 })),
    chunk('IEND', Buffer.alloc(0)),
  ]
  fs.writeFileSync(file, Buffer.concat(parts))
}
