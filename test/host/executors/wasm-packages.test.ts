// A WebAssembly package runs only where the host grants it, in a process limited by the operating system.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { beforeAll, describe, expect, test } from "vitest";
import type { Glovebox } from "../../../src/host/index.ts";
import { makeGlovebox, outputOf } from "../../support/host-zone.ts";

const SQLITE = `
import initSqlJs from "sql.js";
export default async ({ wasm, statements, query }) => {
  const SQL = await initSqlJs({ wasmBinary: wasm });
  const database = new SQL.Database();
  for (const statement of statements) database.run(statement);
  const [result] = database.exec(query);
  return { columns: result.columns, rows: result.values, bytes: database.export().byteLength };
};`;
const STATEMENTS = [
  "CREATE TABLE orders (customer TEXT, total REAL)",
  "INSERT INTO orders VALUES ('ada', 12.5), ('grace', 30), ('ada', 7.5)",
];
const QUERY = "SELECT customer, sum(total) AS total FROM orders GROUP BY customer ORDER BY customer";

describe("sql.js", () => {
  // Bytes cross as bytes, because the module is an argument like any other.
  const wasm = new Uint8Array(
    readFileSync(createRequire(import.meta.url).resolve("sql.js/dist/sql-wasm-browser.wasm")),
  );
  const call = { id: "c1", toolName: "sqlite", arguments: { wasm, statements: STATEMENTS, query: QUERY } };
  let glovebox: Glovebox;

  beforeAll(async () => {
    glovebox = await makeGlovebox({ tenancy: "multi", limits: { timeoutMs: 120_000, cpuMs: 120_000 } });
    return () => glovebox.close();
  });

  test("answers queries if webAssembly is granted", async () => {
    await glovebox.addTool({ name: "sqlite", source: SQLITE }, { tenantId: "granted", grant: ["webAssembly"] });
    expect(outputOf(await glovebox.execute(call, { tenantId: "granted" }))).toMatchObject({
      columns: ["customer", "total"],
      rows: [
        ["ada", 20],
        ["grace", 30],
      ],
    });
  });

  test("reports missing WebAssembly if it is not", async () => {
    await glovebox.addTool({ name: "sqlite", source: SQLITE }, { tenantId: "plain" });
    const result = await glovebox.execute(call, { tenantId: "plain" });
    expect(result).toMatchObject({ success: false, error: { code: "TOOL_FAILED" } });
  });
});
