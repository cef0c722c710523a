import { describe, expect, it } from 'vitest'
import { PALETTES, STEPS, colours, legend, ramp, rgb, step } from './colour.ts'

describe('step', () => {
  it('tells what is not known from nothing', () => {
    expect(step('utilisation', null)).toBe(0)
    expect(step('utilisation', undefined)).toBe(0)
    expect(step('utilisation', Number.NaN)).toBe(0)
    expect(step('utilisation', 0)).toBe(1)
    expect(step('errors', 0)).toBe(1)
  })
  it('rises at the ends that the legend names', () => {
    for (const [value, expected] of [[0.0004, 1], [0.01, 2], [0.25, 2], [0.26, 3], [0.5, 3], [0.75, 4], [0.76, 5], [1.2, 5]] as const) {
      expect(step('waiting', value), String(value)).toBe(expected)
    }
    const thresholds = { utilisation: { busy_above: 0.8, full_above: 0.9 }, waiting: { busy_above: 0.2, full_above: 0.3 } }
    for (const [value, expected] of [[0.4, 2], [0.41, 3], [0.8, 3], [0.85, 4], [0.91, 5]] as const) expect(step('utilisation', value, thresholds), String(value)).toBe(expected)
    expect(step('waiting', 0.31, thresholds)).toBe(5)
    expect(legend('utilisation', thresholds)).toEqual(['not read', '0', 'to 40 %', 'to 80 %', 'to 90 %', 'more'])
    for (const [value, expected] of [[1 / 3600, 2], [1 / 60, 3], [0.5, 4], [2, 5]] as const) {
      expect(step('errors', value), String(value)).toBe(expected)
    }
  })
})

/** Luminance as WCAG defines it. */
function luminance(colour: string): number {
  const [r, g, b] = rgb(colour).map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)) as [number, number, number]
  return 0.2126 * r + 0.7152 * g + 0.0722 * b
}

/** What a reader without red receptors (protanope) or green ones (deuteranope) sees, by Machado's matrices of 2009. */
const BLIND: Record<string, number[][]> = {
  protan: [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
  deutan: [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
}
function seen(colour: string, matrix: number[][]): number[] {
  const linear = rgb(colour).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
  return matrix.map((row) => {
    const v = Math.min(Math.max(row.reduce((s, m, i) => s + m * (linear[i] as number), 0), 0), 1)
    return v <= 0.0031308 ? v * 12.92 : 1.055 * v ** (1 / 2.4) - 0.055
  })
}

describe('palettes', () => {
  it('have a colour and a text for each step', () => {
    for (const palette of PALETTES) for (const theme of ['light', 'dark'] as const) expect(colours(palette, theme)).toHaveLength(STEPS)
    expect(legend('utilisation')).toHaveLength(STEPS)
    expect(legend('errors')).toHaveLength(STEPS)
  })
  it('have steps that colour-blind readers can distinguish', () => {
    for (const theme of ['light', 'dark'] as const) {
      const list = colours('blind', theme).slice(1)
      for (const matrix of Object.values(BLIND)) {
        for (let i = 0; i < list.length; i += 1) {
          for (let j = i + 1; j < list.length; j += 1) {
            const [p, q] = [seen(list[i] as string, matrix), seen(list[j] as string, matrix)]
            const apart = Math.hypot(...p.map((v, k) => v - (q[k] as number)))
            expect(apart, `${theme} ${list[i]} ${list[j]}`).toBeGreaterThan(0.15)
          }
        }
      }
    }
  })
})

it('the ramp gets lighter all the way, so that it can be ordered without colour', () => {
  let before = -1
  for (let i = 0; i <= 20; i += 1) {
    const [r, g, b] = ramp(i / 20)
    const now = luminance(`#${[r, g, b].map((n) => n.toString(16).padStart(2, '0')).join('')}`)
    expect(now).toBeGreaterThan(before)
    before = now
  }
})
