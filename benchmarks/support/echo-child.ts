// A process that only sends back each message that it receives.
import { Socket } from "node:net";

const socket = new Socket({ fd: 3, readable: true, writable: true });
socket.on("data", (chunk: Buffer) => socket.write(chunk));
socket.on("close", () => process.exit());
