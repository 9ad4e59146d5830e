// A fake worker process in place of the real one, as if a guest had compromised it. It can send any message of the protocol.
// For the tenant "good" it behaves; for "evil" it calls the attack, which a test appends to this text.
import { Socket } from "node:net";

export const socket = new Socket({ fd: 3, readable: true, writable: true });
export const USAGE = { cpuMs: 1, heapBytes: 1, startMs: 1, executeMs: 1, logsDropped: 0 };

/** Builds one frame: lengths, then the parts. */
export function frame(message, ...parts) {
  const text = typeof message === "string" ? message : JSON.stringify(message);
  const buffers = [text, ...parts].map((part) => Buffer.from(part));
  const head = Buffer.alloc(8 + buffers.length * 4);
  for (const [index, buffer] of buffers.entries()) head.writeUInt32LE(buffer.length, 8 + index * 4);
  head.writeUInt32LE(head.length - 4 + buffers.reduce((sum, buffer) => sum + buffer.length, 0), 0);
  head.writeUInt32LE(buffers.length, 4);
  return Buffer.concat([head, ...buffers]);
}
export const send = (message, ...parts) => socket.write(frame(message, ...parts));
export const ended = (seq, outcome, text) =>
  send({ type: "ended", seq, outcome, phase: "execute", usage: USAGE, released: false }, text);

/** The messages that a correct worker sends for one call. */
export function behave({ seq }) {
  send({ type: "preparing", seq });
  send({ type: "started", seq });
  send({ type: "ended", seq, outcome: "output", phase: "execute", usage: USAGE, released: true }, '"served"');
}

/** Sends repeatedly, as fast as the host reads. */
export function flood(make) {
  const more = () => {
    while (socket.write(make()));
    socket.once("drain", more);
  };
  more();
}

let bytes = Buffer.alloc(0);
export function serve(attack, { ready = true } = {}) {
  socket.on("data", (chunk) => {
    bytes = Buffer.concat([bytes, chunk]);
    while (bytes.length >= 4 && bytes.length >= bytes.readUInt32LE(0) + 4) {
      const end = bytes.readUInt32LE(0) + 4;
      const start = 8 + bytes.readUInt32LE(4) * 4;
      const message = JSON.parse(bytes.toString("utf8", start, start + bytes.readUInt32LE(8)));
      bytes = bytes.subarray(end);
      if (message.type === "init" && ready) send({ type: "ready", protocolVersion: message.protocolVersion });
      else if (message.type === "call") (message.tenantId === "evil" ? attack : behave)(message);
    }
  });
  socket.on("end", () => process.exit());
}
