// Text of the editor that was not deployed yet.

import { useState } from "preact/hooks";
import { readStored, removeStored, store } from "../../state/storage.ts";

/**
 * Keeps the text of an editor in the browser's tab, so that the end of a session or a reload loses nothing. Text that was written for another
 * source is dropped.
 */
export function useSavedDraft(
  name: string,
  source: string,
): {
  readonly text: string;
  readonly isRestored: boolean;
  /** @param writtenFor the source that the text changes. Default: that of the editor */
  readonly save: (text: string, writtenFor?: string) => void;
} {
  const key = `glovebox-draft ${name}`;
  const [saved, setSaved] = useState(() => {
    try {
      const found = JSON.parse(readStored("sessionStorage", key) ?? "null") as {
        source?: unknown;
        text?: unknown;
      } | null;
      return found?.source === source && typeof found.text === "string" ? found.text : undefined;
    } catch {
      return undefined;
    }
  });
  const save = (text: string, writtenFor = source): void => {
    if (text === writtenFor) removeStored("sessionStorage", key);
    else store("sessionStorage", key, JSON.stringify({ source: writtenFor, text }));
    if (text === writtenFor) setSaved(undefined);
  };
  return { text: saved ?? source, isRestored: saved !== undefined, save };
}
