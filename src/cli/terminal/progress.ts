// Shows what a command waits for while it takes long, on stderr and in a terminal only.
import type { CliOutput } from "./output.ts";

/** Time in ms after which a command says what it waits for, and between two updates. */
const SHOW_AFTER_MS = 500;
const UPDATE_MS = 1_000;

/**
 * Runs a part of a command. In a terminal, one line says what it does and for how long; the line disappears when the part has ended.
 * @param text such as `Building the tool`
 */
export async function withProgress<Result>(
  text: string,
  output: CliOutput,
  run: () => Promise<Result>,
): Promise<Result> {
  if (!output.isTerminal) return await run();
  const startedAt = performance.now();
  let isShown = false;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const show = (): void => {
    isShown = true;
    output.showStatus(`${text} (${Math.round((performance.now() - startedAt) / 1_000)} s)`);
    timer = setTimeout(show, UPDATE_MS);
  };
  timer = setTimeout(show, SHOW_AFTER_MS);
  try {
    return await run();
  } finally {
    clearTimeout(timer);
    if (isShown) output.showStatus("");
  }
}
