// Sends the messages of calls to their control planes: in order for each call, and numbered. Large ones are offered as
// objects, one of a call at a time.
import type { FleetConnection } from "../../host/fleet/nats-connection.ts";
import { describeObject } from "../../host/fleet/objects/object-offers.ts";
import { OrderedTasks } from "../../host/fleet/ordered-tasks.ts";
import { carriedBytes, MAX_DIRECT_BYTES } from "../../host/fleet/protocol/message-fields.ts";
import { encodeFrame } from "../../host/fleet/protocol/wire.ts";
import { BROKEN_REPORT, type CallReport, type HostedCall } from "./hosted-call.ts";

export interface CallOutboxDependencies {
  readonly connection: Pick<FleetConnection, "maxPayload">;
  readonly publish: (control: string, bytes: Uint8Array) => void;
  /** Called with the token of a call of which a message could not be sent. */
  readonly onBroken: (token: string, error: unknown) => void;
}

export class CallSender {
  readonly #dependencies: CallOutboxDependencies;
  readonly #tasks: OrderedTasks;

  constructor(dependencies: CallOutboxDependencies) {
    this.#dependencies = dependencies;
    this.#tasks = new OrderedTasks(dependencies.onBroken);
  }

  /** Sends a message of a call after its earlier ones. */
  send(call: HostedCall, report: CallReport, parts: readonly (string | Uint8Array)[]): void {
    this.#tasks.run(call.token, () => this.#send(call, report, parts));
  }

  /** Calls back when the earlier messages of a call are sent. */
  afterwards(call: HostedCall, then: () => void): void {
    this.#tasks.run(call.token, () => {
      then();
      return undefined;
    });
  }

  #send(call: HostedCall, report: CallReport, parts: readonly (string | Uint8Array)[]): Promise<void> | undefined {
    const { control, token } = call;
    const { connection, publish } = this.#dependencies;
    if (call.isBroken) return undefined;
    const bytes = encodeFrame({ ...report, token, n: call.sent + 1 }, parts);
    if (bytes.byteLength <= carriedBytes(connection.maxPayload, MAX_DIRECT_BYTES)) {
      call.sent += 1;
      publish(control, bytes);
      return undefined;
    }
    const ref = describeObject(bytes);
    const taken = call.offers.add(ref, () => bytes);
    call.sent += 1;
    publish(control, encodeFrame({ type: "object", token, n: call.sent, ...ref }));
    // The next message waits until the control plane has this one, so that a call keeps one of them in memory.
    return taken;
  }

  /** Ends a call of which a message could not be read or sent. */
  break(call: HostedCall): void {
    if (call.isBroken) return;
    call.isBroken = true;
    call.sent += 1;
    this.#dependencies.publish(call.control, encodeFrame({ ...BROKEN_REPORT, token: call.token, n: call.sent }));
    call.cancel();
  }
}
