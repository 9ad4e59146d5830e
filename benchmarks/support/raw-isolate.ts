// The baseline: isolated-vm used directly, in process, JSON text in and out, asynchronously. Its only limit is memory.
import ivm from "isolated-vm";
import { answer } from "./jobs.ts";

/** A tool's script in the bundle form, evaluated; `call` applies it to JSON text. */
export interface RawTool {
  call(input: string): Promise<string>;
  dispose(): void;
}

/** Sets `globalThis.tool` to the bundle's default export and answers with a function over JSON text. */
const HARNESS = `
  let execute;
  const loaded = $0((namespace) => {
    const main = namespace.default;
    execute = typeof main === "function" ? main : main.execute.bind(main);
  });
  const host = { ask: async (n) => JSON.parse(await $1.apply(undefined, [JSON.stringify(n)], { result: { promise: true } })) };
  return async (text) => { await loaded; return JSON.stringify(await execute(JSON.parse(text), host)); };
`;

/** Globals that npm packages require while they load. Glovebox's prelude provides them to its guests. */
const GLOBALS = `
  globalThis.console = { log() {}, warn() {}, error() {} };
  globalThis.setTimeout = () => 0;
`;

/** A host function that waits for something, as JSON text: one that answers at once could do without a promise. */
const ask = async (text: string): Promise<string> => JSON.stringify(answer(JSON.parse(text) as number));

export interface RawOptions {
  readonly cachedData?: ivm.ExternalCopy<ArrayBuffer> | undefined;
  readonly memoryMiB?: number;
}

export async function createRawTool(code: string, { cachedData, memoryMiB = 128 }: RawOptions = {}): Promise<RawTool> {
  const isolate = new ivm.Isolate({ memoryLimit: memoryMiB });
  const context = await isolate.createContext();
  await context.eval(GLOBALS);
  const script = await isolate.compileScript(code, cachedData === undefined ? {} : { cachedData });
  const bundle = (await script.run(context, { reference: true })) as unknown as ivm.Reference;
  const call = (await context.evalClosure(HARNESS, [bundle.derefInto(), new ivm.Reference(ask)], {
    result: { reference: true },
  })) as unknown as ivm.Reference;
  return {
    call: (input) => call.apply(undefined, [input], { result: { promise: true } }) as unknown as Promise<string>,
    dispose: () => isolate.dispose(),
  };
}

/** All of it, from an isolate to its disposal: what a call costs by hand when nothing is warm. */
export async function runRawTool(
  code: string,
  input: unknown,
  cachedData?: ivm.ExternalCopy<ArrayBuffer>,
): Promise<unknown> {
  const tool = await createRawTool(code, { cachedData });
  try {
    return JSON.parse(await tool.call(JSON.stringify(input)));
  } finally {
    tool.dispose();
  }
}

/** V8's code cache of a script, made after it has run once. */
export async function makeCodeCache(code: string): Promise<ivm.ExternalCopy<ArrayBuffer>> {
  const isolate = new ivm.Isolate({ memoryLimit: 128 });
  const context = await isolate.createContext();
  await context.eval(GLOBALS);
  const bundle = (await (
    await isolate.compileScript(code)
  ).run(context, {
    reference: true,
  })) as unknown as ivm.Reference;
  await context.evalClosure("return $0(() => {})", [bundle.derefInto()], { result: { promise: true, copy: true } });
  const script = (await isolate.compileScript(code, { produceCachedData: true })) as unknown as {
    readonly cachedData: ivm.ExternalCopy<ArrayBuffer>;
  };
  return script.cachedData;
}
