// A namespace may export any name. Awaiting, merging or serializing the namespace would call some of them.
import { expect, test } from "vitest";
import { buildHere, evaluate } from "../../bundler/workbench.ts";

test.for(["then", "__proto__", "toJSON", "constructor", "", "__esModule", "default-", "valueOf"])(
  "an export named %j is only an export",
  async (name) => {
    const source = `const evil = (...args) => { globalThis.called = args.length; return 1; }; export { evil as ${JSON.stringify(name)} }; export default () => typeof globalThis.called;`;
    const built = await buildHere({ source }).catch((error: unknown) => error);
    if (built instanceof Error) expect(built).toMatchObject({ code: "BUNDLE_FAILED" });
    else expect((await evaluate(built as Awaited<ReturnType<typeof buildHere>>)).value).toBe("undefined");
  },
);
