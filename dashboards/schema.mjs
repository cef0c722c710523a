// Holds dashboards/*.json against Grafana's own types, which our tests do not know: options, fields and place of each panel,
// variables, and the dashboard itself. By hand, in a folder of its own, for each version of Grafana (11, 12):
//
//   npm install @grafana/schema@11 typescript@5 && node REPOSITORY/dashboards/schema.mjs
import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'

const folder = dirname(fileURLToPath(import.meta.url))
const library = 'node_modules/@grafana/schema'
if (!existsSync(library)) {
  console.error(`${library} is not here: run npm install @grafana/schema@11 typescript@5 first`)
  process.exit(69)
}
// Version 12 moved the types.
const raw = [`${library}/dist/types/raw`, `${library}/dist/esm/raw`].find((path) => existsSync(path))
/** Path of the types of a part. */
const types = (part) => {
  const file = readdirSync(`${raw}/${part}/x`).find((name) => name.endsWith('.d.ts'))
  return `./${raw}/${part}/x/${file.replace('.d.ts', '')}`
}

const dashboards = readdirSync(folder)
  .filter((name) => name.endsWith('.json'))
  .map((name) => [name, JSON.parse(readFileSync(`${folder}/${name}`, 'utf8'))])
const panels = dashboards.flatMap(([, dashboard]) => dashboard.panels).filter((panel) => panel.type !== 'row')
const module = (kind) => kind.toLowerCase().replace('-', '')

const lines = [
  `import * as dash from '${types('dashboard')}'`,
  ...[...new Set(panels.map((panel) => module(panel.type)))].map(
    (kind) => `import * as ${kind} from '${types(`composable/${kind}/panelcfg`)}'`,
  ),
  // Values of enumerations are plain texts in JSON.
  'type Json<T> = T extends string ? `${T}` : T extends (infer U)[] ? Json<U>[] : T extends object ? { [K in keyof T]: Json<T[K]> } : T',
]
let count = 0
const fits = (type, value) => lines.push(`const value${count++}: Json<${type}> = ${JSON.stringify(value)}`)
// Kinds of panels without configuration of fields.
const WITHOUT_FIELDS = ['stat', 'nodegraph']
for (const [name, { panels, templating, annotations, ...rest }] of dashboards) {
  lines.push(`// ${name}`)
  // A mark's target is a query in fact; Grafana's type of it is that of a list of tags.
  rest.annotations = { list: annotations.list.map(({ target, ...mark }) => mark) }
  fits('Partial<dash.Dashboard>', rest)
  // An empty choice is filled by Grafana with the first value; `definition` is what it shows in its list of variables.
  for (const { current, definition, ...variable } of templating.list) fits('dash.VariableModel', variable)
  // A panel's links are titles with URLs; the type is that of a dashboard's links.
  for (const { options, fieldConfig, targets, links, ...panel } of panels.filter((one) => one.type !== 'row')) {
    const kind = module(panel.type)
    const { custom, ...defaults } = fieldConfig.defaults
    lines.push(`// ${name}: ${panel.title}`)
    fits(`Partial<${kind}.Options>`, options)
    if (!WITHOUT_FIELDS.includes(kind)) fits(`Partial<${kind}.FieldConfig>`, custom)
    fits('Partial<dash.Panel>', panel)
    fits('dash.FieldConfig', defaults)
  }
}
writeFileSync('dashboards.ts', `${lines.join('\n')}\n`)
const flags = ['--noEmit', '--strict', '--skipLibCheck', '--target', 'es2022', '--module', 'esnext', '--moduleResolution', 'bundler']
try {
  execFileSync('node_modules/.bin/tsc', [...flags, 'dashboards.ts'], { stdio: 'inherit' })
} catch {
  console.error('lines of dashboards.ts say which value does not fit')
  process.exit(2)
}
const { version } = JSON.parse(readFileSync(`${library}/package.json`, 'utf8'))
console.log(`${panels.length} panels of ${dashboards.length} dashboards fit the types of Grafana ${version}`)
