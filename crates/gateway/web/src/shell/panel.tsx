// The panel at the side with what was chosen. It takes the focus when it opens, and Escape closes it.
import type { ComponentChildren } from 'preact'
import { useEffect, useRef } from 'preact/hooks'

export function Panel({ title, close, children }: { title: string; close: () => void; children: ComponentChildren }) {
  const heading = useRef<HTMLHeadingElement>(null)
  useEffect(() => {
    // Where the reader came from, and goes back to when the panel closes.
    const before = document.activeElement
    return () => {
      if (before instanceof HTMLElement && before.isConnected) before.focus({ preventScroll: true })
    }
  }, [])
  useEffect(() => heading.current?.focus({ preventScroll: true }), [title])
  return (
    <aside class="panel" aria-label={title} data-testid="panel" onKeyDown={(e) => e.key === 'Escape' && close()}>
      <header>
        <h2 ref={heading} tabIndex={-1}>
          {title}
        </h2>
        <button type="button" onClick={close} aria-label="Close">
          ×
        </button>
      </header>
      {children}
    </aside>
  )
}
