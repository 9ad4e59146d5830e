// Shows JSON: indented text in colors, shortened if it is long.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { formatJson } from "../../state/format.ts";
import { CopyButton } from "../controls.tsx";

const MAX_SHOWN = 50_000;
/** Longer text has no colors: each of them is an element. */
const MAX_COLORED = 20_000;
/** Keys, strings, numbers and words of indented JSON. */
const TOKEN = /("(?:[^"\\]|\\.)*")(\s*:)?|(-?\d[\d.eE+-]*)|\b(true|false|null)\b/g;

export function JsonView({ value, label }: { readonly value: unknown; readonly label: string }): JSX.Element {
  const [isWhole, setWhole] = useState(false);
  const text = formatJson(value);
  const isLong = text.length > MAX_SHOWN && !isWhole;
  return (
    <section class="json" aria-label={label}>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: long lines scroll by keyboard */}
      <pre tabIndex={0}>{text.length <= MAX_COLORED ? colored(text) : isLong ? text.slice(0, MAX_SHOWN) : text}</pre>
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

function colored(text: string): readonly (JSX.Element | string)[] {
  const parts: (JSX.Element | string)[] = [];
  let from = 0;
  for (const match of text.matchAll(TOKEN)) {
    const [whole, string, colon, number] = match;
    parts.push(text.slice(from, match.index));
    const kind =
      string === undefined ? (number === undefined ? "word" : "number") : colon === undefined ? "text" : "key";
    parts.push(
      <span key={match.index} class={`json-${kind}`}>
        {string ?? whole}
      </span>,
      colon ?? "",
    );
    from = match.index + whole.length;
  }
  return [...parts, text.slice(from)];
}
