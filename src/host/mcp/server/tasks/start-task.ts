// Starts the run of a call that becomes a task. As long as its client waits for the response, a question of the tool that has a `key` is sent to
// the client in the response; later ones are questions of the task.
import { type CallClient, canElicit } from "../../../contract/client-requests.ts";
import type { RunStarter } from "../../../runs/run-options.ts";

/** Longest time in ms for which the response waits, unless the client has questions to answer. */
const CREATE_MS = 2_000;
const STEP_MS = 20;

/** A call that has become a task. */
export interface CreatedTask {
  readonly taskId: string;
}

/**
 * Starts a run, and resolves when it waits or has ended, or when it takes long.
 * @param begin stores the run
 */
export async function startTask(
  client: CallClient,
  begin: (starter: RunStarter) => Promise<{ readonly id: string; readonly settled: Promise<unknown> }>,
): Promise<CreatedTask> {
  let isOpen = canElicit(client);
  let questions = 0;
  let quietSince = performance.now();
  const elicit: NonNullable<CallClient["elicit"]> = (request, options) => {
    const answer = isOpen ? client.elicit?.(request, options) : undefined;
    if (answer === undefined) return undefined;
    questions += 1;
    return answer.finally(() => {
      questions -= 1;
      quietSince = performance.now();
    });
  };
  const { id, settled } = await begin({ client: { elicit }, isOpen: () => isOpen });
  let isSettled = false;
  const end = (): void => {
    isSettled = true;
  };
  const watched = settled.then(end, end);
  while (!isSettled && (questions > 0 || performance.now() - quietSince < CREATE_MS)) {
    await Promise.race([watched, new Promise((resolve) => setTimeout(resolve, STEP_MS))]);
  }
  isOpen = false;
  return { taskId: id };
}
