// The difference between two texts, line by line, with the unchanged lines around it.
import { structuredPatch } from "diff";
import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { toVisibleText } from "../../../host/util/visible-text.ts";

interface DiffViewProps {
  readonly name: string;
  readonly before: string;
  readonly after: string;
}

const CONTEXT = 3;

export function DiffView({ name, before, after }: DiffViewProps): JSX.Element | null {
  const patch = useMemo(
    () => structuredPatch(name, name, before, after, "", "", { context: CONTEXT }),
    [name, before, after],
  );
  if (patch.hunks.length === 0) return null;
  return (
    <section class="diff" aria-label={`Changes of ${name}`}>
      <h3>{name}</h3>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: long lines scroll by keyboard */}
      <pre tabIndex={0}>
        {patch.hunks.flatMap(({ oldStart, newStart, lines }) => [
          <span key={`${oldStart}`} class="hunk">{`lines ${oldStart} → ${newStart}\n`}</span>,
          ...lines
            .filter((line) => !line.startsWith("\\"))
            .map((line, index) => (
              <span
                key={`${oldStart}-${index}`}
                class={line.startsWith("+") ? "added" : line.startsWith("-") ? "removed" : ""}
              >
                {`${toVisibleText(line.replace(/\r$/, ""))}\n`}
              </span>
            )),
        ])}
      </pre>
    </section>
  );
}
