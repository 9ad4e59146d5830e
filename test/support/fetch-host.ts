// The host's side of the `fetch` capability, for a guest alone: answers from a table, and records the requests.
import type { CapabilityEnvelope } from "../../src/sandbox/protocol/guest-messages.ts";
import type { Answer } from "./guest.ts";

export interface FetchMessage {
  readonly op: "request" | "write" | "end" | "read" | "cancel";
  readonly id: number;
  readonly method?: string;
  readonly url?: string;
  readonly headers?: readonly (readonly [string, string])[];
  readonly body?: null | { readonly base64: string } | { readonly stream: true };
  readonly redirect?: string;
  readonly base64?: string;
}

export interface Reply {
  readonly status?: number;
  readonly statusText?: string;
  readonly headers?: readonly (readonly [string, string])[];
  readonly url?: string;
  readonly redirected?: boolean;
  /** Chunks of the body; none where it has none. */
  readonly body?: readonly (string | Uint8Array)[];
  /** After the chunks there is no end, but this. */
  readonly breaksWith?: Failure;
  /** After the chunks nothing comes. */
  readonly hangs?: boolean;
}
export interface Failure {
  readonly code: string;
  readonly message: string;
}

const base64 = (chunk: string | Uint8Array): string => Buffer.from(chunk as string).toString("base64");
const ok = (value: unknown): CapabilityEnvelope => ({ ok: true, value });

/** Replies to a request, by what it asks: undefined leaves it waiting. */
export type Route = (
  request: FetchMessage,
  sent: () => Promise<string>,
) => Reply | Failure | undefined | Promise<Reply | Failure | undefined>;

export class FetchHost {
  readonly messages: FetchMessage[] = [];
  readonly #route: Route;
  readonly #downloads = new Map<number, { chunks: (string | Uint8Array)[]; reply: Reply }>();
  readonly #uploads = new Map<number, { text: string; whole: PromiseWithResolvers<string> }>();

  constructor(route: Route) {
    this.#route = route;
  }

  readonly answer: Answer = async (input) => {
    const message = input as FetchMessage;
    this.messages.push(message);
    switch (message.op) {
      case "request":
        return await this.#request(message);
      case "write":
        return this.#write(message);
      case "end":
        this.#uploads.get(message.id)?.whole.resolve(this.#uploads.get(message.id)?.text ?? "");
        return ok(null);
      case "read":
        return this.#read(message);
      case "cancel":
        return ok(null);
    }
  };

  /** The requests in short form: `request`, `read` … */
  ops(): string[] {
    return this.messages.map(({ op }) => op);
  }

  async #request(message: FetchMessage): Promise<CapabilityEnvelope | undefined> {
    const upload = { text: "", whole: Promise.withResolvers<string>() };
    this.#uploads.set(message.id, upload);
    const { body } = message;
    if (body !== null && body !== undefined && "base64" in body) {
      upload.whole.resolve(Buffer.from(body.base64, "base64").toString());
    }
    const reply = await this.#route(message, () => upload.whole.promise);
    if (reply === undefined) return undefined;
    if ("code" in reply) return { ok: false, ...reply };
    const { status = 200, statusText = "OK", headers = [], url = message.url, redirected = false } = reply;
    this.#downloads.set(message.id, { chunks: [...(reply.body ?? [])], reply });
    return ok({ status, statusText, headers, url, redirected, hasBody: reply.body !== undefined });
  }

  #write({ id, base64: text = "" }: FetchMessage): CapabilityEnvelope {
    const upload = this.#uploads.get(id);
    if (upload === undefined) return { ok: false, code: "PARAM_INVALID", message: "There is no such exchange" };
    upload.text += Buffer.from(text, "base64").toString();
    return ok(null);
  }

  #read({ id }: FetchMessage): CapabilityEnvelope | undefined {
    const download = this.#downloads.get(id);
    const chunk = download?.chunks.shift();
    if (chunk !== undefined) return ok({ base64: base64(chunk) });
    if (download?.reply.hangs) return undefined;
    if (download?.reply.breaksWith !== undefined) return { ok: false, ...download.reply.breaksWith };
    return ok({ done: true });
  }
}
