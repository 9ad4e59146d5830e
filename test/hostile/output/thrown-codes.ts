// An error with a Glovebox error code, for every code and in every field that might be trusted.
import { expect } from "vitest";
import { ERROR_CODES } from "../../../src/sandbox/contract/errors.ts";
import { codeOf } from "../../support/host-zone.ts";
import { testPlay } from "../isolation/support.ts";

const CODES = Object.keys(ERROR_CODES);

testPlay("errors that name our own codes", {
  isolateLifetime: "tool",
  source: `export default ({ code }) => { throw Object.assign(new Error(code), { name: code, code, capabilityCode: code, outcome: code }); };`,
  play: async ({ run }) => {
    const codes: string[] = [];
    for (const code of CODES) codes.push(codeOf(await run({ code })));
    return codes;
  },
  judge: (codes) => expect(new Set(codes)).toEqual(new Set(["TOOL_FAILED"])),
});
