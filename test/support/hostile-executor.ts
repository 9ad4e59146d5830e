// A hostile executor: it has valid credentials and speaks the protocol, but lies.
import { randomBytes } from "node:crypto";
import type { FleetConnection } from "../../src/host/fleet/nats-connection.ts";
import { natsOf } from "../../src/host/fleet/nats-library.ts";
import type { PartRequest } from "../../src/host/fleet/protocol/control-messages.ts";
import { type ControlMessage, ControlMessageSchema } from "../../src/host/fleet/protocol/control-messages.ts";
import type { Announcement } from "../../src/host/fleet/protocol/executor-messages.ts";
import { aliveSubject, controlSubject, executorSubject } from "../../src/host/fleet/protocol/subjects.ts";
import { decodeFrame, encodeFrame, FLEET_PROTOCOL_VERSION } from "../../src/host/fleet/protocol/wire.ts";

export type Run = Extract<ControlMessage, { readonly type: "run" }>;
type Answer = Extract<ControlMessage, { readonly type: "answer" }>;

const USAGE = { cpuMs: 1, heapBytes: 1, startMs: 1, executeMs: 1, logsDropped: 0 };
/** The end of a call with its output. */
export const ENDED = { type: "ended", seq: 1, outcome: "output", phase: "execute", usage: USAGE, released: true };

/** An executor that announces itself and takes calls, and then does what a test tells it. */
export class HostileExecutor {
  readonly id: string;
  readonly pool: string;
  readonly connection: FleetConnection;
  readonly key: string = randomBytes(16).toString("base64url");
  readonly runs: Run[] = [];
  /** Names of the sessions that it was told to end. */
  readonly endedSessions: string[] = [];
  /** Python runtimes that it was requested to prepare. */
  readonly runtimes = new Set<string>();
  readonly answers: { readonly message: Answer; readonly envelope: unknown }[] = [];
  /** Parts of objects that it has received, by name; undefined for those that it must not read. */
  readonly parts: { readonly name: string; readonly bytes: Buffer | undefined }[] = [];
  /** Returns the part that it answers a request with, if it answers. Default: it has no object. */
  offer: (request: PartRequest) => Uint8Array | undefined | "silence" = () => undefined;
  /** The part of its announcements with its languages, as JSON text. */
  languages: string | undefined;
  /** What its announcements say in addition. */
  claims: object = {};
  /** Announcements that it has published. */
  announcements = 0;
  /** Subjects to which it must not publish, as NATS has said. */
  readonly denied: string[] = [];
  readonly #timer: NodeJS.Timeout;

  constructor(id: string, connection: FleetConnection) {
    this.id = id;
    this.pool = connection.executor?.pool ?? "";
    this.connection = connection;
    connection.subscribe(executorSubject(id), ({ data }) => {
      const { message, parts } = decodeFrame(data);
      const parsed = ControlMessageSchema.parse(message);
      if (parsed.type === "run") this.runs.push(parsed);
      if (parsed.type === "end-session") this.endedSessions.push(parsed.session);
      if (parsed.type === "prepare-python") this.runtimes.add(parsed.runtime);
      if (parsed.type === "answer")
        this.answers.push({ message: parsed, envelope: JSON.parse(parts[0]?.toString() ?? "null") });
      if (parsed.type === "part") this.parts.push({ name: parsed.name, bytes: parts[0] });
      if (parsed.type === "fetch") this.#answer(parsed);
    });
    void this.#followDenied();
    this.#announce();
    this.#timer = setInterval(() => this.#announce(), 250);
  }

  #answer(request: PartRequest): void {
    const run = this.runs.find(({ token }) => token === request.token);
    const part = this.offer(request);
    const { name, from } = request;
    if (run !== undefined && part !== "silence")
      this.send(run, { type: "part", name, from }, part === undefined ? [] : [part]);
  }

  async #followDenied(): Promise<void> {
    for await (const status of natsOf(this.connection).status()) {
      const { subject, operation } = (status.type === "error" ? status.error : {}) as { [name: string]: unknown };
      if (operation === "publish" && typeof subject === "string") this.denied.push(subject);
    }
  }

  #announce(): void {
    const announcement: Announcement = {
      type: "alive",
      protocol: FLEET_PROTOCOL_VERSION,
      key: this.key,
      version: "0",
      since: 0,
      slots: 10,
      busy: 0,
      isDraining: false,
      ...this.claims,
    };
    const parts = this.languages === undefined ? [] : [this.languages];
    this.connection.publish(aliveSubject({ id: this.id, pool: this.pool }), encodeFrame(announcement, parts));
    this.announcements += 1;
  }

  /** Sends a message about a call to the control plane of the call. */
  send(
    { control, token }: Run,
    message: object,
    parts: readonly (string | Uint8Array)[] = [],
    as: string = this.id,
  ): void {
    this.connection.publish(controlSubject(control, as), encodeFrame({ token, ...message }, parts));
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.connection[Symbol.asyncDispose]();
  }
}

/** A message of a worker process, as the message number `n` of a call. */
export const event = (n: number, message: object): object => ({ type: "event", n, message });
