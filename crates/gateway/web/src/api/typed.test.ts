// Every response of the API that a page uses has a type of client.ts, which has them from openapi.yaml: a change of the contract
// fails the build, and no page has a shape of its own for one.
import { readFileSync, readdirSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'

const SOURCE = fileURLToPath(new URL('..', import.meta.url))
const files = readdirSync(SOURCE, { recursive: true, encoding: 'utf8' })
  .filter((name) => /\.tsx?$/.test(name) && !/\.test\.ts$|schema\.ts$/.test(name))
  .map((name) => [name, readFileSync(path.join(SOURCE, name), 'utf8')] as const)

/** Types that client.ts makes of the schemas. */
const ofSchemas = [...(files.find(([name]) => name.endsWith('client.ts'))?.[1] ?? '').matchAll(/^export type (\w+) = (?:Schemas|Search)\[/gm)].map((m) => m[1])

it('types of responses come from the contract', () => {
  expect(ofSchemas.length).toBeGreaterThan(15)
  const uses = files.flatMap(([name, text]) => [...text.matchAll(/\b(?:useLive|fetchJson)<([^>(]+)>\(/g)].map((m) => [name, m[1] as string] as const))
  expect(uses.length).toBeGreaterThan(15)
  for (const [name, use] of uses.filter(([file]) => !file.startsWith('api'))) {
    const text = files.find(([file]) => file === name)?.[1] ?? ''
    for (const type of use.split('|').map((one) => one.trim())) {
      // A page may import it under another name.
      const original = new RegExp(`(\\w+) as ${type}\\b`).exec(text)?.[1] ?? type
      expect(ofSchemas, `${name}: ${type}`).toContain(original)
      expect(text, `${name} imports ${type}`).toMatch(new RegExp(`import [^;]*\\b${type}\\b[^;]*from '(../)+api/client.ts'`))
    }
  }
})
