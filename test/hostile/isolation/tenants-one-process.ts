// Two tenants in one process, each with a warm isolate, share no module, globals or prototypes.
import { expect } from "vitest";
import { testPlay } from "./support.ts";

testPlay("marks left for another tenant", {
  isolateLifetime: "tool",
  placement: "shared",
  source: `const seen = [];
export default (_, ctx) => { seen.push(ctx.tenantId); (globalThis.seen ??= []).push(ctx.tenantId); (Object.prototype.seen ??= []).push(ctx.tenantId); return [seen, globalThis.seen, ({}).seen].map((list) => [...new Set(list)]); };`,
  play: async ({ call }) => {
    const outputs = [];
    for (const tenantId of ["a", "b", "a", "b"]) outputs.push(await call({}, { tenantId }));
    return outputs;
  },
  judge: (outputs) => expect(outputs).toEqual(["a", "b", "a", "b"].map((tenant) => Array(3).fill([tenant]))),
});
