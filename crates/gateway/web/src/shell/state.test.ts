// Each state of a job that the API's contract names has a word and a colour of its own on the pages.
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import type { JobState } from '../api/client.ts'
import { State } from './state.tsx'

const text = (place: string) => readFileSync(fileURLToPath(new URL(place, import.meta.url)), 'utf8')
const states = /^ +state: \{type: string, enum: \[([^\]]*)\], description: "running: /m.exec(text('../../../openapi.yaml'))?.[1]?.split(', ') ?? []

it('shows the word of the contract, each in a colour of its own', () => {
  expect(states.length).toBeGreaterThan(3)
  const style = text('../style.css')
  const colours = states.map((state) => {
    const { children, class: name } = State({ state: state as JobState }).props as { children: string; class: string }
    expect([children, name]).toEqual([state, `state ${state}`])
    return new RegExp(`^\\.state\\.${state} \\{\\s*color: (var\\(--\\w+\\));`, 'm').exec(style)?.[1]
  })
  expect(colours).not.toContain(undefined)
  expect(new Set(colours).size).toBe(states.length)
})
