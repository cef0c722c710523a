// How a figure is known, as a badge: a word, never a colour alone.
import type { ShareFigures } from '../api/client.ts'
import { BOUND, KINDS } from '../shares.ts'

export function Kind({ of }: { of: Pick<ShareFigures, 'kind' | 'is_bound'> }) {
  return (
    <>
      <span class={`kind ${of.kind}`} title={KINDS[of.kind]}>
        {of.kind}
      </span>
      {of.is_bound && (
        <>
          {' '}
          <span class="kind bound" title={BOUND}>
            bound
          </span>
        </>
      )}
    </>
  )
}
