// node:stream/consumers: reads a whole stream into one value.
import { Buffer } from "./node-buffer.ts";

type Chunks = AsyncIterable<unknown> | Iterable<unknown>;

async function buffer(stream: Chunks): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of stream)
    chunks.push(typeof chunk === "string" ? Buffer.from(chunk) : Buffer.from(chunk as Uint8Array));
  return Buffer.concat(chunks);
}

async function text(stream: Chunks): Promise<string> {
  return (await buffer(stream)).toString("utf8").replace(/^\ufeff/, "");
}

export const consumers = {
  buffer,
  text,
  bytes: async (stream: Chunks): Promise<Uint8Array> => new Uint8Array(await buffer(stream)),
  arrayBuffer: async (stream: Chunks): Promise<ArrayBuffer> => new Uint8Array(await buffer(stream)).buffer,
  json: async (stream: Chunks): Promise<unknown> => JSON.parse(await text(stream)),
  blob: async (stream: Chunks): Promise<unknown> => {
    const { Blob } = globalThis as unknown as { readonly Blob: new (parts: unknown[]) => unknown };
    return new Blob([await buffer(stream)]);
  },
};
