// Source that tries to break out of the wrapper or to replace it. Expected: the script is one expression, and no other code runs.
import { describe, expect, test } from "vitest";
import { build, evaluate, failureOf } from "../../bundler/workbench.ts";

describe.concurrent("a tool cannot break out of the bundle's wrapper", () => {
  test.for([
    ["a closing brace", "export default 1 });globalThis.out = 1;(async()=>{"],
    ["a closing brace after a comment", "export default 1\n})//"],
    ["an unfinished comment", "export default 1 /*"],
    ["an unfinished template", "export default `"],
    ["an unfinished regular expression", "export default /["],
    ["return at the top", "return 1; export default 1"],
    ["new.target at the top", "export default new.target"],
  ] as const)("source with %s is rejected", async ([, source]) => {
    expect((await failureOf(build({ source }))).code).toBe("BUNDLE_FAILED");
  });

  test.for<[string, string, unknown]>([
    ["a line comment at the end", "export default 1 //", 1],
    ["an HTML comment in an expression", "let a = 1, b = 3; export default () => [a < !--b, b-- > a]", [false, true]],
    ["an HTML comment in a string", "export default '<!-- })(' + `-->\n})`", "<!-- })(-->\n})"],
    ["an HTML comment at the start of a line", "let x = 3\nexport default () => { return x--\n> 0 }", true],
    ["a directive", '"use strict"; export default (function () { return this === undefined })()', true],
    ["line separators in a string", 'export default "\u2028".length', 1],
    ["arguments at the top", "export default typeof arguments", "undefined"],
    ["this at the top", "export default typeof this", "undefined"],
    ["its own register function", "globalThis.__glovebox_register = () => { throw 1 }; export default 1", 1],
    ["a sourceMappingURL", 'export default 1\n//# sourceMappingURL=data:,"})', 1],
  ])("source with %s is harmless", async ([, source, value]) => {
    const bundle = await build({ source });
    expect((await evaluate(bundle)).value).toEqual(value);
    expect(bundle.code).toMatch(
      /^\(async \(__glovebox_register_([0-9a-f]{16}), __glovebox_builtin_\1\) => \{"use strict";\n[\s\S]*\n\}\)$/,
    );
  });

  test("sloppy CommonJS is neither strict nor in our function's scope", async () => {
    const source = "exports.n = [typeof arguments, (function () { return this === globalThis })(), (free = 1)];";
    const bundle = await build({
      files: { "tool.ts": 'import { n } from "./c.cjs"; export default n', "c.cjs": source },
    });
    expect((await evaluate(bundle)).value).toEqual(["object", true, 1]);
  });
});
