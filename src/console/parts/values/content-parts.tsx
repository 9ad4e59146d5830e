// The content parts of an output: text, images and audio that a tool has returned for a model. They come from tools, so only formats that
// cannot run anything are shown, from data URLs of limited size.
import type { JSX } from "preact";
import { formatBytes } from "../../state/format.ts";
import { JsonView } from "./json-view.tsx";

interface Part {
  readonly type: string;
  readonly text?: unknown;
  readonly data?: unknown;
  readonly mimeType?: unknown;
  readonly isOmitted?: unknown;
}

/** Longest base64 text that is drawn or played. */
const MAX_LENGTH = 8 * 1024 * 1024;
const MAX_PARTS = 50;
/** No SVG: its size does not limit what drawing it costs. */
const IMAGES: ReadonlySet<string> = new Set(["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"]);
const AUDIO: ReadonlySet<string> = new Set(["audio/wav", "audio/mpeg", "audio/ogg", "audio/webm", "audio/mp4"]);
const BASE64 = /^[A-Za-z0-9+/]*={0,2}$/;
const BASE64_RATIO = 3 / 4;

/** @param content as the API returns it */
export function ContentParts({ content }: { readonly content: unknown }): JSX.Element | null {
  if (!Array.isArray(content) || content.length === 0) return null;
  const parts = content as readonly Part[];
  return (
    <section class="stack" aria-label="Content parts">
      <h3>Content</h3>
      {parts.slice(0, MAX_PARTS).map((part, index) => (
        <ContentPart key={index} part={part} number={index + 1} />
      ))}
      {parts.length > MAX_PARTS ? <p class="faint">{parts.length - MAX_PARTS} more parts are not shown.</p> : null}
    </section>
  );
}

function ContentPart({ part, number }: { readonly part: Part; readonly number: number }): JSX.Element {
  const { type, text, data, mimeType, isOmitted } = part;
  if (type === "text" && typeof text === "string") {
    // biome-ignore lint/a11y/noNoninteractiveTabindex: long lines scroll by keyboard
    return <pre tabIndex={0}>{text}</pre>;
  }
  const kind = typeof mimeType === "string" ? mimeType.toLowerCase() : "";
  if (isOmitted === true) return <p class="faint">{`${kind || type}: it was too large to keep.`}</p>;
  if (typeof data !== "string") return <JsonView value={part} label={`Part ${number}`} />;
  const size = formatBytes(data.length * BASE64_RATIO);
  const isShown = data.length <= MAX_LENGTH && BASE64.test(data);
  const url = `data:${kind};base64,${data}`;
  if (type === "image" && isShown && IMAGES.has(kind))
    return (
      <figure class="part">
        <img src={url} alt={`Part ${number} of the output`} loading="lazy" />
        <figcaption class="faint">{`${kind}, ${size}`}</figcaption>
      </figure>
    );
  if (type === "audio" && isShown && AUDIO.has(kind))
    return (
      <figure class="part">
        {/* biome-ignore lint/a11y/useMediaCaption: the tool has returned no captions */}
        <audio src={url} controls preload="none" aria-label={`Part ${number} of the output, audio`} />
        <figcaption class="faint">{`${kind}, ${size}`}</figcaption>
      </figure>
    );
  return <p class="faint">{`${kind || type}, ${size}: this format is not shown here.`}</p>;
}
