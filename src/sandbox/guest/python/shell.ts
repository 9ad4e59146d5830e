// Replacements for the globals by which Pyodide's loader recognizes a JavaScript shell and reads files in it. The build inserts them, so
// that the loader looks for neither a browser nor Node.
import { queueTask, readAsset } from "./prelude.ts";

/** Folder that is configured as the location of Pyodide's files. */
export const ASSET_FOLDER = "assets/";

function read(): never {
  throw new Error("The Python runtime cannot load scripts");
}

function readBuffer(path: string): ArrayBuffer {
  const name = path.slice(ASSET_FOLDER.length);
  const found = path.startsWith(ASSET_FOLDER) ? readAsset(name) : undefined;
  if (found === undefined) throw new Error(`There is no file ${name}`);
  return found;
}

/** Makes Emscripten use a worker's source of random bytes. In a shell it would run a command. */
class WorkerScope {}

/** Discards Pyodide's own messages, which do not belong in a tool's log. */
const silent = { log() {}, warn() {}, error() {}, info() {}, debug() {}, trace() {} };

let isWaiting = false;
const ports: { onmessage?: () => void }[] = [];

interface Timer {
  readonly run: () => void;
  readonly delayMs: number;
  readonly dueAt: number;
  id: number;
}
/** Timers that have not fired. */
const timers = new Map<number, Timer>();
let lastTimer = 0;

/** Read as members of globalThis, because the build replaces the bare names by the functions below. */
const { setTimeout: start, clearTimeout: stop } = globalThis as unknown as {
  setTimeout(run: () => void, delayMs: number): number;
  clearTimeout(id: number): void;
};

const remainingMs = ({ dueAt }: Timer): number => dueAt - Date.now();

/** Fires the timer that is due first. Any timer's ring may do it, so that timers fire in the order of their times after a delay. */
function ring(): void {
  let [first] = timers;
  for (const entry of timers) if (first === undefined || entry[1].dueAt < first[1].dueAt) first = entry;
  if (first === undefined) return;
  const [key, timer] = first;
  const waitMs = remainingMs(timer);
  // As in Node, a timer can ring a moment before its time. If it is more than that, the clock was set back.
  if (waitMs > 0 && waitMs <= timer.delayMs) {
    timer.id = start(ring, waitMs);
    return;
  }
  timers.delete(key);
  timer.run();
}

function arm(timer: Timer): void {
  timer.id = start(ring, Math.max(0, remainingMs(timer)));
}

/** Starts a timer of Python's event loop. The platform clears its own timers when a call ends. */
export function startTimer(run: () => void, delayMs = 0): number {
  lastTimer += 1;
  const timer = { run, delayMs, dueAt: Date.now() + delayMs, id: 0 };
  arm(timer);
  timers.set(lastTimer, timer);
  return lastTimer;
}

function stopTimer(key: number): void {
  stop(timers.get(key)?.id ?? 0);
  timers.delete(key);
}

/** Resumes the tasks and timers that were pending when the last call ended. */
export function wakeTasks(): void {
  isWaiting = false;
  for (const port of ports) schedule(port);
  for (const timer of timers.values()) arm(timer);
}

/** Counts how often pending callbacks were forgotten. */
let forgotten = 0;

/** Returns a callback that does nothing once it was forgotten: Pyodide keeps those that are to run soon in a list of its own. */
export function untilForgotten(run: () => void): () => void {
  const begun = forgotten;
  return () => {
    if (begun === forgotten) run();
  };
}

/** Forgets what is pending, when the platform has dropped its timers and tasks, so that nothing continues that was started before. */
export function forgetTasks(): void {
  forgotten += 1;
  isWaiting = false;
  timers.clear();
}

function schedule(port: { readonly onmessage?: () => void }): void {
  if (isWaiting) return;
  isWaiting = true;
  queueTask(() => {
    isWaiting = false;
    port.onmessage?.();
  });
}

/** Schedules a task for Pyodide's event loop. Any number of pending callbacks share one task. */
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
