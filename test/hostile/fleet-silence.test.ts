// A hostile executor that does not answer, or announces itself wrongly: it is reported or left out after the time that a silent executor has.
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { connectFleet } from "../../src/host/fleet/nats-connection.ts";
import { type Fleet, openFleet } from "../support/fleet.ts";
import { HostileExecutor } from "../support/hostile-executor.ts";
import { hasNatsServer } from "../support/nats-server.ts";

const LANGUAGES = ['{"python":1}', "{", JSON.stringify({ python: "0".repeat(64), more: "x".repeat(1_024) })];

describe.skipIf(!hasNatsServer)("a hostile executor that is silent", () => {
  let fleet: Fleet;
  const evils: HostileExecutor[] = [];
  const open = async (id: string): Promise<HostileExecutor> => {
    const credentials = fleet.credentialsOf(id);
    const connection = await connectFleet({ urls: [fleet.nats.url], credentials, role: "executor" });
    const opened = new HostileExecutor(id, connection);
    evils.push(opened);
    await fleet.until(id, true);
    return opened;
  };

  beforeAll(async () => {
    const executors = ["evil", "other", ...LANGUAGES.map((_, index) => `evil-${index}`)];
    fleet = await openFleet({ executors, poolOf: (id) => id, silenceMs: 2_000 });
  });
  afterAll(async () => {
    await Promise.all(evils.map((evil) => evil.close()));
    await fleet?.[Symbol.asyncDispose]();
  });

  test("is reported if it does not drain on request, and cannot take part in the request to another one", async () => {
    await Promise.all(["evil", "other"].map(open));
    expect(await fleet.host.drainExecutor("evil")).toBe("unconfirmed");
    await vi.waitFor(() =>
      expect(fleet.host.fleet.executors).toMatchObject([
        { id: "evil", isDraining: false },
        { id: "other", isDraining: false },
      ]),
    );
  });

  test.for([...LANGUAGES.entries()])("is not listed with invalid languages: %i", async ([index, languages]) => {
    const attacker = await open(`evil-${index}`);
    attacker.languages = languages;
    await fleet.until(attacker.id, false);
  });
});
