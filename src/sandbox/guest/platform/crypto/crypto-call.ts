// Calls the functions of the worker for node:crypto: copies bytes and turns failures into Node's errors.
import type { Failure } from "../../../protocol/crypto-messages.ts";
import { requestFromWorker } from "../../host.ts";
import { runJob } from "./crypto.ts";
import { copyBytes } from "./crypto-bytes.ts";

/** Creates the error that Node's own function throws, which is not a DOMException. */
export function toNodeError({ name, message, code }: Failure): Error {
  let error: Error;
  if (name === "TypeError") error = new TypeError(message);
  else if (name === "RangeError") error = new RangeError(message);
  else error = new Error(message);
  return code === undefined ? error : Object.assign(error, { code });
}

type Reply = { readonly ok: true; readonly value: unknown } | Failure;

function request(method: string, args: readonly unknown[], bytes: readonly Uint8Array[]): unknown {
  const [first, second, third] = bytes.map((source) => copyBytes(source as Uint8Array<ArrayBuffer>));
  return requestFromWorker("crypto", JSON.stringify({ method, args }), first, second, third);
}

function read(response: unknown): unknown {
  if (typeof response !== "string") throw new Error("The sandbox's cryptography did not respond");
  const reply = JSON.parse(response) as Reply;
  if (reply.ok) return reply.value;
  throw toNodeError(reply);
}

export function callWorker(method: string, args: readonly unknown[], bytes: readonly Uint8Array[]): unknown {
  return read(request(method, args, bytes));
}

export function callWorkerForBytes(
  method: string,
  args: readonly unknown[],
  bytes: readonly Uint8Array[],
): Uint8Array<ArrayBuffer> {
  const response = request(method, args, bytes);
  return response instanceof ArrayBuffer ? new Uint8Array(response) : (read(response) as never);
}

export async function deriveInWorker(
  method: string,
  args: readonly unknown[],
  bytes: readonly Uint8Array[],
): Promise<Uint8Array> {
  const buffers = bytes.map((source) => copyBytes(source as Uint8Array<ArrayBuffer>));
  try {
    const result = await runJob({ text: JSON.stringify({ method, args }), buffers });
    return new Uint8Array(result.buffers[0] as ArrayBuffer);
  } catch (thrown) {
    const { name, message, code } = thrown as Failure;
    throw toNodeError({ ok: false, name, message, ...(typeof code === "string" ? { code } : {}) });
  }
}
