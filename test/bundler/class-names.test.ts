// Tests that classes of a bundle have the names of their sources, and that nothing else changes.
import { expect, test } from "vitest";
import { buildHere, makeFolder, packageFiles, resultOf } from "./workbench.ts";

/** A package for each module: esbuild renames classes with equal names. */
const packageOf = (name: string, code: string) => packageFiles(name, { "index.js": code }, { type: "module" });
const SELF = "{ static of() { return new Failure(); } }";
const PACKAGES = {
  ...packageOf("first", `export class Failure extends Error ${SELF}`),
  ...packageOf("second", `export class Failure extends Error ${SELF}\nexport class Client {}`),
  ...packageOf("third", "export class Client { call() {} }"),
};
const settings = () => ({ packagesDir: makeFolder(PACKAGES) });
const namesOf = (source: string) => resultOf({ source: `${source}\nexport default () => names;` }, settings());

test("a class that refers to itself has its name, and so have classes of several modules with one name", async () => {
  const source = `
    import * as first from "first";
    import * as second from "second";
    import { Client } from "third";
    class Failure extends second.Failure { static of() { return new Failure(); } }
    const names = [Failure, first.Failure, second.Failure, second.Client, Client].map((each) => each.name)
      .concat(Failure.of().constructor.name, new (class extends first.Failure {})().constructor.name);`;
  expect(await namesOf(source)).toEqual([..."Failure Failure Failure Client Client Failure".split(" "), ""]);
});

test("a static member name stays, and so does a name that the source has", async () => {
  const source = `
    class Method { static name() { return Method; } }
    class Getter { static get name() { return "getter of " + Getter.length; } }
    class Field { static name = "field"; static self = () => Field; }
    const Named = class _Named { static of() { return new _Named(); } };
    class Client2 { static of() { return Client2; } }
    const names = [Method.name() === Method, Getter.name, Field.name, Named.name, Client2.name];`;
  expect(await namesOf(source)).toEqual([true, "getter of 0", "field", "_Named", "Client2"]);
});

test("code in a text, and a class whose superclass is an object, stay as they are", async () => {
  const source = `
    const text = \`
var Other = class _Other {
}\`;
    const make = ({ base }) => base;
    class Odd extends make({
      base: class { static of() { return new Odd(); } },
    }) { static other() { return Odd; } }
    class Other { static of() { return new Other(); } }
    const names = [text, Odd.of() instanceof Odd];`;
  expect(await namesOf(source)).toEqual(["\nvar Other = class _Other {\n}", true]);
});

test("a name is set without effect on the properties of a class and on the lines of the bundle", async () => {
  const source = `
    class Failure { static of() { return new Failure(); } }
    const { value, ...flags } = Object.getOwnPropertyDescriptor(Failure, "name");
    const names = [value, flags, Object.keys(Failure)];`;
  const flags = { writable: false, enumerable: false, configurable: true };
  expect(await namesOf(source)).toEqual(["Failure", flags, []]);
  const { code } = await buildHere({ source: `${source}\nexport default () => names;` });
  expect(code).toMatch(/var Failure = class _Failure \{ static \{ .* \}\n/);
});
