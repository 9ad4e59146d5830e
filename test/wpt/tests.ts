// Lists the web-platform tests: files, the scripts in their META lines, and their variants.
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
};

export interface TestFile {
  /** Below the tests' folder, with its variant: `url/url-constructor.any.js?include=file`. */
  readonly name: string;
  readonly path: string;
  /** `?…`, or empty. */
  readonly variant: string;
  /** Absolute paths of scripts to run first. */
  readonly scripts: readonly string[];
  readonly timeoutMs: number;
}

/** Aliases of paths on the suite's own server. */
const SERVED_AS: { readonly [url: string]: string } = {
  "/resources/WebIDLParser.js": "/resources/webidl2/lib/webidl2.js",
};
const META = /^\/\/ META: (\w+)=(.*)$/gm;
const TIMEOUT_MS = { normal: 15_000, long: 60_000 } as const;

function toTestFiles(folder: string, path: string): TestFile[] {
  const meta = [...readFileSync(path, "utf8").matchAll(META)].map(([, key, value = ""]) => ({
    key,
    value: value.trim(),
  }));
  const valuesOf = (key: string): string[] => meta.filter((row) => row.key === key).map(({ value }) => value);
  const scripts = valuesOf("script").map((script) =>
    script.startsWith("/") ? join(folder, SERVED_AS[script] ?? script) : resolve(dirname(path), script),
  );
  const timeoutMs = valuesOf("timeout").includes("long") ? TIMEOUT_MS.long : TIMEOUT_MS.normal;
  const variants = valuesOf("variant");
  return (variants.length === 0 ? [""] : variants).map((variant) => ({
    name: `${relative(folder, path)}${variant}`,
    path,
    variant,
    scripts,
    timeoutMs,
  }));
}

/** Debian removes minified files from its sources, so tests that need one cannot run. */
const isWhole = ({ scripts }: TestFile): boolean => scripts.every((script) => existsSync(script));

/**
 * All `*.any.js` files of a suite that can be run, in the order of their names; none where the suite was not got.
 *
 * @param suite one of `SUITES`, or a folder below the tests' own
 */
export function testFilesOf(suite: string, folder: string = TESTS_FOLDER): TestFile[] {
  return (SUITES[suite] ?? [suite]).flatMap((part) => {
    const root = join(folder, part);
    if (!existsSync(root)) return [];
    const names = readdirSync(root, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".any.js"));
    return names.sort().flatMap((name) => toTestFiles(folder, join(root, name)).filter(isWhole));
  });
}
