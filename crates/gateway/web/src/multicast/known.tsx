// How a figure about multicast is known, as a badge: a word, never a colour alone.
const TITLES = {
  measured: 'Counted by the ports of a link that no other group has.',
  bound: 'At most: all its links carry packets of other groups, too.',
} as const

export function Known({ kind }: { kind: keyof typeof TITLES | null }) {
  if (kind === null) return <>–</>
  return (
    <span class={`kind ${kind}`} title={TITLES[kind]}>
      {kind}
    </span>
  )
}
