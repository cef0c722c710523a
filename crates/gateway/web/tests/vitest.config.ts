// Tests of the pages in a browser: `cargo test -p throughline-cli --test pages` starts the server and calls this.
import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    root: new URL('..', import.meta.url).pathname,
    include: ['tests/**/*.test.ts'],
    environment: 'node',
    reporters: ['default', './build/skipped.ts'],
    // One server and one browser: what goes away in one test would be away in another.
    fileParallelism: false,
    testTimeout: 180_000,
    hookTimeout: 90_000,
  },
})
