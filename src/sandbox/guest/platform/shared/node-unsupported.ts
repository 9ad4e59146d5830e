// Built-in modules without a meaning in a sandbox. They can be imported, and their functions throw an error that names an alternative. Pure
// queries (isIP, BlockList, isMainThread) return a value.

import { receiveMessageOnPort } from "../events/messaging.ts";
import { EventEmitter } from "../events/node-events.ts";
import { BlockList, SocketAddress } from "../net/block-list.ts";
import { isIP, isIPv4, isIPv6 } from "../net/ip-address.ts";
import { vm } from "../util/node-vm.ts";
import { unsupported } from "./node-error.ts";
import { unsupportedMembers } from "./unsupported-members.ts";

/** Returns members that throw. Instances of the classes are event emitters, as in Node. */
const unsupportedAll = (module: string, instead: string, names: string) =>
  unsupportedMembers(module, instead, names, EventEmitter);

const SOCKETS = "a tool has no sockets; use fetch, which the host can grant";
const PROCESSES = "a tool cannot start processes or threads";
const ENGINE = "a tool cannot control the engine";
const NAMES = "a tool has no DNS; use fetch, which the host can grant";

const net = {
  ...unsupportedAll("net", SOCKETS, "BoundSocket Server Socket Stream connect createConnection createServer"),
  BlockList,
  SocketAddress,
  isIP,
  isIPv4,
  isIPv6,
  getDefaultAutoSelectFamily: (): boolean => true,
  setDefaultAutoSelectFamily: (): void => {},
  getDefaultAutoSelectFamilyAttemptTimeout: (): number => 250,
  setDefaultAutoSelectFamilyAttemptTimeout: (): void => {},
};

const { JSStreamSocket } = unsupportedAll("_stream_wrap", SOCKETS, "JSStreamSocket") as {
  JSStreamSocket: { prototype: object };
};

/**
 * A TLSSocket that can be constructed and whose methods throw. While it loads, http2-wrapper (and therefore got) constructs one over a
 * stream to find Node's internal class JSStreamSocket.
 */
class TLSSocket extends EventEmitter {
  readonly _handle: object;
  constructor(stream?: unknown) {
    super();
    const isStream = typeof (stream as { readonly pipe?: unknown } | undefined)?.pipe === "function";
    if (!isStream || new.target !== TLSSocket) throw unsupported("tls.TLSSocket", SOCKETS);
    this._handle = { _parentWrap: Object.create(JSStreamSocket.prototype) as object };
  }
}
Object.assign(
  TLSSocket.prototype,
  unsupportedAll("tls.TLSSocket", SOCKETS, "connect write end read pipe renegotiate getPeerCertificate setServername"),
);

const tls = {
  ...unsupportedAll(
    "tls",
    SOCKETS,
    "SecureContext Server checkServerIdentity connect convertALPNProtocols createSecureContext createServer translatePeerCertificate",
  ),
  TLSSocket,
  DEFAULT_MIN_VERSION: "TLSv1.2",
  DEFAULT_MAX_VERSION: "TLSv1.3",
  DEFAULT_ECDH_CURVE: "auto",
  DEFAULT_CIPHERS: "",
  CLIENT_RENEG_LIMIT: 3,
  CLIENT_RENEG_WINDOW: 600,
  rootCertificates: [],
  getCACertificates: () => [],
  getCertificateCompressionAlgorithms: () => [],
  getCiphers: () => [],
  setDefaultCACertificates: (): void => {},
};

const RESOLVERS =
  "Resolver getServers lookup lookupService resolve resolve4 resolve6 resolveAny resolveCaa resolveCname resolveMx resolveNaptr resolveNs resolvePtr resolveSoa resolveSrv resolveTlsa resolveTxt reverse setServers";
const dnsCodes = Object.fromEntries(
  "NODATA FORMERR SERVFAIL NOTFOUND NOTIMP REFUSED BADQUERY BADNAME BADFAMILY BADRESP CONNREFUSED TIMEOUT EOF FILE NOMEM DESTRUCTION BADSTR BADFLAGS NONAME BADHINTS NOTINITIALIZED LOADIPHLPAPI ADDRGETNETWORKPARAMS CANCELLED"
    .split(" ")
    .map((name) => [name, `E${name}`]),
);
const resultOrder = {
  getDefaultResultOrder: (): string => "verbatim",
  setDefaultResultOrder: (): void => {},
};
const dnsPromises = { ...unsupportedAll("dns.promises", NAMES, RESOLVERS), ...dnsCodes, ...resultOrder };
const dns = {
  ...unsupportedAll("dns", NAMES, RESOLVERS),
  ...dnsCodes,
  ADDRCONFIG: 32,
  ALL: 16,
  V4MAPPED: 8,
  ...resultOrder,
  promises: dnsPromises,
};

const web = globalThis as unknown as { readonly [name: string]: unknown };

const workerThreads = {
  ...unsupportedAll("worker_threads", PROCESSES, "Worker moveMessagePortToContext postMessageToThread"),
  receiveMessageOnPort,
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
  ...unsupportedAll("cluster", PROCESSES, "Worker disconnect fork setupMaster setupPrimary"),
  isMaster: true,
  isPrimary: true,
  isWorker: false,
  SCHED_NONE: 1,
  SCHED_RR: 2,
  schedulingPolicy: 2,
  workers: {},
  settings: {},
});

const inspector = {
  ...unsupportedAll("inspector", ENGINE, "Session close open waitForDebugger"),
  url: (): undefined => undefined,
};

const repl = {
  ...unsupportedAll("repl", "a tool has no terminal", "REPLServer Recoverable isValidSyntax start writer"),
  REPL_MODE_SLOPPY: Symbol("repl-sloppy"),
  REPL_MODE_STRICT: Symbol("repl-strict"),
  builtinModules: [],
};

const TESTS = "tests do not run in a tool";
const testRunner = Object.assign(
  function test(): never {
    throw unsupported("test()", TESTS);
  },
  unsupportedAll(
    "test",
    TESTS,
    "after afterEach before beforeEach describe expectFailure getTestContext it only run skip suite test todo",
  ),
);

const http2 = {
  ...unsupportedAll(
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

const childProcess = unsupportedAll(
  "child_process",
  PROCESSES,
  "ChildProcess exec execFile execFileSync execSync fork spawn spawnSync",
);

export const builtins = {
  child_process: childProcess,
  cluster,
  dgram: unsupportedAll("dgram", SOCKETS, "Socket createSocket"),
  dns,
  "dns/promises": dnsPromises,
  domain: unsupportedAll("domain", "domains are deprecated; use AsyncLocalStorage", "Domain create createDomain"),
  ffi: unsupportedAll(
    "ffi",
    "native code cannot be loaded",
    "DynamicLibrary dlclose dlopen dlsym exportArrayBuffer exportArrayBufferView exportBuffer exportString getCurrentEventLoop getFloat32 getFloat64 getInt16 getInt32 getInt64 getInt8 getRawPointer getUint16 getUint32 getUint64 getUint8 setFloat32 setFloat64 setInt16 setInt32 setInt64 setInt8 setUint16 setUint32 setUint64 setUint8 toArrayBuffer toBuffer",
  ),
  http2,
  inspector,
  "inspector/promises": inspector,
  net,
  repl,
  sea: {
    ...unsupportedAll("sea", "a tool has no files", "getAsset getAssetAsBlob getAssetKeys getRawAsset"),
    isSea: (): boolean => false,
  },
  sqlite: {
    ...unsupportedAll(
      "sqlite",
      "a tool has no database files; the host can grant a key-value store (ctx.kv)",
      "DatabaseSync Session StatementSync backup",
    ),
    constants: {},
  },
  test: testRunner,
  "test/reporters": unsupportedAll("test/reporters", TESTS, "dot junit lcov spec tap"),
  tls,
  _tls_common: tls,
  _tls_wrap: tls,
  _stream_wrap: JSStreamSocket,
  trace_events: {
    ...unsupportedAll("trace_events", ENGINE, "createTracing"),
    getEnabledCategories: (): undefined => undefined,
  },
  vm,
  wasi: unsupportedAll("wasi", "a tool has no files", "WASI"),
  worker_threads: workerThreads,
};
