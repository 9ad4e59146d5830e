// python_exec: what a model computes with. Its code comes with each call, so there is nothing to bundle and nothing to learn.
import type { CapabilityRequests, ToolDefinition } from "../../sandbox/contract/definition.ts";

const MAX_CODE_CHARACTERS = 200_000;

export const PYTHON_EXEC = "python_exec";

const DESCRIPTION =
  "Runs Python and returns the value of its last expression, or of main(input) where the code defines main, as JSON. " +
  "Use it to compute: arithmetic, dates, text, sorting, statistics, parsing. `input` holds the given JSON; await works " +
  "at the top level; the standard library is there; what is printed is in the log. There is no network, no file of " +
  "yours, no pip; names are kept for the next call only where the host keeps a session.";

const PURE: ToolDefinition = {
  name: PYTHON_EXEC,
  description: DESCRIPTION,
  inputSchema: {
    type: "object",
    properties: {
      code: {
        type: "string",
        minLength: 1,
        maxLength: MAX_CODE_CHARACTERS,
        description: "The snippet, e.g. `import statistics; statistics.median(input['xs'])`",
      },
      input: { description: "JSON that the snippet finds as `input`, and main is given; left out, main is given None" },
    },
    required: ["code"],
    additionalProperties: false,
  },
  annotations: { title: "Run Python", readOnlyHint: true, idempotentHint: true, openWorldHint: false },
};

/** @param capabilities what it is granted: with any it may reach out, and do so again when it is called again */
export function pythonExecDefinition(capabilities: CapabilityRequests = {}): ToolDefinition {
  const names = Object.keys(capabilities);
  if (names.length === 0) return PURE;
  const description = `${DESCRIPTION.replace("no network,", "no network but by what follows,")} To be awaited: ${names.join(", ")}.`;
  return { ...PURE, description, capabilities, annotations: { title: "Run Python" } };
}
