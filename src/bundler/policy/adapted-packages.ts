// Packages with a file that cannot run in a sandbox as it is, and what is bundled instead. Prefer a general rule: each entry here names the reason
// why there is none.
import {
  UNDICI_CLIENT_CHUNK,
  UNDICI_CLIENT_EXPORT,
  WS_CLIENT_CHUNK,
  WS_CLIENT_EXPORT,
} from "../../sandbox/contract/node-builtins.ts";

interface Adaptation {
  readonly packageName: string;
  /** Matches the end of the file's path. */
  readonly file: RegExp;
  /**
   * Returns the text that is bundled.
   * @param text the file's own text
   * @param match the match of `file`
   * @param importBuiltin returns the text of a module that exports a part of the sandbox's platform
   * @param isMentioned whether a text of the tool itself matches a pattern
   */
  readonly adapt: (
    text: string,
    match: RegExpExecArray,
    importBuiltin: (chunk: string, name: string) => string,
    isMentioned: (pattern: RegExp) => boolean,
  ) => string;
}

const ADAPTATIONS: readonly Adaptation[] = [
  {
    // The client needs sockets. It is replaced by a client over the sandbox's own WebSocket.
    packageName: "ws",
    file: /[\\/]ws[\\/]lib[\\/]websocket\.js$/i,
    adapt: (_text, _match, importBuiltin) => importBuiltin(WS_CLIENT_CHUNK, WS_CLIENT_EXPORT),
  },
  {
    // Clients, pools, agents and the package's own fetch send through this class, which needs sockets and WebAssembly. Its methods that use a
    // connection are replaced; its options, events and errors are the package's own. In version 5, it is in another folder.
    packageName: "undici",
    file: /[\\/]lib[\\/](dispatcher[\\/])?client\.js$/i,
    adapt: (text, [, folder], importBuiltin) => {
      const core = folder === undefined ? "./core" : "../core";
      const form =
        folder === undefined ? "" : 'extractBody: (form) => require("../web/fetch/body.js").extractBody(form),';
      return `${text}
{ const Client = module.exports;
${importBuiltin(UNDICI_CLIENT_CHUNK, UNDICI_CLIENT_EXPORT)}
module.exports = module.exports(Client, { ${form} Request: require("${core}/request.js"), symbols: require("${core}/symbols.js"), errors: require("${core}/errors.js"), util: require("${core}/util.js") });
}`;
    },
  },
  {
    // pdf.js imports its worker by a name that is known when it runs, and creates a DOMMatrix for drawing when it is imported. In Node, the matrix
    // comes from a native package. Text and metadata are read without it, and nothing can be drawn here.
    packageName: "pdfjs-dist",
    file: /[\\/]build[\\/]pdf(\.min)?\.mjs$/i,
    adapt: (text, [, minified = ""]) => `${text}
import { WorkerMessageHandler as gloveboxPdfWorker } from "./pdf.worker${minified}.mjs";
globalThis.pdfjsWorker ??= { WorkerMessageHandler: gloveboxPdfWorker };
function DOMMatrix(...values) { if (globalThis.DOMMatrix !== undefined) return new globalThis.DOMMatrix(...values); }`,
  },
  {
    // moment requires a locale under another name and ignores the failure, so that dates silently stay English. Its locales have 540 KB, and most
    // tools use none.
    packageName: "moment",
    file: /[\\/]moment\.js$/i,
    adapt: (text, _match, _importBuiltin, isMentioned) =>
      isMentioned(/\blocale|\blang\b/)
        ? text.replace(/\baliasedRequire\((['"]\.\/locale\/['"] \+ \w+)\)/, 'require($1 + ".js")')
        : text,
  },
];

/**
 * Returns the text that is bundled instead of a package's file, or undefined if the file is bundled as it is.
 * @param readText reads the file's own text
 * @param toolTexts the texts of the tool's own files
 */
export function adaptPackageFile(
  path: string,
  packageName: string | undefined,
  readText: () => string,
  importBuiltin: (chunk: string, name: string) => string,
  toolTexts: Iterable<string>,
): string | undefined {
  const found = ADAPTATIONS.find((each) => each.packageName === packageName);
  const match = found?.file.exec(path);
  const isMentioned = (pattern: RegExp): boolean => [...toolTexts].some((text) => pattern.test(text));
  return match ? found?.adapt(readText(), match, importBuiltin, isMentioned) : undefined;
}
