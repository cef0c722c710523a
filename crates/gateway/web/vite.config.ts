// How the pages are built: one script and one style sheet with hashed names, no source from anywhere else, and the
// licences of all that went in.
import { defineConfig } from 'vitest/config'
import { notices } from './build/notices.ts'

export default defineConfig({
  esbuild: { jsx: 'automatic', jsxImportSource: 'preact' },
  plugins: [notices()],
  build: {
    target: 'es2022',
    outDir: 'dist/pages',
    // The content security policy forbids inline scripts and data: styles.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
  test: { include: ['src/**/*.test.ts'], environment: 'node', reporters: ['default', './build/skipped.ts'] },
})
