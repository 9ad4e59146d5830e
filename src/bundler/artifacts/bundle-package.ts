// Bundles the compiled modules of the package into few files: loading 300 modules takes most of the time of an import. The entry points and
// the programs that are started by path keep their places, as files of one line that import a bundle.
import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join, posix, relative, sep } from "node:path";
import type { Plugin } from "esbuild";
import { mergeChunks, PROGRAM } from "./merge-chunks.ts";

/** The entry point `glovebox`. */
const MAIN = "host/index";

/** The entry point that also runs in browsers and other runtimes, so it shares no bundle with the others. */
const CLIENT = "client/index";

/** The bundler reads this module as a file and bundles it into tools. */
const KEPT = "sandbox/guest/tool";

/**
 * Packages that become part of the bundles. Zod, because half of an import would be spent on its modules, and what must share its classes with
 * it. Kysely, prom-client and standardwebhooks, because they and their dependencies take 13 MB and little of them is used. The last five,
 * because each import of Glovebox needs them, and finding their files takes a twelfth of its CPU time.
 */
const BUNDLED = [
  "zod",
  "@hono/zod-openapi",
  "@hono/zod-validator",
  "@asteasolutions/zod-to-openapi",
  "kysely",
  "prom-client",
  "tdigest",
  "bintrees",
  "standardwebhooks",
  "@stablelib/base64",
  "fast-sha256",
  "@jridgewell/trace-mapping",
  "@jridgewell/sourcemap-codec",
  "@jridgewell/resolve-uri",
  "ipaddr.js",
  "@cfworker/json-schema",
];

/** Zod's messages in 60 languages, of which Glovebox uses the default. */
const LOCALES = /[\\/]zod[\\/]v4[\\/]locales[\\/]index\.js$/;

/**
 * `@hono/zod-openapi` extends zod's class and exports zod's namespace. Both would keep all of zod, of which Glovebox uses half.
 */
const ZOD_OPENAPI = /[\\/]@hono[\\/]zod-openapi[\\/]dist[\\/]index\.mjs$/;
const NAMED_ZOD = 'import { z } from "zod";';
const OPENAPI_ZOD = /^import \{ z \} from "@hono\/zod-openapi";$/m;
/** An import of zod's namespace together with others, which would not be replaced: the bundle would have a `z` without its functions. */
const MIXED_ZOD = /^import \{[^}]*\bz\b[^}]*\} from "@hono\/zod-openapi";$/m;

/** A class that refers to itself, as esbuild writes it. */
const RENAMED_CLASS = /\b(?:const|let|var) (\w+) = class _\1\b/g;

/**
 * Restores the names of such classes, which errors and logs contain. esbuild's `keepNames` would set the name of each function when it is
 * created, which takes a twentieth of an import's CPU time.
 */
function restoreClassNames(text: string): string {
  const names = [...text.matchAll(RENAMED_CLASS)].map(([, name = ""]) => name);
  return names.reduce((changed, name) => changed.replaceAll(new RegExp(`\\b_${name}\\b`, "g"), name), text);
}

/** The parts of package.json that name entry points. */
interface Manifest {
  readonly exports: { readonly [path: string]: string | { readonly default: string } };
  readonly bin: { readonly [name: string]: string };
}

/** Folder of the bundles. */
const BUNDLES = "lib";
/** Names that stand for `import.meta.url`: of a bundle, and of a module in it. */
const BUNDLE_URL = "__bundleUrl";
const MODULE_URL = "__moduleUrl";
/** CommonJS packages in the bundles require built-in modules of Node. */
const REQUIRE = "require = (name) => process.getBuiltinModule(name)";

const nameOf = (entry: string): string => entry.replaceAll("/", "-");
const isBundled = (path: string): boolean => BUNDLED.some((name) => path === name || path.startsWith(`${name}/`));

/** Keeps each module's own location as its `import.meta.url`, since it finds files by it. */
function moduleUrls(dist: string): Plugin {
  return {
    name: "module-urls",
    setup({ onLoad, onResolve }) {
      onResolve({ filter: /^[^./]/ }, ({ path, kind }) => {
        return kind === "entry-point" || isBundled(path) ? undefined : { path, external: true };
      });
      onLoad({ filter: LOCALES }, () => ({ contents: 'export { default as en } from "./en.js";' }));
      onLoad({ filter: ZOD_OPENAPI }, async ({ path }) => {
        const text = await readFile(path, "utf8");
        if (!text.includes(NAMED_ZOD)) throw new Error(`${path}: expected ${NAMED_ZOD}`);
        return { contents: text.replace(NAMED_ZOD, 'import { ZodType } from "zod";\nconst z = { ZodType };') };
      });
      onLoad({ filter: /\.js$/ }, async ({ path }) => {
        const source = await readFile(path, "utf8");
        const text = source.replace(OPENAPI_ZOD, 'import "@hono/zod-openapi";\nimport * as z from "zod";');
        if (MIXED_ZOD.test(text))
          throw new Error(`${path}: expected z to be imported from @hono/zod-openapi by itself`);
        if (!text.includes("import.meta.url")) return { contents: text };
        const location = relative(join(dist, BUNDLES), path).split(sep).join("/");
        const declaration = `const ${MODULE_URL} = new URL(${JSON.stringify(location)}, ${BUNDLE_URL}).href;\n`;
        return { contents: declaration + text };
      });
    },
  };
}

/** Packages of {@link BUNDLED} that are not installed with Glovebox. Their types appear only in its internals. */
const HIDDEN_IMPORT = /^import (?:type )?\{([^}]*)\} from "(?:kysely|prom-client|standardwebhooks)";$/gm;
/** An inferred type of such a package in a declaration. */
const INFERRED_TYPE = /\bimport\("(?:kysely|prom-client|standardwebhooks)"\)/;

/** Replaces types of packages that are not installed with opaque ones, so that the declarations can be compiled. */
async function hideTypes(dist: string): Promise<void> {
  for (const name of await readdir(dist, { recursive: true })) {
    if (!name.endsWith(".d.ts")) continue;
    const text = await readFile(join(dist, name), "utf8");
    const changed = text.replace(HIDDEN_IMPORT, (_, names: string) => {
      const locals = names.split(",").map((item) => /([\w$]+)\s*$/.exec(item)?.[1] ?? "");
      return locals.map((local) => `type ${local}<_A = unknown, _B = unknown, _C = unknown> = object;`).join("\n");
    });
    if (INFERRED_TYPE.test(changed)) throw new Error(`${name}: write out the type of a package that is not installed`);
    if (changed !== text) await writeFile(join(dist, name), changed);
  }
}

async function removeModules(folder: string): Promise<void> {
  for (const name of await readdir(folder, { recursive: true })) {
    if (name.endsWith(".js") && name.split(sep).join("/") !== `${KEPT}.js`) await rm(join(folder, name));
  }
}

/** Returns the modules of `exports` and `bin` in package.json, and the programs that the host starts by their path. */
async function findEntries(dist: string): Promise<readonly string[]> {
  const manifest = JSON.parse(await readFile(join(dirname(dist), "package.json"), "utf8")) as Manifest;
  const exported = Object.values(manifest.exports).flatMap((target) =>
    typeof target === "string" ? [] : [target.default],
  );
  const named = [...exported, ...Object.values(manifest.bin)].map((path) => posix.relative("dist", path));
  const modules = (await readdir(dist, { recursive: true })).map((name) => name.split(sep).join("/"));
  const programs = modules.filter((name) => PROGRAM.test(name));
  return [...named, ...programs].map((name) => name.replace(/\.js$/, "")).filter((name) => name !== KEPT);
}

/** Bundles the modules in `dist`, which the compiler has written, and removes them. */
export async function bundlePackage(dist: string): Promise<void> {
  const { build } = await import("esbuild");
  const entries = await findEntries(dist);
  const pointsOf = (entries: readonly string[]): { [name: string]: string } =>
    Object.fromEntries(entries.map((entry) => [nameOf(entry), join(dist, `${entry}.js`)]));
  const common = {
    absWorkingDir: dirname(dist),
    outdir: join(dist, BUNDLES),
    bundle: true,
    format: "esm",
    target: "node24",
    write: false,
    metafile: true,
    legalComments: "none",
    logLevel: "warning",
  } as const;
  const [main, client] = await Promise.all([
    build({
      ...common,
      entryPoints: pointsOf(entries.filter((entry) => entry !== CLIENT)),
      splitting: true,
      platform: "node",
      banner: { js: `const ${BUNDLE_URL} = import.meta.url, ${REQUIRE};` },
      define: { "import.meta.url": MODULE_URL },
      plugins: [moduleUrls(dist)],
    }),
    build({ ...common, entryPoints: pointsOf([CLIENT]), platform: "neutral", plugins: [moduleUrls(dist)] }),
  ]);
  await removeModules(dist);
  await hideTypes(dist);
  await mkdir(join(dist, BUNDLES), { recursive: true });
  const files = [...(await mergeChunks(build, main, `dist/${BUNDLES}/${nameOf(MAIN)}.js`)), ...client.outputFiles];
  for (const { path, contents } of files) await writeFile(path, restoreClassNames(Buffer.from(contents).toString()));
  for (const entry of entries) {
    const specifier = JSON.stringify(posix.relative(posix.dirname(entry), `${BUNDLES}/${nameOf(entry)}.js`));
    const isProgram = entry === "cli/main";
    const text = isProgram ? `#!/usr/bin/env node\nimport ${specifier};\n` : `export * from ${specifier};\n`;
    await writeFile(join(dist, `${entry}.js`), text);
  }
  const inputs = [main, client].flatMap(({ metafile }) => Object.keys(metafile.inputs));
  await writeFile(join(dist, BUNDLES, "LICENSES.txt"), await licensesOf(dirname(dist), inputs));
}

/** Returns the licenses of the packages whose code is in the bundles. */
async function licensesOf(root: string, inputs: readonly string[]): Promise<string> {
  const folders = new Set(inputs.flatMap((path) => /^(?:.*\/)?node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path)?.[0] ?? []));
  const texts: string[] = [];
  for (const name of [...folders].sort()) {
    const folder = join(root, name);
    const manifest = JSON.parse(await readFile(join(folder, "package.json"), "utf8")) as Record<string, unknown>;
    const file = (await readdir(folder)).find((entry) => /^licen[cs]e/i.test(entry));
    const license = file === undefined ? "" : await readFile(join(folder, file), "utf8");
    texts.push(
      `${String(manifest.name)} ${String(manifest.version)} (${String(manifest.license)})\n\n${license.trim()}\n`,
    );
  }
  return texts.join(`\n${"-".repeat(80)}\n\n`);
}
