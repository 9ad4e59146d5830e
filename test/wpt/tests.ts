// Lists the web-platform tests: files, the scripts in their META lines or script elements, and their variants.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";

/** Folder into which get-tests.ts writes them. */
export const FETCHED_FOLDER: string = fileURLToPath(new URL("../../node_modules/.cache/glovebox/wpt", import.meta.url));
/** Folder from which they are read: GLOVEBOX_WPT may name a checkout of web-platform-tests. */
export const TESTS_FOLDER: string = resolve(process.env.GLOVEBOX_WPT ?? FETCHED_FOLDER);

/** Folders of the suite for features that work without a document. */
export const SUITES: { readonly [name: string]: readonly string[] } = {
  url: ["url"],
  encoding: ["encoding"],
  streams: ["streams"],
  fetch: [
    "fetch/api/headers",
    "fetch/api/request",
    "fetch/api/response",
    "fetch/api/body",
    "fetch/api/abort",
    "fetch/content-type",
    "fetch/data-urls",
  ],
  formdata: ["xhr/formdata"],
  events: ["dom/events"],
  abort: ["dom/abort"],
  timers: ["html/webappapis/timers", "html/webappapis/microtask-queuing"],
  atob: ["html/webappapis/atob"],
  "structured-clone": ["html/webappapis/structured-clone"],
  FileAPI: ["FileAPI"],
  compression: ["compression"],
  urlpattern: ["urlpattern"],
  "hr-time": ["hr-time"],
  WebCryptoAPI: ["WebCryptoAPI"],
  console: ["console"],
  websockets: ["websockets"],
  eventsource: ["eventsource"],
};
/** Suites whose tests talk to a server. Many of their files are documents that use nothing of a document, so these run as well. */
const SERVED: ReadonlySet<string> = new Set(["websockets", "eventsource"]);
/** What no client outside a browser has: TLS with the suite's authority, HTTP/2, WebSocketStream, and the lives of documents and workers. */
const NOT_SERVED =
  /\.https\.|[?&](?:wss|wpt_flags=h2)(?:&|$)|\/(?:stream|multi-globals|unload-a-document|shared-worker)\/|back-forward-cache|iframe|xhr|worker-shutdown/;

export interface TestFile {
  /** Below the tests' folder, with its variant: `url/url-constructor.any.js?include=file`. */
  readonly name: string;
  readonly path: string;
  /** `?…`, or empty. */
  readonly variant: string;
  /** Absolute paths of scripts to run first. */
  readonly scripts: readonly string[];
  readonly timeoutMs: number;
  /** For a document: its scripts without a file, one after the other. Default: the text of the file at `path`. */
  readonly code?: string;
  /** The test needs the server of server.ts. */
  readonly served: boolean;
}

/** Aliases of paths on the suite's own server. */
const SERVED_AS: { readonly [url: string]: string } = {
  "/resources/WebIDLParser.js": "/resources/webidl2/lib/webidl2.js",
};
const META = /^\/\/ META: (\w+)=(.*)$/gm;
const TIMEOUT_MS = { normal: 15_000, long: 60_000 } as const;
const META_ELEMENT = /<meta\s+name="?(\w+)"?\s+content="?([^">]*)"?/gi;
const SCRIPT_ELEMENT = /<script(?:\s+src=["']?([^\s"'>]+)["']?)?[^>]*>(.*?)<\/script>/gis;
const HARNESS = /^\/resources\/testharness(?:report)?\.js$/;

interface TestText {
  readonly meta: readonly { readonly key: string; readonly value: string }[];
  readonly scripts: readonly string[];
  readonly code?: string;
}

function readScript(path: string): TestText {
  const meta = [...readFileSync(path, "utf8").matchAll(META)].map(([, key = "", value = ""]) => ({
    key,
    value: value.trim(),
  }));
  return { meta, scripts: meta.filter(({ key }) => key === "script").map(({ value }) => value) };
}

/** Returns the scripts of a document, without the harness. */
function readDocument(path: string): TestText {
  const text = readFileSync(path, "utf8");
  const elements = [...text.matchAll(SCRIPT_ELEMENT)].map(([, source, code = ""]) => ({ source, code }));
  return {
    meta: [...text.matchAll(META_ELEMENT)].map(([, key = "", value = ""]) => ({ key, value })),
    scripts: elements.flatMap(({ source }) => (source === undefined || HARNESS.test(source) ? [] : [source])),
    code: elements.map(({ code }) => code).join("\n;\n"),
  };
}

function toTestFiles(folder: string, path: string, served: boolean): TestFile[] {
  const { meta, scripts, code } = path.endsWith(".js") ? readScript(path) : readDocument(path);
  const valuesOf = (key: string): string[] => meta.filter((row) => row.key === key).map(({ value }) => value);
  const timeoutMs = valuesOf("timeout").includes("long") ? TIMEOUT_MS.long : TIMEOUT_MS.normal;
  const variants = valuesOf("variant");
  return (variants.length === 0 ? [""] : variants).map((variant) => ({
    name: `${relative(folder, path)}${variant}`,
    path,
    variant,
    scripts: scripts.map((script) =>
      script.startsWith("/") ? join(folder, SERVED_AS[script] ?? script) : resolve(dirname(path), script),
    ),
    timeoutMs,
    ...(code === undefined ? {} : { code }),
    served,
  }));
}

/** Debian removes minified files from its sources, so tests that need one cannot run. */
const isWhole = ({ scripts }: TestFile): boolean => scripts.every((script) => existsSync(script));

/**
 * All `*.any.js` files of a suite that can be run, in the order of their names, and for suites with a server also documents; none where
 * the suite was not got.
 *
 * @param suite one of `SUITES`, or a folder below the tests' own
 */
export function testFilesOf(suite: string, folder: string = TESTS_FOLDER): TestFile[] {
  return (SUITES[suite] ?? [suite]).flatMap((part) => {
    const root = join(folder, part);
    if (!existsSync(root)) return [];
    const served = SERVED.has(part.split("/")[0] ?? "");
    const wanted = served ? /\.(?:any|window)\.js$|^(?!.*resources).*\.html?$/ : /\.any\.js$/;
    const names = readdirSync(root, { recursive: true, encoding: "utf8" }).filter((name) => wanted.test(name));
    const files = names.sort().flatMap((name) => toTestFiles(folder, join(root, name), served).filter(isWhole));
    return served ? files.filter(({ name }) => !NOT_SERVED.test(name)) : files;
  });
}
