// JSON-RPC with Content-Length headers over the pipes of a child process. The child is not trusted: what it sends is bounded and checked.
import * as z from "zod";
import { ToolError } from "../../../sandbox/contract/errors.ts";

const HEADER_END = Buffer.from("\r\n\r\n");
const MAX_HEADER_BYTES = 1_024;
/** Longest message of the compiler. Diagnostics of one file have a few kilobytes. */
const MAX_MESSAGE_BYTES = 8 * 1024 * 1024;

const IdSchema = z.union([z.number(), z.string()]);
const MessageSchema = z.union([
  z.looseObject({ id: IdSchema, method: z.string(), params: z.unknown() }),
  z.looseObject({ id: IdSchema, error: z.looseObject({ message: z.string() }) }),
  z.looseObject({ id: IdSchema, result: z.unknown() }),
  z.looseObject({ method: z.string() }),
]);
type Message = z.infer<typeof MessageSchema>;

const failed = (message: string): ToolError => new ToolError("INTERNAL", `The type checker sent ${message}`);

/** Splits a stream of bytes into messages. @throws {ToolError} INTERNAL for bytes that are not a message */
class MessageReader {
  #bytes: Buffer = Buffer.alloc(0);

  *read(chunk: Buffer): Generator<Message> {
    this.#bytes = Buffer.concat([this.#bytes, chunk]);
    for (;;) {
      const end = this.#bytes.indexOf(HEADER_END);
      if (end < 0 && this.#bytes.length > MAX_HEADER_BYTES) throw failed("a header that is too long");
      if (end < 0) return;
      const length = Number(
        /content-length: *(\d{1,9})/i.exec(this.#bytes.toString("latin1", 0, end))?.[1] ?? Number.NaN,
      );
      if (!(length <= MAX_MESSAGE_BYTES)) throw failed("a message that is too long, or has no length");
      const from = end + HEADER_END.length;
      if (this.#bytes.length < from + length) return;
      const text = this.#bytes.toString("utf8", from, from + length);
      this.#bytes = this.#bytes.subarray(from + length);
      yield parseMessage(text);
    }
  }
}

function parseMessage(text: string): Message {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw failed("invalid JSON");
  }
  const parsed = MessageSchema.safeParse(value);
  if (!parsed.success) throw failed("an invalid message");
  return parsed.data;
}

interface Pending {
  readonly resolve: (result: unknown) => void;
  readonly reject: (error: unknown) => void;
}

/** A connection to one child process. */
export class RpcConnection {
  readonly #write: (bytes: string) => void;
  readonly #answer: (method: string, params: unknown) => unknown;
  readonly #pending = new Map<number, Pending>();
  readonly #reader = new MessageReader();
  #next = 1;
  #ended: unknown;

  /** @param answer answers the child's own requests, synchronously */
  constructor(write: (bytes: string) => void, answer: (method: string, params: unknown) => unknown) {
    this.#write = write;
    this.#answer = answer;
  }

  /** Takes bytes of the child. @throws {ToolError} INTERNAL, after which the child must be killed */
  receive(chunk: Buffer): void {
    for (const message of this.#reader.read(chunk)) this.#handle(message);
  }

  #handle(message: Message): void {
    if ("method" in message) {
      const { id, method, params } = message as {
        readonly id?: unknown;
        readonly method: string;
        readonly params?: unknown;
      };
      if (id !== undefined) this.#send({ id, result: this.#answer(method, params) ?? null });
      return;
    }
    const { id } = message;
    const pending = this.#pending.get(Number(id));
    this.#pending.delete(Number(id));
    if ("error" in message) {
      pending?.reject(
        new ToolError("INTERNAL", "The type checker failed", { cause: (message.error as Error).message }),
      );
    } else pending?.resolve(message.result);
  }

  #send(message: object): void {
    const text = JSON.stringify({ jsonrpc: "2.0", ...message });
    this.#write(`Content-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`);
  }

  /** Sends a request and returns the child's answer, unchecked. Rejects when the connection ends. */
  request(method: string, params: unknown): Promise<unknown> {
    if (this.#ended !== undefined) return Promise.reject(this.#ended);
    const id = this.#next;
    this.#next += 1;
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    this.#pending.set(id, { resolve, reject });
    this.#send({ id, method, params });
    return promise;
  }

  /** Rejects all pending and later requests. */
  end(reason: unknown): void {
    this.#ended ??= reason;
    for (const { reject } of this.#pending.values()) reject(this.#ended);
    this.#pending.clear();
  }
}
