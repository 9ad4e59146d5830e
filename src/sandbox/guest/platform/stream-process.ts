// Shim for the package process in readable-stream.
export { process as default, process } from "./node-process.ts";
