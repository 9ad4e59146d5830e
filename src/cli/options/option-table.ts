// The options and positional arguments of all commands as one table: the valid values, and whether an option may repeat. The parser checks
// arguments against it before a command is loaded.
import { isIP } from "node:net";
import { BUILTIN_CAPABILITY_NAMES } from "../../sandbox/contract/capability-names.ts";
import { ENGINE_FEATURE_NAMES } from "../../sandbox/contract/engine-features.ts";
import { LIMITS, type LimitName } from "../../sandbox/contract/limits.ts";

/** An option's value and its check. No option accepts an empty value. */
export interface OptionValue {
  /** Description of the expected value in error messages. */
  readonly expects: string;
  readonly accepts: (text: string) => boolean;
  /** Whether the option may be repeated. */
  readonly multiple?: boolean;
  /** Value of the option without a value: `--inspect` is `--inspect=9229`. Such an option takes a value only after `=`. */
  readonly bare?: string;
}

/** An option with a value, or `"switch"`. */
export type OptionSpec = OptionValue | "switch";
export type OptionSpecs = { readonly [name: string]: OptionSpec };

/** The positional arguments of a command. */
export interface PositionalSpec {
  readonly expects: string;
  readonly min: number;
  readonly max: number;
  /** Whether `-` is accepted for stdin. It does not count as an argument. */
  readonly stdin?: boolean;
}

export interface CommandSpec {
  readonly options: OptionSpecs;
  readonly positionals: PositionalSpec;
  /** Options with a short form, by that form. */
  readonly short?: { readonly [flag: string]: string };
}

const anyText = (expects: string): OptionValue => ({ expects, accepts: () => true });

const wholeNumber = (min: number, max: number, expects = `a whole number from ${min} to ${max}`): OptionValue => ({
  expects,
  accepts: (text) => /^\d{1,15}$/.test(text) && Number(text) >= min && Number(text) <= max,
});

function limit(name: LimitName): OptionValue {
  const { min, max } = LIMITS[name];
  return wholeNumber(min, max);
}

/** Maximum number of slots of an executor, as in the protocol. */
const MAX_SLOTS = 2_048;
const MAX_PORT = 65_535;
const PORT = wholeNumber(0, MAX_PORT, `a port from 0 to ${MAX_PORT}`);
/** Chrome's default port. */
const INSPECT_PORT: OptionValue = { ...PORT, bare: "9229" };

const MAX_TENANT_LENGTH = 1_024;
const isHostName = (text: string): boolean => isIP(text) !== 0 || /^[A-Za-z0-9]([A-Za-z0-9.-]{0,253})$/.test(text);

/** Folders of packages that are linked into node_modules. */
const LINKED_PACKAGE = { ...anyText("a folder"), multiple: true } as const satisfies OptionValue;

/** A tool of the command line has no capabilities of a host. `onRollback` comes with `waitFor`. */
const GRANTABLE: readonly string[] = [
  ...BUILTIN_CAPABILITY_NAMES.filter((name) => name !== "onRollback"),
  ...ENGINE_FEATURE_NAMES,
];

/** Options of every command that calls tools: the tenant, the limits, the grants and linked packages. */
const GRANT_OPTIONS = {
  tenant: { expects: "an id", accepts: (text) => text.length <= MAX_TENANT_LENGTH },
  "timeout-ms": limit("timeoutMs"),
  "cpu-ms": limit("cpuMs"),
  "memory-mib": limit("memoryMiB"),
  // egress.ts checks the rule or secret itself.
  "allow-fetch": { ...anyText("host, host:port, *.host or an origin"), multiple: true },
  secret: { ...anyText("NAME=ENV"), multiple: true },
  grant: { expects: `one of ${GRANTABLE.join(", ")}`, accepts: (text) => GRANTABLE.includes(text), multiple: true },
  "linked-package": LINKED_PACKAGE,
} as const satisfies OptionSpecs;

const INPUT_OPTIONS = { input: anyText("JSON"), "input-file": anyText("a file") } as const satisfies OptionSpecs;

const CALL_OPTIONS = {
  ...INPUT_OPTIONS,
  ...GRANT_OPTIONS,
  "log-source-locations": "switch",
} as const satisfies OptionSpecs;

const ONE_PATH: PositionalSpec = { expects: "PATH of a tool", min: 1, max: 1 };
const MANY_PATHS: PositionalSpec = { expects: "PATH of a tool", min: 0, max: Number.POSITIVE_INFINITY };

const NO_POSITIONALS: PositionalSpec = { expects: "argument", min: 0, max: 0 };
const HOST = { expects: "a host name or an IP address", accepts: isHostName } as const satisfies OptionValue;
const ALLOW_HOST = { ...anyText("a host name, or name:port"), multiple: true } as const satisfies OptionValue;

const NATS_URL = anyText("a URL such as nats://127.0.0.1:4222");

/** Options of the server. Its schema checks the values again, together with those of the config file and the environment. */
const SERVER_OPTIONS = {
  host: HOST,
  port: PORT,
  "allow-host": ALLOW_HOST,
  "replica-url": anyText("a URL such as http://10.0.0.7:7070"),
  database: anyText("a URL that begins with postgres://"),
  "data-dir": anyText("a folder"),
  "master-key-file": anyText("a file"),
  "log-level": anyText("one of silent, error, warn, info and debug"),
  nats: NATS_URL,
  "nats-credentials": anyText("a file"),
  "nats-tls-ca": anyText("a file"),
  config: anyText("a file"),
} as const satisfies OptionSpecs;

/** Options of every command that uses a server. */
const REMOTE_OPTIONS = { tenant: GRANT_OPTIONS.tenant, json: "switch" } as const satisfies OptionSpecs;
const ALIAS = anyText("the name of a release, such as live");
/** Days, unless a unit follows: minutes, hours or days. */
const SINCE = /^[1-9]\d{0,5}[mhd]?$/;
const MAX_VERSION = 2 ** 31 - 1;
const VERSION = wholeNumber(1, MAX_VERSION);
const TOOL_NAME: PositionalSpec = { expects: "NAME of a tool", min: 1, max: 1 };

export const COMMAND_SPECS = {
  run: {
    options: { ...CALL_OPTIONS, time: "switch", json: "switch", trace: anyText("a file"), otel: "switch" },
    positionals: { ...ONE_PATH, stdin: true },
  },
  dev: {
    options: { ...CALL_OPTIONS, inspect: INSPECT_PORT, "inspect-brk": INSPECT_PORT },
    positionals: ONE_PATH,
  },
  mcp: {
    options: {
      ...GRANT_OPTIONS,
      tool: { ...anyText("the name of one of Glovebox's own tools"), multiple: true },
      mcp: { ...anyText("NAME=COMMAND or NAME=URL"), multiple: true },
      "mcp-env": { ...anyText("NAME=VARIABLE"), multiple: true },
      "mcp-header": { ...anyText("NAME=HEADER:VARIABLE"), multiple: true },
      "mcp-token": { ...anyText("NAME=VARIABLE"), multiple: true },
      "code-mode": "switch",
      "no-type-check": "switch",
      runs: anyText("a file"),
      http: PORT,
      host: HOST,
      "allow-host": ALLOW_HOST,
    },
    positionals: MANY_PATHS,
  },
  test: {
    options: {
      record: anyText("the id of a call"),
      tenant: GRANT_OPTIONS.tenant,
    },
    positionals: { expects: "PATH", min: 0, max: 1 },
  },
  types: { options: { out: anyText("a file"), "linked-package": LINKED_PACKAGE }, positionals: MANY_PATHS },
  inspect: { options: { json: "switch", "linked-package": LINKED_PACKAGE }, positionals: ONE_PATH },
  init: { options: {}, positionals: { expects: "NAME for the tool", min: 1, max: 1 } },
  serve: { options: SERVER_OPTIONS, positionals: NO_POSITIONALS },
  config: { options: SERVER_OPTIONS, positionals: NO_POSITIONALS },
  db: {
    options: {
      database: SERVER_OPTIONS.database,
      "data-dir": SERVER_OPTIONS["data-dir"],
      "master-key-file": SERVER_OPTIONS["master-key-file"],
      config: SERVER_OPTIONS.config,
    },
    positionals: { expects: "migrate, check, backup FILE, restore FILE, rotate-key FILE or admin-key", min: 1, max: 2 },
  },
  executor: {
    options: {
      nats: NATS_URL,
      credentials: anyText("a file"),
      "tls-ca": anyText("a file"),
      pool: anyText("the name of a pool"),
      slots: wholeNumber(1, MAX_SLOTS),
      "max-workers": wholeNumber(1, 1_024),
      "warm-processes": wholeNumber(0, 64),
      "warm-python-processes": wholeNumber(0, 16),
      "cache-dir": anyText("a folder"),
      "alive-file": anyText("a file"),
      "drain-ms": wholeNumber(0, 300_000),
    },
    positionals: { expects: "nothing, or credentials FOLDER NAME…", min: 0, max: Number.POSITIVE_INFINITY },
  },
  login: { options: { "key-file": anyText("a file") }, positionals: { expects: "URL of a server", min: 0, max: 1 } },
  deploy: {
    options: {
      ...REMOTE_OPTIONS,
      alias: ALIAS,
      canary: { expects: "a share from 1% to 100%", accepts: (text) => /^(?:[1-9]\d?|100)%?$/.test(text) },
      approve: "switch",
    },
    positionals: ONE_PATH,
  },
  rollback: { options: { ...REMOTE_OPTIONS, alias: ALIAS }, positionals: TOOL_NAME },
  call: {
    options: {
      ...REMOTE_OPTIONS,
      ...INPUT_OPTIONS,
      alias: ALIAS,
      version: VERSION,
      async: "switch",
      approve: "switch",
    },
    positionals: TOOL_NAME,
  },
  tools: { options: REMOTE_OPTIONS, positionals: NO_POSITIONALS },
  calls: {
    options: { ...REMOTE_OPTIONS, tool: anyText("the name of a tool"), state: anyText("the state of a call") },
    positionals: NO_POSITIONALS,
  },
  logs: {
    options: { ...REMOTE_OPTIONS, follow: "switch" },
    positionals: { expects: "NAME of a tool or ID of a call", min: 1, max: 1 },
    short: { "-f": "follow" },
  },
  replay: {
    options: {
      ...REMOTE_OPTIONS,
      version: VERSION,
      ...INPUT_OPTIONS,
      inspect: INSPECT_PORT,
      "inspect-brk": INSPECT_PORT,
    },
    positionals: { expects: "ID of a call", min: 1, max: 1 },
  },
  rehearse: {
    options: {
      ...REMOTE_OPTIONS,
      version: VERSION,
      since: { expects: "a time from 1m to 999999d, such as 12h or 7d", accepts: (text) => SINCE.test(text) },
      sample: wholeNumber(1, 5_000),
      "max-skipped": wholeNumber(0, 5_000),
    },
    positionals: TOOL_NAME,
  },
  approvals: {
    options: {
      ...REMOTE_OPTIONS,
      reason: anyText("a text"),
      state: anyText("pending, approved, denied, expired or cancelled"),
    },
    positionals: { expects: "list, approve ID or deny ID", min: 0, max: 2 },
  },
  runs: {
    options: {
      ...REMOTE_OPTIONS,
      kind: anyText("tool or code"),
      tool: anyText("the name of a tool"),
      state: anyText("running, suspended, succeeded, failed or cancelled"),
      ...INPUT_OPTIONS,
      version: VERSION,
      reason: anyText("a text"),
      async: "switch",
      approve: "switch",
    },
    positionals: {
      expects:
        "list, show ID, start NAME, approve ID WAIT, deny ID WAIT, answer ID WAIT, decline ID WAIT, event ID NAME or cancel ID",
      min: 0,
      max: 3,
    },
  },
  fleet: { options: { json: "switch" }, positionals: { expects: "list or drain ID", min: 0, max: 2 } },
  top: { options: { json: "switch" }, positionals: NO_POSITIONALS },
  secrets: {
    options: { ...REMOTE_OPTIONS, "allow-host": ALLOW_HOST, "value-file": anyText("a file") },
    positionals: { expects: "list, set NAME or delete NAME", min: 1, max: 2 },
  },
  doctor: { options: { json: "switch" }, positionals: NO_POSITIONALS },
} as const satisfies { readonly [command: string]: CommandSpec };

export type CommandName = keyof typeof COMMAND_SPECS;
export const COMMAND_NAMES = Object.keys(COMMAND_SPECS) as readonly CommandName[];
