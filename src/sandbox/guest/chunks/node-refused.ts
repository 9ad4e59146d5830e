// The built-ins that have no meaning in a sandbox: they can be imported, and say when they are used what to use in their place. What is
// only asked of them (isIP, isMainThread) is answered.

import { unsupported } from "./node-error.ts";
import { EventEmitter } from "./node-events.ts";

type Members = { [name: string]: unknown };

/** `names` are functions, or classes where they begin with a capital; each throws when it is called or made. */
function refuseAll(module: string, instead: string, names: string): Members {
  const members: Members = {};
  for (const name of names.split(" ")) {
    const refuse = function (this: unknown): never {
      throw unsupported(`${module}.${name}${/^[A-Z]/.test(name) ? "" : "()"}`, instead);
    };
    // Packages extend these classes while they load, and ask for their instances.
    if (/^[A-Z]/.test(name)) Object.setPrototypeOf(refuse.prototype, EventEmitter.prototype);
    Object.defineProperty(refuse, "name", { value: name });
    members[name] = refuse;
  }
  return members;
}

const SOCKETS = "a tool has no sockets; use fetch, which the host can grant";
const PROCESSES = "a tool cannot start processes or threads";
const CODE = "a tool's code is bundled ahead";
const ENGINE = "the engine is not a tool's to steer";
const NAMES = "a tool looks up no names; use fetch, which the host can grant";

const IPV4 = /^(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.(?!$)|$)){4}$/;

function isIPv4(text: unknown): boolean {
  return typeof text === "string" && IPV4.test(text) && !/(?:^|\.)0\d/.test(text);
}

function isIPv6(text: unknown): boolean {
  if (typeof text !== "string") return false;
  const [address = "", ...zone] = text.split("%");
  if (zone.length > 1 || zone[0] === "" || !/^[0-9a-f:.]+$/i.test(address)) return false;
  try {
    return (
      new (globalThis as unknown as { URL: new (url: string) => object }).URL(`http://[${address}]/`) !== undefined
    );
  } catch {
    return false;
  }
}

const isIP = (text: unknown): 0 | 4 | 6 => (isIPv4(text) ? 4 : isIPv6(text) ? 6 : 0);

const net = {
  ...refuseAll("net", SOCKETS, "BlockList Server Socket SocketAddress Stream connect createConnection createServer"),
  isIP,
  isIPv4,
  isIPv6,
  getDefaultAutoSelectFamily: (): boolean => true,
  setDefaultAutoSelectFamily: (): void => {},
};

const tls = {
  ...refuseAll(
    "tls",
    SOCKETS,
    "SecureContext Server TLSSocket checkServerIdentity connect createSecureContext createServer",
  ),
  DEFAULT_MIN_VERSION: "TLSv1.2",
  DEFAULT_MAX_VERSION: "TLSv1.3",
  DEFAULT_ECDH_CURVE: "auto",
  DEFAULT_CIPHERS: "",
  rootCertificates: [],
  getCiphers: () => [],
};

const RESOLVERS =
  "Resolver getServers lookup lookupService resolve resolve4 resolve6 resolveAny resolveCaa resolveCname resolveMx resolveNaptr resolveNs resolvePtr resolveSoa resolveSrv resolveTlsa resolveTxt reverse setServers";
const dnsCodes = Object.fromEntries(
  "NODATA FORMERR SERVFAIL NOTFOUND NOTIMP REFUSED BADQUERY BADNAME BADFAMILY BADRESP CONNREFUSED TIMEOUT NOMEM CANCELLED"
    .split(" ")
    .map((name) => [name, `E${name}`]),
);
const dnsPromises = { ...refuseAll("dns.promises", NAMES, RESOLVERS), ...dnsCodes };
const dns = {
  ...refuseAll("dns", NAMES, RESOLVERS),
  ...dnsCodes,
  ADDRCONFIG: 32,
  ALL: 16,
  V4MAPPED: 8,
  getDefaultResultOrder: (): string => "verbatim",
  setDefaultResultOrder: (): void => {},
  promises: dnsPromises,
};

const web = globalThis as unknown as { readonly [name: string]: unknown };

const workerThreads = {
  ...refuseAll("worker_threads", PROCESSES, "Worker moveMessagePortToContext postMessageToThread receiveMessageOnPort"),
  isMainThread: true,
  isInternalThread: false,
  parentPort: null,
  workerData: null,
  threadId: 0,
  threadName: "",
  resourceLimits: {},
  SHARE_ENV: Symbol.for("nodejs.worker_threads.SHARE_ENV"),
  markAsUncloneable: (): void => {},
  markAsUntransferable: (): void => {},
  isMarkedAsUntransferable: (): boolean => false,
  getEnvironmentData: (): undefined => undefined,
  setEnvironmentData: (): void => {},
  get MessageChannel(): unknown {
    return web.MessageChannel;
  },
  get MessagePort(): unknown {
    return web.MessagePort;
  },
  get BroadcastChannel(): unknown {
    return web.BroadcastChannel;
  },
};

const cluster = Object.assign(new EventEmitter(), {
  ...refuseAll("cluster", PROCESSES, "Worker disconnect fork setupMaster setupPrimary"),
  isMaster: true,
  isPrimary: true,
  isWorker: false,
  workers: {},
  settings: {},
});

const vm = {
  ...refuseAll(
    "vm",
    CODE,
    "Script SourceTextModule SyntheticModule compileFunction createContext measureMemory runInContext runInNewContext runInThisContext",
  ),
  constants: {},
  isContext: (): boolean => false,
};

const v8 = {
  ...refuseAll(
    "v8",
    ENGINE,
    "DefaultDeserializer DefaultSerializer Deserializer GCProfiler Serializer deserialize getHeapSnapshot getHeapSpaceStatistics serialize setFlagsFromString startCpuProfile stopCoverage takeCoverage writeHeapSnapshot",
  ),
  cachedDataVersionTag: (): number => 0,
  getHeapStatistics: () => ({ total_heap_size: 0, used_heap_size: 0, heap_size_limit: 0, total_available_size: 0 }),
  startupSnapshot: { isBuildingSnapshot: () => false },
};

const inspector = {
  ...refuseAll("inspector", ENGINE, "Session close open waitForDebugger"),
  url: (): undefined => undefined,
};

const repl = {
  ...refuseAll("repl", "a tool has no terminal", "REPLServer Recoverable start writer"),
  builtinModules: [],
};

const TESTS = "tests do not run in a tool";
const testRunner = Object.assign(
  function test(): never {
    throw unsupported("test()", TESTS);
  },
  refuseAll("test", TESTS, "after afterEach before beforeEach describe it run skip suite test todo"),
);

const http2 = {
  ...refuseAll(
    "http2",
    SOCKETS,
    "Http2ServerRequest Http2ServerResponse connect createSecureServer createServer getDefaultSettings getPackedSettings getUnpackedSettings performServerHandshake",
  ),
  constants: {
    HTTP2_HEADER_AUTHORITY: ":authority",
    HTTP2_HEADER_METHOD: ":method",
    HTTP2_HEADER_PATH: ":path",
    HTTP2_HEADER_SCHEME: ":scheme",
    HTTP2_HEADER_STATUS: ":status",
    HTTP2_METHOD_GET: "GET",
    NGHTTP2_CANCEL: 8,
    NGHTTP2_NO_ERROR: 0,
    NGHTTP2_REFUSED_STREAM: 7,
  },
  sensitiveHeaders: Symbol.for("nodejs.http2.sensitiveHeaders"),
};

const childProcess = refuseAll(
  "child_process",
  PROCESSES,
  "ChildProcess exec execFile execFileSync execSync fork spawn spawnSync",
);

export const builtins = {
  child_process: childProcess,
  cluster,
  dgram: refuseAll("dgram", SOCKETS, "Socket createSocket"),
  dns,
  "dns/promises": dnsPromises,
  domain: refuseAll("domain", "domains are deprecated; use AsyncLocalStorage", "Domain create createDomain"),
  ffi: refuseAll("ffi", "native code cannot be loaded", "DynamicLibrary dlopen"),
  http2,
  inspector,
  "inspector/promises": inspector,
  net,
  repl,
  sea: {
    ...refuseAll("sea", "a tool has no files", "getAsset getAssetAsBlob getRawAsset"),
    isSea: (): boolean => false,
  },
  sqlite: refuseAll(
    "sqlite",
    "a tool has no files; ask the host for a store",
    "DatabaseSync Session StatementSync backup",
  ),
  test: testRunner,
  "test/reporters": refuseAll("test/reporters", TESTS, "dot junit lcov spec tap"),
  tls,
  _tls_common: tls,
  _tls_wrap: tls,
  _stream_wrap: refuseAll("_stream_wrap", SOCKETS, "JSStreamSocket").JSStreamSocket,
  trace_events: {
    ...refuseAll("trace_events", ENGINE, "createTracing"),
    getEnabledCategories: (): undefined => undefined,
  },
  v8,
  vm,
  wasi: refuseAll("wasi", "a tool has no files", "WASI"),
  worker_threads: workerThreads,
};
