// Forged requests, sent by a toJSON on Object.prototype, that the guest's kv would never send: another tenant's space, SQL, raised
// quotas, values that are not text.
import { expect } from "vitest";
import { outputOf } from "../../support/host-zone.ts";
import { testAttack } from "../support.ts";
import { newKvFile } from "./kv-file.ts";

testAttack("requests to kv that were made by hand", {
  source: `
    let forged;
    Object.defineProperty(Object.prototype, "toJSON", { value() { return this.op === undefined ? this : forged; } });
    const forgeries = [
      { op: "get", key: "'; DROP TABLE entries; --" },
      { op: "get", key: "k", tenantId: "cold neighbour" },
      { op: "get", key: "k", space: { tenantId: "cold neighbour", tool: "global/neighbour" } },
      { op: "get", key: ["k"] },
      { op: "get", key: { $ne: null } },
      { op: "set", key: "k", value: { json: "1" }, quota: { keys: 1e9, bytes: 1e9 } },
      { op: "set", key: "k", value: { json: 1 } },
      { op: "set", key: "k", value: { bytes: "not base64" } },
      { op: "set", key: "k", value: { json: "1", bytes: "" } },
      { op: "set", key: "k", value: { json: "1" }, ttlMs: 1e99 },
      { op: "list", limit: 1e9 },
      { op: "list", prefix: "", after: "" },
      { op: "usage" },
      { op: "__proto__" },
      [], null, 5,
    ];
    export default async (_, { kv }) => {
      const seen = [];
      for (forged of forgeries) seen.push(await kv.get("k").then(() => "ok", (error) => error.code));
      return seen;
    };`,
  features: ["kv"],
  kv: newKvFile(),
  codes: ["ok"],
  check: (result) => expect(outputOf(result)).toEqual(["ok", ...Array(16).fill("PARAM_INVALID")]),
});
