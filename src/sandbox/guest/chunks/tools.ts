// ctx.tools, the guest's side: ctx.tools.NAME(input) for whatever name; which of them there are, the host says.
import type { ToolCalls } from "../tool.ts";

type Ask = (input: object) => Promise<unknown>;

/** Read by `await`, JSON.stringify and the like of any object: these are called by `call` alone. */
const NOT_NAMES: readonly string[] = ["then", "toJSON", "constructor", "toString", "valueOf"];

export function createMember(ask: Ask): ToolCalls {
  const call = async (name: string, input: unknown = {}): Promise<unknown> =>
    await ask({ name: String(name), input: input === undefined ? {} : input });
  const known = Object.freeze(Object.assign(Object.create(null) as object, { call }));
  return new Proxy(known, {
    get: (_known, key) => {
      if (key === "call") return call;
      if (typeof key !== "string" || NOT_NAMES.includes(key)) return undefined;
      return (input: unknown): Promise<unknown> => call(key, input);
    },
  }) as ToolCalls;
}
