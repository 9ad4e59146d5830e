// The places in which an output, or the chunks of a stream, differ from the recorded ones, with both values.
import type { Replay } from "glovebox/client";
import type { JSX } from "preact";
import { toVisibleText } from "../../../host/util/visible-text.ts";
import { Badge } from "../controls.tsx";
import { Table } from "../table.tsx";

type Chunks = NonNullable<Replay["chunks"]>;
type Change = NonNullable<Replay["changes"]>[number];

const TONES = { added: "good", removed: "bad", changed: "warn" } as const;
/** Maximum number of places that the server lists. */
const MAX_CHANGES = 50;

const Value = ({ text }: { readonly text: string | undefined }): JSX.Element =>
  text === undefined ? <span class="faint">–</span> : <code>{toVisibleText(text)}</code>;

export function JsonChanges({ changes }: { readonly changes: readonly Change[] }): JSX.Element {
  return (
    <div class="changes">
      <Table<Change>
        caption="Differences"
        items={changes}
        keyOf={({ path, kind }) => `${kind} ${path}`}
        empty={<p class="faint">The values are equal. Their bytes or their content parts differ.</p>}
        columns={[
          { name: "Place", cell: ({ path }) => <code>{path === "" ? "/" : toVisibleText(path)}</code> },
          { name: "Change", cell: ({ kind }) => <Badge tone={TONES[kind]}>{kind}</Badge> },
          { name: "Recorded", cell: ({ before }) => <Value text={before} /> },
          { name: "Replayed", cell: ({ after }) => <Value text={after} /> },
        ]}
      />
      {changes.length >= MAX_CHANGES ? <p class="faint">The first {MAX_CHANGES} differences are shown.</p> : null}
    </div>
  );
}

/** Shows how the chunks of a streamed call differ. */
export function ChunkChanges({ chunks }: { readonly chunks: Chunks }): JSX.Element {
  const { recorded, replayed, first, changes } = chunks;
  return (
    <section>
      <h3>Chunks of the stream</h3>
      <p class="faint">
        {recorded === replayed
          ? `Both have ${recorded} chunks. `
          : `${recorded} chunks were recorded, the replay has ${replayed}. `}
        {first === undefined ? null : `The first that differs is chunk ${first}.`}
      </p>
      {changes === undefined ? null : <JsonChanges changes={changes} />}
    </section>
  );
}
