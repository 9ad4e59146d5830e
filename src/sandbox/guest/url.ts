// URL and URLSearchParams (whatwg-url). 250 KB: a script of its own, sent as text and evaluated when a tool first touches either.
import { defineLazyGlobals, ReflectDefineProperty } from "./primordials.ts";

type UrlGlobals = { readonly URL: object; readonly URLSearchParams: object };

/** The chunk is minified, and its classes with it. */
function setName(made: object, name: string): void {
  const descriptor = { __proto__: null, value: name, writable: false, enumerable: false, configurable: true };
  ReflectDefineProperty(made, "name", descriptor as PropertyDescriptor);
}

/**
 * @param readChunk gives the chunk's source, a script whose completion value is the two classes
 * @param evaluate V8's own indirect eval, captured before lockdown
 */
export function installUrl(readChunk: () => string, evaluate: (source: string) => unknown): void {
  let made: UrlGlobals | undefined;
  defineLazyGlobals(["URL", "URLSearchParams"], () => {
    if (made === undefined) {
      made = evaluate(readChunk()) as UrlGlobals;
      setName(made.URL, "URL");
      setName(made.URLSearchParams, "URLSearchParams");
    }
    return made;
  });
}
