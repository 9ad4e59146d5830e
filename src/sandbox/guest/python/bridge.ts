// Between the harness in Python and the call's ctx: values cross as JSON text, with bytes beside it.
import { fromTextWithBytes, makeNotGranted, readAsset, serialize } from "./prelude.ts";

type Parts = readonly [text: string, header: string | undefined, data: Uint8Array | undefined];

/** A failure as the harness states it. */
interface Failure {
  readonly name: string;
  readonly message: string;
  readonly stack: string;
  readonly code?: string;
  /** What was not granted. */
  readonly capability?: string;
}

export interface Bridge {
  limitStack(): void;
  /** One of the files that the host has sent, by its name. */
  readAsset(name: string): ArrayBuffer | undefined;
  /** Names of the call's capabilities. */
  readonly granted: readonly string[];
  readonly callId: string;
  readonly tenantId: string;
  /** Calls a member of ctx, `kv.get`; arguments are a list. */
  call(path: string, text: string, header?: string, data?: Uint8Array): Promise<Parts>;
  /** The same of what answers nothing: a log or progress. */
  tell(path: string, text: string): void;
  /** The global `fetch`; `init` as it takes it, with bytes as its body. */
  fetch(url: string, init: string, body?: string | Uint8Array): Promise<unknown>;
  output(text: string, header?: string, data?: Uint8Array): void;
  /** The output is no JSON. */
  refuse(problem: string): void;
  /** @param cause what a host call was rejected with, where that is what failed */
  fail(failure: string, cause?: unknown): void;
  /** What execute is to return; throws for a failure. */
  result(): unknown;
}

/** Always there, and none of them granted. */
const OWN_MEMBERS: readonly string[] = ["callId", "tenantId", "log", "progress", "signal"];

const toValue = (text: string, header?: string, data?: Uint8Array): unknown =>
  header === undefined || data === undefined ? JSON.parse(text) : fromTextWithBytes(text, { header, data });

/** Python's memory may be moved or written to as soon as this turn is over. */
const copied = (data: Uint8Array | undefined): Uint8Array | undefined => data?.slice();

/** The error of a refused host call stays what it is: the prelude knows it, and so its code is believed. */
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

/** What JSON.stringify cannot make text of, for the reason stated. */
const unserializable = (problem: string): object => ({
  toJSON(): never {
    throw new TypeError(problem);
  },
});

type Members = { readonly [name: string]: unknown };

function memberOf(ctx: object, path: string): (...args: unknown[]) => unknown {
  let holder: unknown;
  let target: unknown = ctx;
  for (const name of path.split(".")) {
    holder = target;
    target = (target as Members | undefined)?.[name];
  }
  if (typeof target !== "function") throw new TypeError(`There is no ${path}`);
  return (target as (...args: unknown[]) => unknown).bind(holder);
}

export function createBridge(ctx: object, limitStack: () => void): Bridge {
  let finish = (): unknown => {
    throw new Error("The Python interpreter ended without a result");
  };
  const { callId, tenantId } = ctx as { readonly callId: string; readonly tenantId: string };
  return {
    limitStack,
    readAsset,
    callId,
    tenantId,
    granted: Object.keys(ctx).filter((name) => !OWN_MEMBERS.includes(name)),
    call: async (path, text, header, data) => {
      const args = toValue(text, header, copied(data)) as unknown[];
      const answer = serialize(await memberOf(ctx, path)(...args));
      if (answer.text === undefined) throw new TypeError(`${path}: ${answer.problem}`);
      return [answer.text, answer.bytes?.header, answer.bytes?.data];
    },
    tell: (path, text) => {
      const answer = memberOf(ctx, path)(...(JSON.parse(text) as unknown[]));
      if (answer instanceof Promise) answer.catch(() => {});
    },
    fetch: (url, init, body) => {
      const { fetch } = globalThis as unknown as { fetch(url: string, init: object): Promise<unknown> };
      return fetch(url, { ...JSON.parse(init), body: typeof body === "string" ? body : copied(body) });
    },
    output: (text, header, data) => {
      const value = toValue(text, header, copied(data));
      finish = () => value;
    },
    refuse: (problem) => {
      finish = () => unserializable(problem);
    },
    fail: (failure, cause) => {
      const error = toError(JSON.parse(failure) as Failure, cause);
      finish = () => {
        throw error;
      };
    },
    result: () => finish(),
  };
}
