// Collects, at build time, the declarations that the editor checks a tool with: the language, the platform of the sandbox, and "glovebox/tool".
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import type { Plugin } from "vite";
import { NODE_BUILTINS } from "../../sandbox/contract/node-builtins.ts";
import { AMBIENT } from "./ambient.ts";
import type { EditorCompiler, TypeScript } from "./compiler.ts";

const path = (relative: string): string => fileURLToPath(new URL(relative, import.meta.url));
/** The newest TypeScript with an API in JavaScript; TypeScript 7 has none. */
export const TYPESCRIPT: string = path("../../../.ci/typescript6/node_modules/typescript/lib/typescript.js");
const ts = createRequire(import.meta.url)(TYPESCRIPT) as EditorCompiler;
const libraryOf = (name: string): string =>
  readFileSync(path(`../../../.ci/typescript6/node_modules/typescript/lib/lib.${name}.d.ts`), "utf8");

/** Globals of the sandbox that the web defines too (src/sandbox/guest/platform.ts). Those that need a grant have a file of their own. */
const WEB_GLOBALS =
  `URL URLSearchParams ReadableStream ReadableStreamDefaultReader ReadableStreamBYOBReader ReadableStreamBYOBRequest
  ReadableByteStreamController ReadableStreamDefaultController WritableStream WritableStreamDefaultWriter
  WritableStreamDefaultController TransformStream TransformStreamDefaultController ByteLengthQueuingStrategy
  CountQueuingStrategy Blob File Headers Request Response FormData CloseEvent TextEncoderStream TextDecoderStream
  CompressionStream DecompressionStream crypto Crypto CryptoKey SubtleCrypto MessageChannel MessagePort MessageEvent
  ErrorEvent PromiseRejectionEvent BroadcastChannel performance Performance PerformanceEntry PerformanceMark
  PerformanceMeasure PerformanceObserver PerformanceObserverEntryList URLPattern TextEncoder TextDecoder Event CustomEvent
  EventTarget AbortController AbortSignal DOMException QuotaExceededError console atob btoa structuredClone setTimeout
  clearTimeout setInterval clearInterval queueMicrotask reportError`.split(/\s+/);
const GRANTED_GLOBALS = ["fetch", "WebSocket", "EventSource"];
/** Types of browsers that the sandbox lacks: they are not followed. */
const ABSENT = new Set([
  "ServiceWorker",
  "OffscreenCanvas",
  "ImageBitmap",
  "VideoFrame",
  "AudioData",
  "RTCDataChannel",
]);

function* typeNamesIn(node: TypeScript.Node): Generator<string> {
  const name = ts.isTypeReferenceNode(node)
    ? node.typeName
    : ts.isExpressionWithTypeArguments(node)
      ? node.expression
      : ts.isTypeQueryNode(node)
        ? node.exprName
        : undefined;
  if (name !== undefined && ts.isIdentifier(name)) yield name.text;
  const children: TypeScript.Node[] = [];
  ts.forEachChild(node, (child) => void children.push(child));
  for (const child of children) yield* typeNamesIn(child);
}

function namesOf(statement: TypeScript.Statement): readonly string[] {
  if (ts.isVariableStatement(statement))
    return statement.declarationList.declarations.map(({ name }) => name.getText());
  const { name } = statement as { readonly name?: TypeScript.Node };
  return name === undefined ? [] : [name.getText()];
}

/** Picks declarations from a library, with the types that they refer to. */
function pick(
  library: string,
  wanted: readonly string[],
  known: ReadonlySet<string>,
): readonly [text: string, names: Set<string>] {
  const file = ts.createSourceFile("lib.d.ts", library, ts.ScriptTarget.ESNext, true);
  const byName = Map.groupBy(
    file.statements.flatMap((statement) => namesOf(statement).map((name) => ({ name, statement }))),
    ({ name }) => name,
  );
  const names = new Set(wanted);
  const picked = new Set<TypeScript.Statement>();
  for (const name of names) {
    if (known.has(name)) continue;
    for (const { statement } of byName.get(name) ?? []) {
      picked.add(statement);
      for (const other of typeNamesIn(statement)) if (byName.has(other) && !ABSENT.has(other)) names.add(other);
    }
  }
  const absent = [...ABSENT].map((name) => `type ${name} = never;`).join("\n");
  const text = file.statements.filter((statement) => picked.has(statement)).map((statement) => statement.getFullText());
  return [`${known.size === 0 ? absent : ""}\n${text.join("\n")}`, names];
}

/** Reads a library of the language, and those that it refers to. */
function readLanguage(name: string, files: Map<string, string>): void {
  const file = `/lib/lib.${name}.d.ts`;
  if (files.has(file)) return;
  const text = libraryOf(name);
  files.set(file, text);
  for (const [, other = ""] of text.matchAll(/\/\/\/ <reference lib="([\w.]+)" \/>/g)) readLanguage(other, files);
}

function declarationsOf(file: string): string {
  const { outputText, diagnostics = [] } = ts.transpileDeclaration(readFileSync(path(file), "utf8"), {
    compilerOptions: { isolatedDeclarations: true, target: ts.ScriptTarget.ESNext, module: ts.ModuleKind.ESNext },
  });
  if (diagnostics.length > 0) throw new Error(`${file} has no isolated declarations: ${diagnostics[0]?.messageText}`);
  return outputText;
}

/** Replaces text that must be there. */
function replace(file: string, text: string, from: string | RegExp, to: string): string {
  const result = text.replace(from, () => to);
  if (result === text) throw new Error(`${file} has changed: ${from} was not found`);
  return result;
}

/** Returns the declarations of a file of src/sandbox/guest, with its imports from the editor's modules. */
const guestDeclarations = (name: string): string =>
  declarationsOf(`../../sandbox/guest/${name}.ts`)
    .replaceAll("../contract/content.ts", "glovebox/content")
    .replaceAll("../contract/tool-annotations.ts", "glovebox/tool-annotations")
    .replaceAll(/"\.\/(tool-[a-z]+)\.ts"/g, '"glovebox/$1"');

/** The types of a call's context, which has what the tool was granted and nothing else. */
function contextDeclarations(): string {
  const file = "src/sandbox/guest/tool-context.ts";
  let text = guestDeclarations("tool-context");
  text = replace(
    file,
    text,
    "interface ToolContext extends Partial<OwnCapabilities>",
    "interface ToolContext extends GrantedCapabilities",
  );
  text = replace(file, text, /\n {4}\/\*\* Present if the tool requests it[^\n]*\n[^\n]*ToolSecrets;/, "");
  text = replace(
    file,
    text,
    /\n {4}\/\*\*\n {5}\* A granted capability, which takes(?:(?!\*\/)[\s\S])*\*\/\n[^\n]*unknown;/,
    "",
  );
  text = replace(file, text, /export type ToolCalls = [\s\S]*?\n\};/, "export type ToolCalls = TenantTools;");
  text = replace(file, text, /use\(name: string\)/g, "use(name: RequestedSecret)");
  return `import type { GrantedCapabilities, RequestedSecret, TenantTools } from "glovebox/granted";\n${text}`;
}

/** The types of "glovebox/tool". */
function toolDeclarations(): string {
  const text = replace(
    "src/sandbox/guest/tool.ts",
    guestDeclarations("tool"),
    /type ContextOf<Asked> = [^;]*;/,
    "type ContextOf<_Asked> = ToolContext;",
  );
  return `${text}
/** Type of a tool that is a function. */
export type ToolFunction<Input, Output> = (
  input: Input extends ToolSchema ? InputOf<Input> : any,
  ctx: ToolContext,
) => Output extends ToolSchema ? ToolReturn<Output> : unknown;
`;
}

/** Returns all files by path. */
export function readLibraries(): { readonly [path: string]: string } {
  const files = new Map<string, string>();
  readLanguage("esnext", files);
  const web = `${libraryOf("webworker")}`;
  const [platform, known] = pick(web, WEB_GLOBALS, new Set());
  const [network] = pick(web, GRANTED_GLOBALS, known);
  files.set("/platform.d.ts", platform);
  files.set("/network.d.ts", network);
  const modules = [...NODE_BUILTINS.keys()].flatMap((name) => [name, `node:${name}`]);
  files.set("/ambient.d.ts", `${AMBIENT}\n${modules.map((name) => `declare module "${name}";`).join("\n")}`);
  files.set("/modules/glovebox/tool.d.ts", toolDeclarations());
  files.set("/modules/glovebox/tool-context.d.ts", contextDeclarations());
  files.set("/modules/glovebox/tool-schema.d.ts", guestDeclarations("tool-schema"));
  files.set("/modules/glovebox/content.d.ts", declarationsOf("../../sandbox/contract/content.ts"));
  files.set("/modules/glovebox/tool-annotations.d.ts", declarationsOf("../../sandbox/contract/tool-annotations.ts"));
  const schema = createRequire(import.meta.url)
    .resolve("@standard-schema/spec")
    .replace(/\.c?js$/, ".d.ts");
  files.set("/modules/@standard-schema/spec.d.ts", readFileSync(schema, "utf8"));
  return Object.fromEntries(files);
}

const ID = "virtual:editor-libraries";

/** Makes the libraries a module of the worker. */
export const editorLibraries = (): Plugin => ({
  name: "editor-libraries",
  resolveId: (id) => (id === ID ? `\0${ID}` : undefined),
  load: (id) => (id === `\0${ID}` ? `export default ${JSON.stringify(readLibraries())};` : undefined),
});
