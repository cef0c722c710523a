// Licences of what ends up in the bundle: an allow-list that fails the build, and the texts as licenses.txt, which the
// server shows. Only packages whose code is in the bundle count; tools that build it do not reach a user.
import fs from 'node:fs'
import path from 'node:path'
import type { Plugin } from 'vite'

/** SPDX names that may be bundled: the same spirit as deny.toml of the Rust side. */
const ALLOWED = new Set(['0BSD', 'Apache-2.0', 'BSD-2-Clause', 'BSD-3-Clause', 'ISC', 'MIT', 'Unlicense', 'Zlib'])

/** One package of the bundle. */
export interface Notice {
  name: string
  version: string
  license: string
  text: string
}

/** The folder of the package that a module belongs to, or null for our own code and the bundler's helpers. */
export function packageFolder(moduleId: string): string | null {
  const file = moduleId.replace(/^\0/, '').split('?')[0] ?? ''
  const mark = `${path.sep}node_modules${path.sep}`
  const at = file.lastIndexOf(mark)
  if (at < 0) return null
  const parts = file.slice(at + mark.length).split(path.sep)
  const depth = parts[0]?.startsWith('@') ? 2 : 1
  return file.slice(0, at + mark.length) + parts.slice(0, depth).join(path.sep)
}

/** Reads a package's name, version, licence and licence text; throws where one is missing or not allowed. */
export function readNotice(folder: string): Notice {
  const manifest = JSON.parse(fs.readFileSync(path.join(folder, 'package.json'), 'utf8')) as Record<string, unknown>
  const name = String(manifest.name)
  const license = typeof manifest.license === 'string' ? manifest.license : 'none'
  if (!ALLOWED.has(license)) {
    throw new Error(`${name}: licence ${license} is not on the allow-list of build/notices.ts: take another package`)
  }
  const file = fs.readdirSync(folder).find((entry) => /^(licen[cs]e|copying)(\.|$)/i.test(entry))
  if (file === undefined) throw new Error(`${name}: no licence text in the package, and ${license} asks for one`)
  return { name, version: String(manifest.version), license, text: fs.readFileSync(path.join(folder, file), 'utf8') }
}

/** The notices as one text. */
export function format(list: Notice[]): string {
  const sorted = [...list].sort((a, b) => (a.name < b.name ? -1 : 1))
  const rule = '-'.repeat(80)
  const head = "The pages of Throughline (Apache-2.0) contain these libraries.\n"
  return head + sorted.map((n) => `\n${rule}\n${n.name} ${n.version} (${n.license})\n${rule}\n\n${n.text.trim()}\n`).join('')
}

/** The plugin: checks what was bundled and adds licenses.txt to it. */
export function notices(): Plugin {
  return {
    name: 'throughline-notices',
    generateBundle(_options, bundle) {
      const folders = new Set<string>()
      for (const item of Object.values(bundle)) {
        if (item.type !== 'chunk') continue
        for (const id of Object.keys(item.modules)) {
          const folder = packageFolder(id)
          if (folder !== null) folders.add(folder)
        }
      }
      // Style sheets are no modules of a chunk once they are extracted.
      for (const id of this.getModuleIds()) {
        const folder = id.includes('.css') ? packageFolder(id) : null
        if (folder !== null) folders.add(folder)
      }
      const source = format([...folders].map(readNotice))
      this.emitFile({ type: 'asset', fileName: 'licenses.txt', source })
    },
  }
}
