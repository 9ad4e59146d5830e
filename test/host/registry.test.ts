// The registry in memory.
import { MemoryToolRegistry } from "../../src/host/registry.ts";
import { describeRegistry } from "./registry-conformance.ts";

describeRegistry("MemoryToolRegistry", () => new MemoryToolRegistry());
