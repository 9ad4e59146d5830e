// URL and URLSearchParams (whatwg-url). 250 KB: a script of its own, sent as text and evaluated when a tool first touches either.
import { defineLazyGlobals } from "./primordials.ts";

type UrlGlobals = { readonly URL: unknown; readonly URLSearchParams: unknown };

/**
 * @param readChunk gives the chunk's source, a script whose completion value is the two classes
 * @param evaluate V8's own indirect eval, captured before lockdown
 */
export function installUrl(readChunk: () => string, evaluate: (source: string) => unknown): void {
  let made: UrlGlobals | undefined;
  defineLazyGlobals(["URL", "URLSearchParams"], () => {
    made ??= evaluate(readChunk()) as UrlGlobals;
    return made;
  });
}
