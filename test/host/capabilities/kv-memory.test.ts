import { MemoryKvStore } from "../../../src/host/capabilities/kv/kv-memory.ts";
import { testKvStore } from "./kv-store-conformance.ts";

testKvStore("MemoryKvStore", async () => new MemoryKvStore());
