// What callers pass as options, to every public function, constructor and method: anything wrong is rejected, with its path.
import { afterAll, expect, test } from "vitest";
import { makeGlovebox } from "../../support/host-zone.ts";
import { fuzzOptions } from "../../support/option-fuzz.ts";
import { listPublicFunctions, listPublicMethods } from "../../support/public-methods.ts";
import { FUNCTIONS_WITHOUT_ROW, functionEntries } from "./function-entries.ts";
import { methodEntries, RECEIVERS, WITHOUT_ROW } from "./method-entries.ts";
import { publicEntries } from "./public-entries.ts";
import { serviceEntries } from "./service-entries.ts";

const glovebox = await makeGlovebox();
glovebox.router.register("add", {}, () => ({}));
const services = serviceEntries();
const methods = methodEntries(glovebox);
const entries = [...publicEntries(glovebox), ...functionEntries(glovebox), ...methods.entries, ...services.entries];
afterAll(async () => {
  await methods.close();
  await glovebox.close();
  await services.close();
});

/** `Class.method(argument)` for a row `receiver.method(…, argument)`, and `create(argument)` for a function. */
function testedArgument(name: string): string {
  const [, receiver, method, names = ""] = /^(?:([\w.]+)\.)?((?:new )?\w+)\((.*)\)$/.exec(name) ?? [];
  if (receiver === undefined) return `${method}(${names.split(", ").at(-1)})`;
  expect(RECEIVERS, `The receiver of ${name}`).toHaveProperty([receiver]);
  return `${RECEIVERS[receiver]}.${method}(${names.split(", ").at(-1)})`;
}

const rows = new Set(entries.map(({ name }) => testedArgument(name)));
const reasons = { ...WITHOUT_ROW, ...FUNCTIONS_WITHOUT_ROW };
const allArguments = [...listPublicMethods(), ...listPublicFunctions()].flatMap(({ name, parameters }) =>
  parameters
    .filter(({ isPlain }) => !isPlain)
    .map((parameter) => ({ owner: name.split(".")[0] as string, argument: `${name}(${parameter.name})` })),
);

test("each argument of a public function or method that is not plain text or a number has a row, or a reason why it has none", () => {
  const isCovered = ({ owner, argument }: (typeof allArguments)[number]): boolean =>
    rows.has(argument) || Object.hasOwn(reasons, argument) || Object.hasOwn(reasons, owner);
  expect(allArguments.filter((each) => !isCovered(each)).map(({ argument }) => argument)).toEqual([]);
});

test("each reason is about an argument that exists and has no row", () => {
  const known = new Set(allArguments.flatMap(({ owner, argument }) => (rows.has(argument) ? [] : [owner, argument])));
  expect(Object.keys(reasons).filter((name) => !known.has(name))).toEqual([]);
});

test("each row is about an argument that a public function or method has", () => {
  const known = new Set(allArguments.map(({ argument }) => argument));
  expect([...rows].filter((argument) => !known.has(argument))).toEqual([]);
});

fuzzOptions(entries);
