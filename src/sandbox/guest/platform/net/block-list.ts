// SocketAddress and BlockList of node:net. They compute with addresses and reach no network.
import { nameClasses } from "../shared/class-names.ts";
import {
  checkInteger,
  checkObject,
  checkString,
  describeReceived,
  invalidArgument,
  nodeError,
} from "../shared/node-error.ts";
import { formatAddress, isMapped, parseAddress } from "./ip-address.ts";

type Family = "ipv4" | "ipv6";
type Inspect = (value: unknown, options: object) => string;
interface InspectOptions {
  readonly depth?: number | null;
}
const INSPECT = Symbol.for("nodejs.util.inspect.custom");
const MAX_PORT = 65_535;
const MAX_FLOW_LABEL = 2 ** 32 - 1;
const ALL_BITS = 128;

function inspectAs(name: string, value: unknown, options: InspectOptions, inspect: Inspect): string {
  const depth = options.depth == null ? null : options.depth - 1;
  return `${name} ${inspect(value, { ...options, depth })}`;
}

const invalidValue = (name: string, reason: string, got: string): Error =>
  nodeError(
    TypeError,
    "ERR_INVALID_ARG_VALUE",
    `The ${name.includes(".") ? "property" : "argument"} '${name}' ${reason}. Received ${got}`,
  );

function readPort(value: unknown): number {
  const isText = typeof value === "string" && value.trim() !== "";
  const port = isText || typeof value === "number" ? Number(value) : Number.NaN;
  if (!(Number.isInteger(port) && port >= 0 && port <= MAX_PORT)) {
    const range = `options.port should be >= 0 and < ${MAX_PORT + 1}.`;
    throw nodeError(RangeError, "ERR_SOCKET_BAD_PORT", `${range}${describeReceived(value)}.`);
  }
  return port;
}

function readFamily(value: unknown): Family {
  const family = typeof value === "string" ? value.toLowerCase() : value;
  if (family === "ipv4" || family === "ipv6") return family;
  const got = typeof value === "string" ? `'${value}'` : String(value);
  throw invalidValue("options.family", "is invalid", got);
}

let bitsOf: (address: SocketAddress) => bigint;

export class SocketAddress {
  readonly #bits: bigint;
  readonly #family: Family;
  readonly #port: number;
  readonly #flowlabel: number;

  static {
    bitsOf = (address) => address.#bits;
  }
  static isSocketAddress(value: unknown): value is SocketAddress {
    return typeof value === "object" && value !== null && #bits in value;
  }

  constructor(options: unknown = {}) {
    checkObject(options, "options");
    const given = options as { readonly [name: string]: unknown };
    const { family: givenFamily = "ipv4" } = given;
    const { address = givenFamily === "ipv4" ? "127.0.0.1" : "::", port = 0, flowlabel = 0 } = given;
    this.#family = readFamily(givenFamily);
    checkString(address, "options.address");
    this.#port = readPort(port);
    checkInteger(flowlabel, "options.flowlabel", 0, MAX_FLOW_LABEL);
    this.#flowlabel = this.#family === "ipv6" ? flowlabel : 0;
    const bits = parseAddress(address, this.#family);
    if (bits === undefined) throw nodeError(Error, "ERR_INVALID_ADDRESS", "Invalid socket address");
    this.#bits = bits;
  }
  /** Returns undefined for text that is not an IP address with an optional port. */
  static parse(text: unknown): SocketAddress | undefined {
    checkString(text, "input");
    try {
      const { hostname, port } = new URL(`http://${text}`);
      const isIPv6 = hostname.startsWith("[");
      const address = isIPv6 ? hostname.slice(1, -1) : hostname;
      return new SocketAddress({ address, port: Number(port), family: isIPv6 ? "ipv6" : "ipv4" });
    } catch {
      return undefined;
    }
  }
  get address(): string {
    return formatAddress(this.#bits, this.#family);
  }
  get port(): number {
    return this.#port;
  }
  get family(): Family {
    return this.#family;
  }
  get flowlabel(): number {
    return this.#flowlabel;
  }
  toJSON(): object {
    return { address: this.address, port: this.port, family: this.family, flowlabel: this.flowlabel };
  }
  [INSPECT](depth: number, options: InspectOptions, inspect: Inspect): unknown {
    return depth < 0 ? this : inspectAs("SocketAddress", this.toJSON(), options, inspect);
  }
}

declare const URL: new (url: string) => { readonly hostname: string; readonly port: string };

/** An IPv4 address can be compared with an IPv6 address to which an IPv4 address is mapped, and with no other. */
const areComparable = (a: SocketAddress, b: SocketAddress): boolean =>
  a.family === b.family || (isMapped(bitsOf(a)) && isMapped(bitsOf(b)));

interface Rule {
  readonly kind: "Address" | "Range" | "Subnet";
  /** Without the kind. Equal rules have equal text. */
  readonly text: string;
  matches(address: SocketAddress): boolean;
}

const describeAddress = ({ family, address }: SocketAddress): string =>
  `${family === "ipv4" ? "IPv4" : "IPv6"} ${address}`;

function toAddress(value: unknown, family: unknown, name: string): SocketAddress {
  if (SocketAddress.isSocketAddress(value)) return value;
  checkString(value, name);
  checkString(family, "family");
  return new SocketAddress({ address: value, family });
}

function addressRule(address: SocketAddress): Rule {
  const matches = (other: SocketAddress): boolean => areComparable(address, other) && bitsOf(address) === bitsOf(other);
  return { kind: "Address", text: describeAddress(address), matches };
}

function rangeRule(start: SocketAddress, end: SocketAddress): Rule {
  const matches = (other: SocketAddress): boolean =>
    areComparable(start, other) &&
    areComparable(end, other) &&
    bitsOf(start) <= bitsOf(other) &&
    bitsOf(other) <= bitsOf(end);
  return { kind: "Range", text: `${describeAddress(start)}-${end.address}`, matches };
}

function subnetRule(network: SocketAddress, prefix: number): Rule {
  const shift = BigInt(network.family === "ipv4" ? 32 - prefix : ALL_BITS - prefix);
  const matches = (other: SocketAddress): boolean => bitsOf(network) >> shift === bitsOf(other) >> shift;
  return { kind: "Subnet", text: `${describeAddress(network)}/${prefix}`, matches };
}

function readSubnet(given: unknown, prefix: unknown, family: unknown): Rule {
  const network = toAddress(given, family, "network");
  checkInteger(prefix, "prefix", 0, network.family === "ipv4" ? 32 : ALL_BITS);
  return subnetRule(network, prefix);
}

function readCidr(cidr: unknown, name = "cidr"): Rule {
  checkString(cidr, name);
  const slash = cidr.lastIndexOf("/");
  const fail = (reason: string): Error => invalidValue("cidr", reason, `'${cidr}'`);
  if (slash === -1) throw fail('must contain a prefix length (e.g. "10.0.0.0/8")');
  const digits = cidr.slice(slash + 1);
  if (!/^(?:0|-?[1-9]\d*)$/.test(digits)) throw fail("prefix length must be a valid integer");
  const address = cidr.slice(0, slash);
  return readSubnet(address, Number(digits), address.includes(":") ? "ipv6" : "ipv4");
}

const SAVED_RULES: readonly (readonly [RegExp, (list: BlockList, match: readonly string[]) => void])[] = [
  [/Subnet: IPv4 (\d{1,3}(?:\.\d{1,3}){3})\/(\d{1,2})/, (list, [, a, b]) => list.addSubnet(a, Number(b))],
  [/Address: IPv4 (\d{1,3}(?:\.\d{1,3}){3})/, (list, [, a]) => list.addAddress(a)],
  [/Range: IPv4 (\d{1,3}(?:\.\d{1,3}){3})-(\d{1,3}(?:\.\d{1,3}){3})/, (list, [, a, b]) => list.addRange(a, b)],
  [/Subnet: IPv6 ([\da-f:.]{1,45})\/(\d{1,3})/i, (list, [, a, b]) => list.addSubnet(a, Number(b), "ipv6")],
  [/Address: IPv6 ([\da-f:.]{1,45})/i, (list, [, a]) => list.addAddress(a, "ipv6")],
  [/Range: IPv6 ([\da-f:.]{1,45})-([\da-f:.]{1,45})/i, (list, [, a, b]) => list.addRange(a, b, "ipv6")],
];

const invalidRules = (data: unknown): Error => invalidArgument("data", "one of type string or string[]", data);

export class BlockList {
  /** The newest first, as Node lists them. */
  readonly #rules: { [Kind in Rule["kind"]]: Rule[] } = { Address: [], Subnet: [], Range: [] };

  static readonly PRIVATE_RANGES: readonly string[] = Object.freeze([
    "10.0.0.0/8",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "127.0.0.0/8",
    "::1/128",
    "169.254.0.0/16",
    "fe80::/10",
    "fc00::/7",
  ]);
  static isBlockList(value: unknown): boolean {
    return typeof value === "object" && value !== null && #rules in value;
  }

  /** Only addresses are kept once, as in Node. */
  #add(rule: Rule): void {
    const rules = this.#rules[rule.kind];
    if (rule.kind === "Address" && rules.some(({ text }) => text === rule.text)) return;
    rules.unshift(rule);
  }
  #remove({ kind, text }: Rule): void {
    const index = this.#rules[kind].findIndex((rule) => rule.text === text);
    if (index !== -1) this.#rules[kind].splice(index, 1);
  }

  addAddress(address: unknown, family: unknown = "ipv4"): void {
    this.#add(addressRule(toAddress(address, family, "address")));
  }
  addAddresses(addresses: unknown, family: unknown = "ipv4"): void {
    if (!Array.isArray(addresses)) throw invalidArgument("addresses", "an instance of Array", addresses);
    checkString(family, "family");
    const rules = addresses.map((address, index) => addressRule(toAddress(address, family, `addresses[${index}]`)));
    for (const rule of rules) this.#add(rule);
  }
  addRange(from: unknown, to: unknown, family: unknown = "ipv4"): void {
    const start = toAddress(from, family, "start");
    const end = toAddress(to, family, "end");
    if (areComparable(start, end) && bitsOf(start) > bitsOf(end)) {
      const { address, port, flowlabel } = start;
      const got = `SocketAddress { address: '${address}', port: ${port}, family: '${start.family}', flowlabel: ${flowlabel} }`;
      throw invalidValue("start", "must come before end", got);
    }
    this.#add(rangeRule(start, end));
  }
  addSubnet(network: unknown, prefix: unknown, family: unknown = "ipv4"): void {
    this.#add(readSubnet(network, prefix, family));
  }
  addCIDR(cidr: unknown): void {
    this.#add(readCidr(cidr));
  }
  addCIDRs(cidrs: unknown): void {
    if (!Array.isArray(cidrs)) throw invalidArgument("cidrs", "an instance of Array", cidrs);
    const rules = cidrs.map((cidr, index) => readCidr(cidr, `cidrs[${index}]`));
    for (const rule of rules) this.#add(rule);
  }
  removeAddress(address: unknown, family: unknown = "ipv4"): void {
    this.#remove(addressRule(toAddress(address, family, "address")));
  }
  removeRange(start: unknown, end: unknown, family: unknown = "ipv4"): void {
    this.#remove(rangeRule(toAddress(start, family, "start"), toAddress(end, family, "end")));
  }
  removeSubnet(network: unknown, prefix: unknown, family: unknown = "ipv4"): void {
    this.#remove(readSubnet(network, prefix, family));
  }
  removeCIDR(cidr: unknown): void {
    this.#remove(readCidr(cidr));
  }
  /** Returns false for text that is not an address of the family. */
  check(given: unknown, family: unknown = "ipv4"): boolean {
    let address = given;
    if (!SocketAddress.isSocketAddress(address)) {
      checkString(address, "address");
      checkString(family, "family");
      const kind = family.toLowerCase() === "ipv4" ? "ipv4" : "ipv6";
      if (parseAddress(address, kind) === undefined) return false;
      address = new SocketAddress({ address, family: kind });
    }
    return Object.values(this.#rules).some((rules) => rules.some((rule) => rule.matches(address as SocketAddress)));
  }
  clear(): void {
    for (const rules of Object.values(this.#rules)) rules.length = 0;
  }
  get rules(): string[] {
    return Object.values(this.#rules).flatMap((rules) => rules.map(({ kind, text }) => `${kind}: ${text}`));
  }
  get size(): number {
    return this.rules.length;
  }
  toJSON(): string[] {
    return this.rules;
  }
  fromJSON(data: unknown): void {
    const rules: unknown = typeof data === "string" ? JSON.parse(data) : data;
    if (!Array.isArray(rules) || rules.some((rule) => typeof rule !== "string")) throw invalidRules(data);
    for (const rule of rules as string[]) {
      for (const [pattern, add] of SAVED_RULES) {
        const match = pattern.exec(rule);
        if (match === null) continue;
        add(this, match);
        break;
      }
    }
  }
  [INSPECT](depth: number, options: InspectOptions, inspect: Inspect): unknown {
    return depth < 0 ? this : inspectAs("BlockList", { rules: this.rules }, options, inspect);
  }
}

nameClasses({ BlockList, SocketAddress });
