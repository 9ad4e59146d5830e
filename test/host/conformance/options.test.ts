// What callers pass as options, to every public function, constructor and method: anything wrong is rejected, with its path.
import { afterAll, expect, test } from "vitest";
import { makeBox } from "../../support/host-zone.ts";
import { fuzzOptions } from "../../support/option-fuzz.ts";
import { listPublicMethods } from "../../support/public-methods.ts";
import { methodEntries, RECEIVERS, WITHOUT_ROW } from "./method-entries.ts";
import { publicEntries, WITHOUT_OPTIONS } from "./public-entries.ts";
import { serviceEntries } from "./service-entries.ts";

const box = await makeBox();
box.router.register("add", {}, () => ({}));
const services = serviceEntries();
const methods = methodEntries(box);
const entries = [...publicEntries(box), ...methods.entries, ...services.entries];
afterAll(async () => {
  await methods.close();
  await box.close();
  await services.close();
});

/** The package's entry points, but for `glovebox/tool`, which runs in the guest. */
const MODULES = {
  glovebox: () => import("../../../src/host/index.ts"),
  "glovebox/agent": () => import("../../../src/host/agent/index.ts"),
  "glovebox/client": () => import("../../../src/client/index.ts"),
  "glovebox/code-mode": () => import("../../../src/host/code-mode/index.ts"),
  "glovebox/openai": () => import("../../../src/host/openai/index.ts"),
  "glovebox/testing": () => import("../../../src/host/testing/index.ts"),
  "glovebox/ai-sdk": () => import("../../../src/host/adapters/ai-sdk.ts"),
  "glovebox/openai-agents": () => import("../../../src/host/adapters/openai-agents.ts"),
  "glovebox/server": () => import("../../../src/server/index.ts"),
  "glovebox/mcp": () => import("../../../src/host/mcp/server/index.ts"),
} as const;

test.for(Object.entries(MODULES))(
  "each function that %s exports is in the table, or takes no options",
  async ([, load]) => {
    const exported = Object.entries(await load()).filter(([, value]) => typeof value === "function");
    const isCovered = (name: string): boolean =>
      Object.hasOwn(WITHOUT_OPTIONS, name) ||
      entries.some((entry) => new RegExp(`(^|new )${name}\\(`).test(entry.name));
    expect(exported.map(([name]) => name).filter((name) => !isCovered(name))).toEqual([]);
  },
);

/** `Class.method(argument)` for a row `receiver.method(…, argument)`; undefined for a function or constructor. */
function testedArgument(name: string): string | undefined {
  const [, receiver = "", method, names = ""] = /^([\w.]+)\.(\w+)\((.*)\)$/.exec(name) ?? [];
  if (method === undefined) return undefined;
  expect(RECEIVERS, `The receiver of ${name}`).toHaveProperty([receiver]);
  return `${RECEIVERS[receiver]}.${method}(${names.split(", ").at(-1)})`;
}

const rows = new Set(entries.flatMap(({ name }) => testedArgument(name) ?? []));
const methodArguments = listPublicMethods().flatMap(({ name, parameters }) =>
  parameters
    .filter(({ isPlain }) => !isPlain)
    .map((parameter) => ({ owner: name.split(".")[0] as string, argument: `${name}(${parameter.name})` })),
);

test("each argument of a public method that is no plain text or number has a row, or a reason why it has none", () => {
  const isCovered = ({ owner, argument }: (typeof methodArguments)[number]): boolean =>
    rows.has(argument) || Object.hasOwn(WITHOUT_ROW, argument) || Object.hasOwn(WITHOUT_ROW, owner);
  expect(methodArguments.filter((each) => !isCovered(each)).map(({ argument }) => argument)).toEqual([]);
});

test("each reason is about an argument that exists and has no row", () => {
  const known = new Set(
    methodArguments.flatMap(({ owner, argument }) => (rows.has(argument) ? [] : [owner, argument])),
  );
  expect(Object.keys(WITHOUT_ROW).filter((name) => !known.has(name))).toEqual([]);
});

test("each row is about an argument that a public method has", () => {
  const known = new Set(methodArguments.map(({ argument }) => argument));
  expect([...rows].filter((argument) => !known.has(argument))).toEqual([]);
});

fuzzOptions(entries);
