// Spells out `require` calls that esbuild does not recognize: with a raw template, as wasm-bindgen writes them, and in `eval`, with which packages
// hide them from bundlers. In Node, `eval` in a CommonJS module sees its `require`; in a bundle there is none.

const RAW = /\brequire\(\s*String\.raw\s*`([^`$\\]+)`\s*\)/g;
const EVALUATED = /\beval\(\s*(["'])require\(\s*(\\?["'])([^"'\\]+)\2\s*\)((?:\.[\w$]+)*)\s*(?:;\s*)?\1\s*\)/g;
const EVALUATED_NAME = /\beval\(\s*(["'`])require\1\s*\)(\s*\(\s*["'])?/g;
/** A `require` for names that are known at run time only. It has the built-ins, and fails as in Node for all else. */
const RUN_TIME_REQUIRE = 'require("node:module").createRequire("/")';

/** Returns the text of a package's module with constant `require` calls in place of these. */
export function spellOutRequires(contents: Buffer): Buffer {
  if (!contents.includes("String.raw") && !contents.includes("eval(")) return contents;
  const text = contents.toString("utf8");
  const spelled = text
    .replace(RAW, (_, name: string) => `require(${JSON.stringify(name)})`)
    .replace(
      EVALUATED,
      (_, _quote, _inner, name: string, members: string) => `require(${JSON.stringify(name)})${members}`,
    )
    .replace(EVALUATED_NAME, (_, _quote, call?: string) => (call === undefined ? RUN_TIME_REQUIRE : `require${call}`));
  return spelled === text ? contents : Buffer.from(spelled);
}
