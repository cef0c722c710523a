// Reports tests that are skipped (`it.skip`, `it.todo`, `context.skip()`), as throughline-test-support does for those in
// Rust: a line each, appended to the file of THROUGHLINE_SKIPPED_FILE, and a failure where CI=true.
import { appendFileSync } from 'node:fs'
import { relative } from 'node:path'
import type { Reporter, TestModule, Vitest } from 'vitest/node'

export default class SkippedReporter implements Reporter {
  #vitest: Vitest | undefined

  onInit(vitest: Vitest): void {
    this.#vitest = vitest
  }

  onTestRunEnd(modules: readonly TestModule[]): void {
    // A run of a part of the tests by their names skips the others on purpose.
    if (this.#vitest?.config.testNamePattern !== undefined) return
    const file = process.env['THROUGHLINE_SKIPPED_FILE']
    for (const module of modules) {
      for (const test of module.children.allTests('skipped')) {
        const result = test.result()
        const note = result.state === 'skipped' ? result.note : undefined
        const line = `SKIPPED ${relative(process.cwd(), module.moduleId)} ${test.fullName}: ${note ?? 'no reason given'}\n`
        process.stderr.write(line)
        if (file !== undefined) appendFileSync(file, line)
        if (['true', '1'].includes(process.env['CI'] ?? '')) process.exitCode = 1
      }
    }
  }
}
