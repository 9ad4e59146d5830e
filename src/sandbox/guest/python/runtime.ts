// The Python runtime: the bundle that every Python tool runs on. Its top level loads the interpreter, and each call runs one PythonRun.
import { PYTHON_OUT_OF_MEMORY } from "../../protocol/guest-messages.ts";
import { type Bridge, createBridge } from "./bridge.ts";
import { toCrash } from "./crash.ts";
import { loadInterpreter } from "./interpreter.ts";
import { serialize } from "./prelude.ts";
import type { PythonRun, SnapshotRequest } from "./python-run.ts";
import { forgetTasks, wakeTasks } from "./shell.ts";
import { streams } from "./streams.ts";

const interpreter = await loadInterpreter();

/** Set when the interpreter has crashed. Later runs fail with it. */
let crash: Error | undefined;

export default async function execute(order: PythonRun | SnapshotRequest, ctx: object): Promise<unknown> {
  if ("snapshot" in order) return interpreter.takeSnapshot();
  const { input, memoryMiB, ...run } = order;
  interpreter.allow(memoryMiB);
  const hasInput = input !== undefined;
  const { text, bytes } = serialize(input);
  const bridge = createBridge(ctx, { limitStack: interpreter.limitStack, undo });
  wakeTasks();
  await useInterpreter(() =>
    interpreter.harness.run.callPromising(
      JSON.stringify({ ...run, hasInput, memoryMiB, granted: bridge.granted }),
      text,
      bytes?.header,
      bytes?.data,
      bridge,
    ),
  );
  try {
    return bridge.result();
  } catch (error) {
    if (isOutOfMemory(error)) Object.assign(error, { code: PYTHON_OUT_OF_MEMORY });
    throw error;
  }
}

/** Runs a function of the harness until it ends or the interpreter crashes. After a crash, every further use fails with it. */
async function useInterpreter<Value>(start: () => Promise<Value>): Promise<Value> {
  try {
    if (crash !== undefined) throw crash;
    return await Promise.race([start(), interpreter.crashed]);
  } catch (error) {
    // The harness reports Python's own errors, so this one is a crash of the interpreter.
    crash ??= toCrash(error, streams.stdout.takeDump());
    throw crash;
  } finally {
    streams.stdout.end();
    streams.stderr.end();
  }
}

/** Runs a function of `ctx.onRollback`, when the run's own code has ended or waits for ever. Returns its failure as JSON text. */
const undo = (run: unknown, bridge: Bridge): Promise<string | undefined> =>
  useInterpreter(() => {
    forgetTasks();
    return interpreter.harness.undo.callPromising(run, bridge);
  });

/** Tells whether an error is an uncaught MemoryError after a failed allocation. */
const isOutOfMemory = (error: unknown): error is Error =>
  interpreter.hasExceededLimit() && error instanceof Error && error.name === "MemoryError";
