// Checks the package.json and the package-lock.json of an upload, and writes those that npm gets. npm fetches what these files name, from any
// URL, repository or folder, so that only checked fields get to it: packages of one registry, by their version, with their hash.
import * as z from "zod";
import { limitedRecord } from "../../host/config/limited-record.ts";
import { ToolError } from "../../host/index.ts";
import { isSmallJson } from "../../host/json/parse-json.ts";
import { runTimeSliced } from "../../host/util/time-slicing.ts";
import { NEVER, parseInputText } from "../calls/input-text.ts";

/** Which packages may be installed. */
export interface PackageRules {
  /** Names: `zod`, `@scope/*`, or `*` for every package. */
  readonly allow: readonly string[];
  /** URL of the registry, with a slash at its end. */
  readonly registry: string;
}

/** Maximum number of packages of a lockfile, next to the tool itself, and of dependencies of an entry. Values are counted before each is checked. */
const MAX_PACKAGES = 1_000;
const MAX_FILE_LENGTH = 4 * 1024 * 1024;

const PART = "[a-z0-9~-][a-z0-9._~-]*";
const NAME = `(?:@${PART}/)?${PART}`;
const NAME_PATTERN = new RegExp(`^${NAME}$`, "i");
const PATH_PATTERN = new RegExp(`^(?:node_modules/${NAME}/)*node_modules/(${NAME})$`, "i");
const ALIAS_PATTERN = new RegExp(`^npm:(${NAME})(?:@(.*))?$`, "i");
/** Versions, ranges and tags. npm takes a text with a colon or a slash, a path or the name of an archive for a place to fetch from. */
const RANGE_PATTERN = /^(?!\s*\.)(?!.*\.(?:tgz|tar|tar\.gz)\s*$)[\w .^~<>=*|+-]*$/i;
const SHA512_PATTERN = /^sha512-[A-Za-z0-9+/]{86}==$/;
/** The file of a package in a URL. Some registries repeat the scope. No encoded characters, which a registry could take for a path. */
const TARBALL_PATTERN = new RegExp(`^(?:@${PART}/)?[\\w.~+-]+\\.tgz$`, "i");
/** The hash of nothing that can be downloaded. */
const NO_CONTENT = `sha512-${Buffer.alloc(64).toString("base64")}`;

const NameSchema = z.string().max(214).regex(NAME_PATTERN, { error: "Expected the name of a package" });
const DependenciesSchema = limitedRecord(NameSchema, z.string().max(1_024), {
  max: MAX_PACKAGES,
  what: "packages",
}).optional();
const MANIFEST_FIELDS = {
  dependencies: DependenciesSchema,
  devDependencies: DependenciesSchema,
  optionalDependencies: DependenciesSchema,
  peerDependencies: DependenciesSchema,
};
const ManifestSchema = z.object({
  ...MANIFEST_FIELDS,
  workspaces: z.undefined({ error: "Workspaces are not supported" }).optional(),
});

const FlagSchema = z.boolean().optional();
const isName = (value: unknown): boolean => typeof value === "string" && value.length <= 214;
const NamesSchema = z.custom<readonly string[]>(
  (value) => Array.isArray(value) && value.length <= MAX_PACKAGES && value.every(isName),
  { error: "Expected names" },
);
const PlatformSchema = z.union([z.string().max(214), NamesSchema]).optional();
/** A version, which npm may install by itself. It takes a path such as `..` or the name of an archive for a place. */
const VERSION_PATTERN = /^(?!.*\.(?:tgz|tar|tar\.gz)$)\d[\w.+-]{0,255}$/i;
/** What npm needs of an entry. It does not get other fields: `hasShrinkwrap` makes it install what a file in the package names. */
const EntrySchema = z.object({
  ...MANIFEST_FIELDS,
  name: NameSchema.optional(),
  version: z.string().regex(VERSION_PATTERN).optional(),
  resolved: z.string().max(4_096).optional(),
  integrity: z.string().max(4_096).optional(),
  link: FlagSchema,
  inBundle: FlagSchema,
  bundleDependencies: z.union([z.boolean(), NamesSchema]).optional(),
  peerDependenciesMeta: limitedRecord(z.string().max(214), z.object({ optional: FlagSchema }), {
    max: MAX_PACKAGES,
    what: "packages",
  }).optional(),
  os: PlatformSchema,
  cpu: PlatformSchema,
  libc: PlatformSchema,
});
type Entry = z.output<typeof EntrySchema>;
const LockSchema = z.object({
  lockfileVersion: z.union([z.literal(2), z.literal(3)], { error: "Expected lockfileVersion 2 or 3" }),
  packages: limitedRecord(z.string().max(1_024), z.unknown(), {
    max: MAX_PACKAGES + 1,
    what: "packages, with the tool itself",
  }),
});

const invalid = (why: string): ToolError => new ToolError("PARAM_INVALID", why);
const shown = (text: string): string => JSON.stringify(text.slice(0, 200));

async function parseFile<Schema extends z.ZodType>(
  file: string,
  text: string,
  schema: Schema,
): Promise<z.output<Schema>> {
  if (text.length > MAX_FILE_LENGTH) throw invalid(`${file}: Expected at most ${MAX_FILE_LENGTH} characters`);
  if (!text.isWellFormed()) throw invalid(`${file}: Expected text without lone surrogates`);
  const value = await parseJson(file, text);
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw invalid(`${file}: ${toReason(parsed.error)}`);
}

/** Parses a large text in time slices. */
async function parseJson(file: string, text: string): Promise<unknown> {
  if (!isSmallJson(text)) return await parseInputText(text, file, NEVER);
  try {
    return JSON.parse(text);
  } catch {
    throw invalid(`${file}: Expected JSON`);
  }
}

function toReason({ issues: [issue] }: z.ZodError): string {
  const message = issue?.message ?? "Invalid";
  return (issue === undefined || issue.path.length === 0 ? message : `${issue.path.join(".")}: ${message}`).slice(
    0,
    500,
  );
}

/** @throws {ToolError} CAPABILITY_DENIED */
function requireAllowed(name: string, where: string, { allow }: PackageRules): void {
  const isAllowed = allow.some(
    (rule) => rule === "*" || rule === name || (rule.endsWith("/*") && name.startsWith(rule.slice(0, -1))),
  );
  if (isAllowed) return;
  throw new ToolError("CAPABILITY_DENIED", `${where}: The operator does not allow this package`, {
    details: { package: name.slice(0, 214) },
  });
}

/** Checks that npm finds what a package depends on in the registry. @throws {ToolError} */
function checkDependencies(
  fields: Pick<Entry, keyof typeof MANIFEST_FIELDS>,
  where: string,
  rules: PackageRules,
): void {
  for (const key of Object.keys(MANIFEST_FIELDS) as (keyof typeof MANIFEST_FIELDS)[]) {
    for (const [name, spec] of Object.entries(fields[key] ?? {})) {
      const alias = ALIAS_PATTERN.exec(spec);
      if (alias?.[1] !== undefined) requireAllowed(alias[1], `${where}: ${key}: ${shown(name)}`, rules);
      if (RANGE_PATTERN.test(alias === null ? spec : (alias[2] ?? ""))) continue;
      throw invalid(`${where}: ${key}: ${shown(name)}: Expected a version, a range or a tag of the registry`);
    }
  }
}

/**
 * Checks a package.json.
 * @returns the package.json for npm
 * @throws {ToolError} PARAM_INVALID; CAPABILITY_DENIED for another name of a package that is not allowed
 */
export async function checkManifest(text: string, rules: PackageRules): Promise<string> {
  const { workspaces: _, ...fields } = await parseFile("package.json", text, ManifestSchema);
  checkDependencies(fields, "package.json", rules);
  return JSON.stringify({ name: "tool", version: "0.0.0", private: true, ...fields });
}

/**
 * Checks that a lockfile names only allowed packages of the registry, each with its hash.
 * @returns the lockfile for npm, which is written anew: npm takes the text of one with conflict markers for something else than JSON does
 * @throws {ToolError} PARAM_INVALID; CAPABILITY_DENIED for a package that is not allowed
 */
export async function checkLockfile(text: string, rules: PackageRules): Promise<string> {
  const { packages } = await parseFile("package-lock.json", text, LockSchema);
  // Without dependencies of the tool, npm reads them from package.json and computes itself which packages it needs.
  const checked: [path: string, entry: string][] = [["", "{}"]];
  const entries = Object.entries(packages).values();
  await runTimeSliced(() => {
    const { value: next } = entries.next();
    if (next === undefined) return true;
    const [path, value] = next;
    if (path !== "") checked.push([path, JSON.stringify(checkEntry(path, value, rules))]);
    return false;
  }, undefined);
  const written = checked.map(([path, entry]) => `${JSON.stringify(path)}:${entry}`);
  return `{"lockfileVersion":3,"packages":{${written.join()}}}`;
}

function checkEntry(path: string, value: unknown, rules: PackageRules): Entry {
  const where = `package-lock.json: ${shown(path)}`;
  const parsed = EntrySchema.safeParse(value);
  if (!parsed.success) throw invalid(`${where}: ${toReason(parsed.error)}`);
  const { data: entry } = parsed;
  const folder = PATH_PATTERN.exec(path)?.[1];
  if (folder === undefined || entry.link === true) throw invalid(`${where}: Expected a package of the registry`);
  const name = entry.name ?? folder;
  for (const used of new Set([name, folder])) requireAllowed(used, where, rules);
  checkDependencies(entry, where, rules);
  if (entry.inBundle === true && entry.resolved === undefined) {
    // npm decides itself which packages are in others. One that is not would be fetched: without a hash, whatever its version is.
    return { ...entry, integrity: NO_CONTENT };
  }
  const resolved = URL.parse(entry.resolved ?? "")?.href;
  if (resolved?.startsWith(rules.registry) !== true) throw invalid(`${where}: Expected resolved at ${rules.registry}`);
  // Only these: npm uses a weaker hash if it cannot read a strong one.
  const hashes = (entry.integrity ?? "").split(/\s+/).filter((hash) => SHA512_PATTERN.test(hash));
  if (hashes.length === 0) throw invalid(`${where}: Expected integrity with sha512`);
  const checked = { ...entry, integrity: hashes.join(" ") };
  const below = resolved.slice(rules.registry.length);
  const file = below.startsWith(`${name}/-/`) ? below.slice(name.length + 3) : "";
  // npm installs what a URL names, without a look at the name in it. Without one, it gets the URL of the checked name from the registry.
  if (TARBALL_PATTERN.test(file)) return { ...checked, resolved };
  if (entry.version === undefined) throw invalid(`${where}: Expected version`);
  return { ...checked, resolved: undefined };
}
