// A CapabilityBroker of one call without a worker, and the scope that ends the call.
import { CapabilityBroker } from "../../src/host/capabilities/broker.ts";
import { CallScope } from "../../src/host/capabilities/call-scope.ts";
import type { Capability } from "../../src/host/capabilities/capability.ts";
import { Redactor } from "../../src/host/observability/redaction/call-redactor.ts";
import { DEFAULT_LIMITS } from "../../src/sandbox/contract/limits.ts";

export interface OpenBroker {
  /** The envelope that the tool gets, parsed. */
  readonly ask: (name: string, input?: unknown) => Promise<unknown>;
  /** Failures of handlers that were reported to the operator. */
  readonly reported: readonly unknown[];
  /** Ends the call. */
  readonly end: () => void;
}

export function openBroker(...capabilities: readonly Capability[]): OpenBroker {
  const reported: unknown[] = [];
  const scope = new CallScope({
    callId: "c",
    tenantId: "t",
    toolName: "probe",
    requested: {},
    log: () => {},
    redactor: new Redactor(),
  });
  const broker = new CapabilityBroker({
    granted: new Map(capabilities.map((one) => [one.name, one])),
    limits: DEFAULT_LIMITS as Required<typeof DEFAULT_LIMITS>,
    context: scope.context,
    onHandlerError: (error) => reported.push(error),
  });
  return {
    ask: async (name, input = null) => JSON.parse(await broker.answer(name, JSON.stringify(input))) as unknown,
    reported,
    end: () => scope[Symbol.dispose](),
  };
}
