// Circuit: a state machine, so any sequence of events and any passing of time is held against what must be true of it.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  Circuit,
  type CircuitAdmission,
  type CircuitEvidence,
  type CircuitOptions,
} from "../../../../src/host/routing/health/circuit.ts";

const OPTIONS: CircuitOptions = { failures: 3, openMs: 100, maxOpenMs: 350 };
const DOWN: CircuitEvidence = { kind: "down", code: "TOOL_TIMEOUT" };
const UP: CircuitEvidence = { kind: "up" };
const UNKNOWN: CircuitEvidence = { kind: "unknown" };

function admitted(circuit: Circuit, now: number): CircuitAdmission {
  const admission = circuit.admit(now);
  if ("epoch" in admission) return admission;
  throw new Error(`Expected leave to ask, got retryAfterMs ${admission.retryAfterMs}`);
}

/** One call after the other, at one moment. */
function call(circuit: Circuit, now: number, ...evidence: readonly CircuitEvidence[]): void {
  for (const one of evidence) circuit.record(admitted(circuit, now), one, now);
}

function opened(now = 0): Circuit {
  const circuit = new Circuit(OPTIONS, now);
  call(circuit, now, DOWN, DOWN, DOWN);
  return circuit;
}

describe("Circuit", () => {
  test("opens after the configured number of failures in a row, and not before", () => {
    const circuit = new Circuit(OPTIONS, 0);
    call(circuit, 0, DOWN, DOWN, UP, DOWN, DOWN);
    expect(circuit.state).toBe("closed");
    call(circuit, 5, DOWN);
    expect([circuit.state, circuit.failures, circuit.since, circuit.nextProbeAt]).toEqual(["open", 3, 5, 105]);
    expect(circuit.lastFailure).toEqual({ code: "TOOL_TIMEOUT", at: 5 });
  });

  test("calls that say nothing of their source neither count nor reset", () => {
    const circuit = new Circuit(OPTIONS, 0);
    call(circuit, 0, DOWN, UNKNOWN, DOWN, UNKNOWN, DOWN);
    expect(circuit.state).toBe("open");
  });

  test("failures that lie far apart are not in a row", () => {
    const circuit = new Circuit(OPTIONS, 0);
    for (const at of [0, 700_000, 1_400_000, 2_100_000]) call(circuit, at, DOWN);
    expect([circuit.state, circuit.failures]).toEqual(["closed", 1]);
  });

  test("reports how long to wait while it is open; then admits one call, and no second one", () => {
    const circuit = opened();
    expect(circuit.admit(40)).toEqual({ retryAfterMs: 60 });
    const probe = admitted(circuit, 100);
    expect([probe.isProbe, circuit.state]).toEqual([true, "half-open"]);
    expect(circuit.admit(100)).toEqual({ retryAfterMs: 100 });
    circuit.record(probe, UP, 120);
    expect([circuit.state, circuit.failures, circuit.rejected, circuit.since]).toEqual(["closed", 0, 0, 120]);
  });

  test("each probe that fails doubles the time, up to the most; a success begins anew", () => {
    const circuit = opened();
    const waits: number[] = [];
    for (let now = 100; waits.length < 4; ) {
      call(circuit, now, DOWN);
      waits.push((circuit.nextProbeAt ?? 0) - now);
      now = circuit.nextProbeAt ?? 0;
    }
    expect(waits).toEqual([200, 350, 350, 350]);
    call(circuit, 10_000, UP, DOWN, DOWN, DOWN);
    expect(circuit.nextProbeAt).toBe(10_100);
  });

  test("a probe that was cancelled has found nothing out: the next call is one", () => {
    const circuit = opened();
    call(circuit, 100, UNKNOWN);
    expect(circuit.state).toBe("open");
    expect(admitted(circuit, 100).isProbe).toBe(true);
  });

  test("what was begun before it opened is no news when it comes back", () => {
    const circuit = new Circuit(OPTIONS, 0);
    const early = admitted(circuit, 0);
    call(circuit, 0, DOWN, DOWN, DOWN);
    circuit.record(early, UP, 10);
    expect(circuit.state).toBe("open");
    const probe = admitted(circuit, 100);
    circuit.record(early, UP, 110);
    expect(circuit.state).toBe("half-open");
    circuit.record(probe, DOWN, 120);
    expect(circuit.nextProbeAt).toBe(320);
  });

  test("holds whatever calls come, in whatever order they end", () => {
    const step = fc.oneof(
      fc.record({ do: fc.constant("wait" as const), ms: fc.integer({ min: 0, max: 400 }) }),
      fc.record({ do: fc.constant("begin" as const) }),
      fc.record({
        do: fc.constant("end" as const),
        which: fc.nat(20),
        evidence: fc.constantFrom<CircuitEvidence>(UP, DOWN, DOWN, UNKNOWN),
      }),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
        const circuit = new Circuit(OPTIONS, 0);
        const running: CircuitAdmission[] = [];
        let now = 0;
        for (const one of steps) {
          const before = { state: circuit.state, nextProbeAt: circuit.nextProbeAt };
          if (one.do === "wait") now += one.ms;
          else if (one.do === "begin") {
            const admission = circuit.admit(now);
            if ("epoch" in admission) {
              // Closed: admits every call. Open: admits one call after the delay. Half-open: admits no call.
              expect(before.state).not.toBe("half-open");
              expect(admission.isProbe).toBe(before.state === "open");
              if (before.nextProbeAt !== undefined) expect(now).toBeGreaterThanOrEqual(before.nextProbeAt);
              running.push(admission);
            } else {
              expect(before.state).not.toBe("closed");
              expect(admission.retryAfterMs).toBeGreaterThan(0);
              expect(admission.retryAfterMs).toBeLessThanOrEqual(OPTIONS.maxOpenMs);
            }
          } else {
            const [admission] = running.splice(one.which % Math.max(1, running.length), 1);
            if (admission === undefined) continue;
            circuit.record(admission, one.evidence, now);
            // Only its own probe ends a half-open circuit, only failures open a closed one.
            if (before.state === "half-open" && !admission.isProbe) expect(circuit.state).toBe("half-open");
            if (before.state === "closed" && circuit.state === "open") expect(one.evidence).toBe(DOWN);
            if (before.state === "open") expect(circuit.state).toBe("open");
          }
          if (circuit.state === "closed") expect(circuit.failures).toBeLessThan(OPTIONS.failures);
          // It is never shut for ever: where no probe is under way, one is let through in time.
          if (circuit.state === "open") {
            expect((circuit.nextProbeAt ?? Number.NaN) - now).toBeLessThanOrEqual(OPTIONS.maxOpenMs);
          }
          if (circuit.state === "half-open") expect(running.filter(({ isProbe }) => isProbe).length).toBeGreaterThan(0);
        }
      }),
    );
  });
});
