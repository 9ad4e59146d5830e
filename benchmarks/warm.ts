// What does a call of a warm tool cost? The bar is the issue's: at most 4 times isolated-vm's own asynchronous apply.
import { createGlovebox } from "../src/host/index.ts";
import { measure } from "./support/measure.ts";
import { createRawTool } from "./support/raw-isolate.ts";
import { benchmarkPath, expectSuccess } from "./support/tools.ts";

const INPUT = { a: 1, b: 2 };
const SUBJECT = 'Glovebox, isolation "tool"';
await using box = await createGlovebox({ isolation: "tool" });
const path = benchmarkPath("tools/add.ts");
await box.addTool({ path, name: "add" }, { tenantId: "acme" });
const { bundle } = await box.inspectTool({ path });
const raw = await createRawTool(bundle.code);

await measure({
  name: "warm",
  question:
    "A call of a tool that is loaded already: isolated-vm's async apply in process, against router, socket and isolate",
  samples: 5_000,
  warmup: 2_000,
  subjects: {
    "raw isolated-vm": () => raw.call(JSON.stringify(INPUT)).then(JSON.parse),
    [SUBJECT]: async () =>
      expectSuccess(await box.execute({ id: "c", toolName: "add", arguments: INPUT }, { tenantId: "acme" })),
  },
  bars: [{ subject: SUBJECT, maxRatio: 4 }],
});
raw.dispose();
