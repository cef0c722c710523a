// The state of a response: on its way, failed with cause and remedy, or stale.
import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import { token } from '../api/client.ts'
import type { Live } from '../api/live.ts'
import { clock } from '../text.ts'

/** A line above what is shown: nothing while all is well. Read out by screen readers when it changes. */
export function Status({ of, what }: { of: readonly Live<unknown>[]; what: string }) {
  const failed = of.find((live) => live.error !== undefined)
  const missing = of.some((live) => live.data === undefined && live.error === undefined && live.slow)
  const slow = of.some((live) => live.slow)
  return (
    <div role="status" aria-live="polite">
      {failed?.error ? (
        <div class={`banner ${failed.data === undefined ? 'bad' : 'stale'}`} data-testid="banner">
          {failed.data === undefined ? <strong>No {what}.</strong> : <strong>Stale: {what} as of {clock(failed.since)}.</strong>}{' '}
          {sentence(failed.error.message)} {sentence(failed.error.remedy)}
          <button type="button" onClick={failed.again}>
            Try again
          </button>
          {failed.error.status === 401 && <TokenForm />}
        </div>
      ) : slow ? (
        <div class="banner" data-testid="banner">
          {missing ? `Still waiting for ${what} …` : `The server is slow: ${what} may be some seconds old.`}
        </div>
      ) : null}
    </div>
  )
}

/** Names the parts of the address that this page does not know. */
export function Unknown({ list }: { list: readonly string[] }) {
  if (list.length === 0) return null
  return (
    <p class="banner stale" role="status" data-testid="unknown">
      {list.map((text) => `In the address, ${text}: the first is shown. `)}
    </p>
  )
}

function sentence(text: string): string {
  const trimmed = text.trim().replace(/\.$/, '')
  return trimmed === '' ? '' : `${trimmed.charAt(0).toUpperCase()}${trimmed.slice(1)}.`
}

/** A form for the bearer token of the server. */
function TokenForm() {
  const [value, setValue] = useState('')
  const submit = (event: Event) => {
    event.preventDefault()
    token.set(value.trim())
  }
  return (
    <form class="inline" onSubmit={submit}>
      <label>
        Token <input type="password" autocomplete="off" value={value} onInput={(e) => setValue(e.currentTarget.value)} />
      </label>
      <button type="submit">Use it</button>
    </form>
  )
}

/** Marks content as old while its answer fails. */
export function MaybeStale({ live, children }: { live: Live<unknown>; children: ComponentChildren }) {
  return <div class={live.error !== undefined && live.data !== undefined ? 'old' : ''}>{children}</div>
}
