// What callers pass as options, to every public function, constructor and method: anything wrong is rejected, with its path.
import { afterAll, expect, test } from "vitest";
import { makeBox } from "../../support/host-zone.ts";
import { fuzzOptions } from "../../support/option-fuzz.ts";
import { publicEntries, WITHOUT_OPTIONS } from "./public-entries.ts";
import { serviceEntries } from "./service-entries.ts";

const box = await makeBox();
box.router.register("add", {}, () => ({}));
const services = serviceEntries();
const entries = [...publicEntries(box), ...services.entries];
afterAll(async () => {
  await box.close();
  await services.close();
});

/** The package's entry points, but for `glovebox/tool`, which runs in the guest. */
const MODULES = {
  glovebox: () => import("../../../src/host/index.ts"),
  "glovebox/agent": () => import("../../../src/host/agent/index.ts"),
  "glovebox/client": () => import("../../../src/client/index.ts"),
  "glovebox/code-mode": () => import("../../../src/host/code-mode/index.ts"),
  "glovebox/openai": () => import("../../../src/host/openai/index.ts"),
  "glovebox/testing": () => import("../../../src/host/testing/index.ts"),
  "glovebox/ai-sdk": () => import("../../../src/host/adapters/ai-sdk.ts"),
  "glovebox/openai-agents": () => import("../../../src/host/adapters/openai-agents.ts"),
  "glovebox/server": () => import("../../../src/server/index.ts"),
  "glovebox/mcp": () => import("../../../src/host/mcp/server/index.ts"),
} as const;

test.for(Object.entries(MODULES))(
  "each function that %s exports is in the table, or takes no options",
  async ([, load]) => {
    const exported = Object.entries(await load()).filter(([, value]) => typeof value === "function");
    const isCovered = (name: string): boolean =>
      Object.hasOwn(WITHOUT_OPTIONS, name) ||
      entries.some((entry) => new RegExp(`(^|new )${name}\\(`).test(entry.name));
    expect(exported.map(([name]) => name).filter((name) => !isCovered(name))).toEqual([]);
  },
);

fuzzOptions(entries);
