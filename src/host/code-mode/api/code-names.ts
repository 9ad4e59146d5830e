// Names of tools in code: `tools.NAME`, and `tools.SERVER.NAME` for a tool of an upstream server. The names are identifiers of TypeScript and
// of Python, no two tools share one, and a tool keeps its name whatever order the tools come in.
import { createHash } from "node:crypto";
import type { ToolDefinition } from "../../../sandbox/contract/definition.ts";

/** The name of a tool in code: one identifier, or a server's and the tool's. */
export type CodePath = readonly [string] | readonly [string, string];

const RESERVED: ReadonlySet<string> = new Set([
  // JavaScript and TypeScript, as far as Python does not have them too.
  ..."await break case catch class const continue debugger default delete do else enum export extends false finally for".split(
    " ",
  ),
  ..."function if import in instanceof new null return super switch this throw true try typeof var void while with yield".split(
    " ",
  ),
  // Python.
  ..."False None True and as assert async def del elif except from global is lambda nonlocal not or pass raise".split(
    " ",
  ),
  // Members of functions and of `tools` itself, which are not tools.
  ..."call apply bind name length arguments caller prototype constructor then catch finally toJSON toString valueOf".split(
    " ",
  ),
  ..."hasOwnProperty isPrototypeOf propertyIsEnumerable toLocaleString".split(" "),
]);

const MAX_LENGTH = 64;

/** Returns the nearest identifier: `csv-stats` becomes `csv_stats`, `2d.plot` becomes `t2d_plot`, `new` becomes `new_`. */
export function toIdentifier(name: string): string {
  const plain = name.replaceAll(/[^A-Za-z0-9]+/g, "_").replaceAll(/^_+|_+$/g, "");
  const started = /^[A-Za-z]/.test(plain) ? plain : `t${plain}`;
  const kept = isIdentifier(name) ? name : started.slice(0, MAX_LENGTH);
  return RESERVED.has(kept) ? `${kept}_` : kept;
}

/** A name is kept as it is. Two underscores at its start would be private in Python. */
const isIdentifier = (name: string): boolean => /^(?!__)[A-Za-z_][A-Za-z0-9_]{0,63}$/.test(name);

const suffixOf = (key: string): string => createHash("sha256").update(key).digest("hex").slice(0, 8);

/** Assigns each key an identifier. Keys that share one get a suffix of their hash, except the key that is that identifier. */
function assign(keys: readonly string[]): ReadonlyMap<string, string> {
  const byIdentifier = Map.groupBy(new Set(keys), toIdentifier);
  const assigned = new Map<string, string>();
  for (const [identifier, sharing] of byIdentifier) {
    for (const key of sharing) {
      const isPlain = sharing.length === 1 || key === identifier;
      assigned.set(key, isPlain ? identifier : `${identifier}_${suffixOf(key)}`);
    }
  }
  return withoutRepeats(assigned);
}

/** A suffix could be the name of another tool: then a longer one is used. */
function withoutRepeats(assigned: ReadonlyMap<string, string>): ReadonlyMap<string, string> {
  const taken = new Set<string>();
  const unique = new Map<string, string>();
  const byExactness = [...assigned].sort(
    ([a, nameA], [b, nameB]) => Number(b === nameB) - Number(a === nameA) || (a < b ? -1 : 1),
  );
  for (const [key, wanted] of byExactness) {
    let name = wanted;
    for (let round = 1; taken.has(name); round += 1) name = `${wanted}_${suffixOf(`${round} ${key}`)}`;
    taken.add(name);
    unique.set(key, name);
  }
  return unique;
}

/** Returns the path of each tool, by the tool's name. */
export function codePathsOf(definitions: readonly ToolDefinition[]): ReadonlyMap<string, CodePath> {
  // A key with a prefix, so that a server and a tool of the same name are different keys.
  const own = definitions.filter(({ origin }) => origin === undefined).map(({ name }) => name);
  const byServer = Map.groupBy(
    definitions.filter(({ origin }) => origin !== undefined),
    ({ origin }) => origin?.server ?? "",
  );
  const servers = [...byServer.keys()];
  const ownNames = assign(own);
  const taken = new Set(ownNames.values());
  const serverNames = new Map(
    [...assign(servers)].map(([server, name]) => [server, taken.has(name) ? `${name}_${suffixOf(server)}` : name]),
  );
  const paths = new Map<string, CodePath>([...ownNames].map(([name, identifier]) => [name, [identifier]]));
  for (const [server, tools] of byServer) {
    const names = assign(tools.map(({ origin, name }) => origin?.toolName ?? name));
    for (const { name, origin } of tools) {
      paths.set(name, [serverNames.get(server) as string, names.get(origin?.toolName ?? name) as string]);
    }
  }
  return paths;
}
