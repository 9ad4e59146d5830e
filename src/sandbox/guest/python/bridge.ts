// Connects the harness in Python with the call's ctx. Values cross as JSON text with binary attachments.
import { fromTextWithBytes, makeNotGranted, readAsset, serialize, toRejected } from "./prelude.ts";
import { startTimer, untilForgotten } from "./shell.ts";

type Parts = readonly [text: string, header: string | undefined, data: Uint8Array | undefined];

/** A failure as the harness reports it. */
interface Failure {
  readonly name: string;
  readonly message: string;
  readonly stack: string;
  readonly code?: string;
  /** The capability that was not granted. */
  readonly capability?: string;
}

export interface Bridge {
  limitStack(): void;
  startTimer(run: () => void, delayMs: number): number;
  untilForgotten(run: () => void): () => void;
  /** Returns a file that the host has sent, by its name. */
  readAsset(name: string): ArrayBuffer | undefined;
  /** Names of the capabilities of the call. */
  readonly granted: readonly string[];
  readonly callId: string;
  readonly tenantId: string;
  /** Calls a member of ctx, such as `kv.get`, with a list of arguments. */
  call(path: string, text: string, header?: string, data?: Uint8Array): Promise<Parts>;
  /** Calls a member without a result: a log or progress. */
  notify(path: string, text: string): void;
  /**
   * Registers a function of Python with `ctx.onRollback`.
   * @param run proxy of the function, which is kept
   */
  onRollback(run: unknown, name: string): Promise<unknown>;
  /** Calls the global `fetch`. `init` is its second argument as JSON, without the body. */
  fetch(url: string, init: string, body?: string | Uint8Array): Promise<unknown>;
  output(text: string, header?: string, data?: Uint8Array): void;
  /** Reports that the output cannot be converted to JSON. */
  rejectOutput(problem: string): void;
  /** @param cause rejection of the host call that caused the failure */
  fail(failure: string, cause?: unknown): void;
  /** Returns the result of execute, or throws its failure. */
  result(): unknown;
}

/** Members of every ctx, which need no grant. */
const OWN_MEMBERS: readonly string[] = ["callId", "tenantId", "log", "progress", "span", "signal"];

const toValue = (text: string, header?: string, data?: Uint8Array): unknown =>
  header === undefined || data === undefined ? JSON.parse(text) : fromTextWithBytes(text, { header, data });

/** Copies bytes, because Python may move or modify its memory after this task. */
const copied = (data: Uint8Array | undefined): Uint8Array | undefined => data?.slice();

/** Returns the error of a failed host call itself, because the prelude knows it and therefore trusts its code. */
function toError({ name, message, stack, code, capability }: Failure, cause: unknown): Error {
  const made = (): Error => (capability === undefined ? new Error(message) : makeNotGranted(capability, capability));
  const error = cause instanceof Error ? cause : made();
  const set = (key: string, value: string): void => {
    Object.defineProperty(error, key, { value, configurable: true, writable: true });
  };
  set("name", name);
  set("message", message);
  set("stack", stack);
  if (code !== undefined) set("code", code);
  return error;
}

type Members = { readonly [name: string]: unknown };

function memberOf(ctx: object, path: string): (...args: unknown[]) => unknown {
  let holder: unknown;
  let target: unknown = ctx;
  for (const name of path.split(".")) {
    holder = target;
    target = (target as Members | undefined)?.[name];
  }
  if (typeof target !== "function") throw new TypeError(`ctx.${path} does not exist`);
  return (target as (...args: unknown[]) => unknown).bind(holder);
}

export interface BridgeDependencies {
  readonly limitStack: () => void;
  /** Runs a function of Python that was registered with `ctx.onRollback`. Returns its failure as JSON text. */
  readonly undo: (run: unknown, bridge: Bridge) => Promise<string | undefined>;
}

export function createBridge(ctx: object, { limitStack, undo }: BridgeDependencies): Bridge {
  let finish = (): unknown => {
    throw new Error("The Python interpreter ended without a result");
  };
  const { callId, tenantId } = ctx as { readonly callId: string; readonly tenantId: string };
  const bridge: Bridge = {
    limitStack,
    startTimer,
    untilForgotten,
    readAsset,
    callId,
    tenantId,
    granted: Object.keys(ctx).filter((name) => !OWN_MEMBERS.includes(name)),
    call: async (path, text, header, data) => {
      const args = toValue(text, header, copied(data)) as unknown[];
      const response = serialize(await memberOf(ctx, path)(...args));
      if (response.text === undefined) throw new TypeError(`${path}: ${response.problem}`);
      return [response.text, response.bytes?.header, response.bytes?.data];
    },
    notify: (path, text) => {
      const response = memberOf(ctx, path)(...(JSON.parse(text) as unknown[]));
      if (response instanceof Promise) response.catch(() => {});
    },
    onRollback: (run, name) => {
      const compensation = async (): Promise<void> => {
        const failure = await undo(run, bridge);
        if (failure !== undefined) throw toError(JSON.parse(failure) as Failure, undefined);
      };
      Object.defineProperty(compensation, "name", { value: name });
      const registered = memberOf(ctx, "onRollback")(compensation) as Promise<unknown>;
      // A program need not wait for it.
      registered.catch(() => {});
      return registered;
    },
    fetch: (url, init, body) => {
      const { fetch } = globalThis as unknown as { fetch(url: string, init: object): Promise<unknown> };
      return fetch(url, { ...JSON.parse(init), body: typeof body === "string" ? body : copied(body) });
    },
    output: (text, header, data) => {
      const value = toValue(text, header, copied(data));
      finish = () => value;
    },
    rejectOutput: (problem) => {
      finish = () => toRejected(problem);
    },
    fail: (failure, cause) => {
      const error = toError(JSON.parse(failure) as Failure, cause);
      finish = () => {
        throw error;
      };
    },
    result: () => finish(),
  };
  return bridge;
}
