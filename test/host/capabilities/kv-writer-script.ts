// A process that writes one key after another and says which are stored, until it is killed.
import { SqliteKvStore } from "../../../src/host/capabilities/kv/kv-sqlite.ts";

const store = new SqliteKvStore(process.argv[2] ?? "");
const space = { tenantId: "acme", tool: "tenant/writer" };
const quota = { keys: 1e6, bytes: 1e9 };
for (let index = 0; ; index += 1) {
  await store.set(space, `k${index}`, { kind: "json", data: Buffer.from(String(index)), quota });
  process.send?.(index);
}
