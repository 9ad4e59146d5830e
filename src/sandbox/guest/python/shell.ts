// The globals by which Pyodide's loader takes its surroundings for a JavaScript shell, and reads its files there. The build puts these in
// their place, so that it looks for neither a browser nor Node.
import { queueTask, readAsset } from "./prelude.ts";

/** Pyodide is told that its files lie in a folder of this name. */
export const ASSET_FOLDER = "assets/";

function read(): never {
  throw new Error("There are no scripts to load");
}

function readBuffer(path: string): ArrayBuffer {
  const name = path.slice(ASSET_FOLDER.length);
  const found = path.startsWith(ASSET_FOLDER) ? readAsset(name) : undefined;
  if (found === undefined) throw new Error(`There is no file ${name}`);
  return found;
}

/** Emscripten's half asks a worker's platform for random bytes; a shell it would ask for a command line. */
class WorkerScope {}

/** What Pyodide says of itself is nothing for a tool's log. */
const silent = { log() {}, warn() {}, error() {}, info() {}, debug() {}, trace() {} };

let isWaiting = false;
const ports: { onmessage?: () => void }[] = [];

interface Timer {
  readonly run: () => void;
  readonly dueAt: number;
  id: number;
}
/** Those that have not rung. */
const timers = new Map<number, Timer>();
let lastTimer = 0;

/** As members: by their bare names the build gives the event loop those below. */
const { setTimeout: start, clearTimeout: stop } = globalThis as unknown as {
  setTimeout(run: () => void, delayMs: number): number;
  clearTimeout(id: number): void;
};

function arm(key: number, timer: Timer): void {
  const ring = (): void => {
    timers.delete(key);
    timer.run();
  };
  timer.id = start(ring, Math.max(0, timer.dueAt - Date.now()));
}

/** The event loop's timers: the platform forgets its own when a call ends. */
function startTimer(run: () => void, delayMs = 0): number {
  lastTimer += 1;
  const timer = { run, dueAt: Date.now() + delayMs, id: 0 };
  arm(lastTimer, timer);
  timers.set(lastTimer, timer);
  return lastTimer;
}

function stopTimer(key: number): void {
  stop(timers.get(key)?.id ?? 0);
  timers.delete(key);
}

/** What was waiting when a call ended waits for the next one. */
export function wakeTasks(): void {
  isWaiting = false;
  for (const port of ports) schedule(port);
  for (const [key, timer] of timers) arm(key, timer);
}

function schedule(port: { readonly onmessage?: () => void }): void {
  if (isWaiting) return;
  isWaiting = true;
  queueTask(() => {
    isWaiting = false;
    port.onmessage?.();
  });
}

/** How Pyodide's event loop asks for a turn of its own: however many callbacks wait, they ask for one. */
class TaskChannel {
  readonly port1: { onmessage?: () => void } = {};
  readonly port2 = { postMessage: (): void => schedule(this.port1) };

  constructor() {
    ports.push(this.port1);
  }
}

export {
  read as __read,
  readBuffer as __readBuffer,
  silent as __console,
  startTimer as __setTimeout,
  stopTimer as __clearTimeout,
  TaskChannel as __TaskChannel,
  WorkerScope as __WorkerScope,
};
