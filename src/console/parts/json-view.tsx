// Shows JSON: indented text, shortened if it is long.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { formatJson } from "../state/format.ts";
import { CopyButton } from "./controls.tsx";

const MAX_SHOWN = 50_000;

export function JsonView({ value, label }: { readonly value: unknown; readonly label: string }): JSX.Element {
  const [isWhole, setWhole] = useState(false);
  const text = formatJson(value);
  const isLong = text.length > MAX_SHOWN && !isWhole;
  return (
    <section class="json" aria-label={label}>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: long lines scroll by keyboard */}
      <pre tabIndex={0}>{isLong ? text.slice(0, MAX_SHOWN) : text}</pre>
      <div class="row end">
        {isLong ? (
          <button type="button" class="button quiet" onClick={() => setWhole(true)}>
            Show all {text.length.toLocaleString("en")} characters
          </button>
        ) : null}
        <CopyButton text={text} label="Copy" />
      </div>
    </section>
  );
}
