// Shim for the package process in readable-stream.
export { process as default, process } from "../process/node-process.ts";
