// Tests that every member of Node's built-in modules exists in a guest, so that packages load. Unsupported ones fail when they are used.
import { builtinModules } from "node:module";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type GuestTool, openGuest, runGuest } from "../../../support/guest.ts";

type Kind = "class" | "function" | "value";
type Members = { readonly [name: string]: Kind };

const OF_FUNCTIONS: ReadonlySet<string> = new Set(["length", "name", "prototype", "arguments", "caller"]);

function kindOf(name: string, value: unknown): Kind {
  if (typeof value !== "function") return "value";
  return /^[A-Z]/.test(name) && value.prototype !== undefined ? "class" : "function";
}

/** Excludes Node's internal members. */
function membersOf(module: object): Members {
  const names = Object.getOwnPropertyNames(module).filter((name) => !/^(?:_|k[A-Z])/.test(name));
  const shown = names.filter((name) => !(typeof module === "function" && OF_FUNCTIONS.has(name)));
  return Object.fromEntries(shown.map((name) => [name, kindOf(name, (module as Record<string, unknown>)[name])]));
}

/** Packages find out by the members of process where they run. */
const isPublic = (name: string): boolean => !name.startsWith("_") && name !== "process";
const MODULES = Object.fromEntries(
  [...new Set(builtinModules.map((name) => name.replace(/^node:/, "")))].filter(isPublic).flatMap((name) => {
    const module = process.getBuiltinModule(`node:${name}`) as object | undefined;
    return module === undefined ? [] : [[name, membersOf(module)] as const];
  }),
);

describe("the members of Node's built-in modules in a guest", () => {
  let tool: GuestTool;
  let missing: { readonly [module: string]: readonly string[] };
  beforeAll(async () => {
    tool = await openGuest(`async (modules) => {
      const missing = {};
      for (const [name, members] of Object.entries(modules)) {
        const module = process.getBuiltinModule("node:" + name);
        missing[name] = Object.entries(members).filter(([member, kind]) => {
          if (kind === "value") return false;
          if (kind === "function") return typeof module[member] !== "function";
          // Packages extend classes while they load.
          try { class Extended extends module[member] {} } catch { return true; }
          return false;
        }).map(([member, kind]) => member + ": " + kind);
      }
      return missing;
    }`);
    const end = await tool.call<typeof missing>(MODULES);
    expect(end.outcome, end.text).toBe("output");
    missing = end.value;
  });
  afterAll(() => tool[Symbol.asyncDispose]());

  test.for(Object.keys(MODULES))("%s", (name) => {
    expect(missing[name]).toEqual([]);
  });
});

test.for([
  ["tls", "TLSSocket", "has no sockets"],
  ["net", "Socket", "has no sockets"],
  ["child_process", "ChildProcess", "cannot start processes"],
  ["crypto", "DiffieHellman", "use WebCrypto"],
  ["fs", "Utf8Stream", "in-memory files"],
  ["net", "BoundSocket", "has no sockets"],
  ["perf_hooks", "PerformanceResourceTiming", "user timing"],
])("a class that extends %s.%s fails when it is constructed", async ([module, name, reason]) => {
  const end = await runGuest(`() => {
    const Parent = process.getBuiltinModule("node:${module}").${name};
    class Child extends Parent { own() { return 1; } }
    const own = Child.prototype.own();
    return new Child(own);
  }`);
  expect(end).toMatchObject({ outcome: "thrown", value: { code: "ERR_SANDBOX_UNSUPPORTED" } });
  expect((end.value as { readonly message: string }).message).toContain(reason);
});

test("a package can construct a TLSSocket over a stream while it loads, but not use it", async () => {
  const end = await runGuest(`() => {
    const { PassThrough } = process.getBuiltinModule("node:stream");
    const { TLSSocket } = process.getBuiltinModule("node:tls");
    const socket = new TLSSocket(new PassThrough());
    if (typeof socket._handle._parentWrap.constructor !== "function") return "no class behind it";
    return socket.write("x");
  }`);
  expect(end).toMatchObject({ outcome: "thrown", value: { code: "ERR_SANDBOX_UNSUPPORTED" } });
});

test("classes that modules share with the global object are the same", async () => {
  const { value } = await runGuest(() => {
    const isSame = (module: string, name: string): boolean => {
      const members = process.getBuiltinModule(module) as unknown as Record<string, unknown>;
      return typeof members[name] === "function" && members[name] === (globalThis as Record<string, unknown>)[name];
    };
    const { constants } = process.getBuiltinModule("node:perf_hooks");
    const { port1 } = new MessageChannel() as unknown as {
      port1: { ref(): void; unref(): void; hasRef(): boolean };
    };
    port1.ref();
    port1.unref();
    return [
      ...["CloseEvent", "MessageEvent", "WebSocket"].map((name) => isSame("http", name)),
      ...["Performance", "PerformanceEntry", "PerformanceObserverEntryList"].map((name) => isSame("perf_hooks", name)),
      constants.NODE_PERFORMANCE_GC_MAJOR,
      port1.hasRef(),
    ];
  });
  expect(value).toEqual([true, true, true, true, true, true, 4, false]);
});

test("factories of Node can be called with new", async () => {
  const { value } = await runGuest(() => {
    const load = (name: string) =>
      process.getBuiltinModule(name) as unknown as Record<string, (...args: unknown[]) => object>;
    const key = new Uint8Array(16);
    const isSame = (module: string, factory: string, ...args: unknown[]): boolean => {
      const create = load(module)[factory] as ((...args: unknown[]) => object) & (new (...args: unknown[]) => object);
      return create.name === factory && new create(...args).constructor === create(...args).constructor;
    };
    return [
      isSame("crypto", "createCipheriv", "aes-128-cbc", key, key),
      isSame("crypto", "createSign", "sha256"),
      isSame("crypto", "createSecretKey", key),
      isSame("zlib", "createGzip"),
      isSame("fs", "createWriteStream", "/written"),
      isSame("readline", "createInterface", { input: load("fs").createWriteStream?.("/input") }),
      isSame("http", "createServer"),
    ];
  });
  expect(value).toEqual(Array(7).fill(true));
});

test("an HTTP server exists, and fails when it listens", async () => {
  const { value } = await runGuest(async () => {
    const http = process.getBuiltinModule("http") as typeof import("node:http");
    const seen: unknown[] = [];
    const server = http.createServer((request) => seen.push(request));
    server.emit("request", 1);
    const closed = await new Promise((resolve) => server.close(resolve));
    const outcome = (() => {
      try {
        server.listen(0);
        return "listens";
      } catch (error) {
        return (error as Error).message;
      }
    })();
    return [seen, server.listening, (closed as { code: string }).code, outcome];
  });
  expect(value).toEqual([
    [1],
    false,
    "ERR_SERVER_NOT_RUNNING",
    "http.Server.listen() does not exist in the sandbox: a tool cannot listen",
  ]);
});
