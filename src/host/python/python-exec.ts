// The tool python_exec, with which a model runs Python. Its code arrives with each call, so there is no bundle and no
// definition to extract.
import type { CapabilityRequests } from "../../sandbox/contract/capability-requests.ts";
import type { ToolDefinition } from "../../sandbox/contract/definition.ts";

const MAX_CODE_CHARACTERS = 200_000;

export const PYTHON_EXEC = "python_exec";

const DESCRIPTION =
  "Runs Python and returns the value of its last expression, or of main(input) if the code defines main, as JSON. " +
  "Use it to compute: arithmetic, dates, text, sorting, statistics, parsing. `input` is the given JSON value; await " +
  "works at the top level; the standard library is available; printed text goes to the log. There is no network, no " +
  "access to files, and no pip; names are kept for the next call only if the host keeps a session.";

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
      input: { description: "JSON value that the snippet reads as `input`, and the argument of main; None if omitted" },
    },
    required: ["code"],
    additionalProperties: false,
  },
  annotations: { title: "Run Python", readOnlyHint: true, idempotentHint: true, openWorldHint: false },
};

/**
 * Returns the definition of python_exec.
 * @param capabilities capabilities that it is granted; with any, the tool loses its read-only and idempotent hints
 */
export function pythonExecDefinition(capabilities: CapabilityRequests = {}): ToolDefinition {
  const names = Object.keys(capabilities);
  if (names.length === 0) return PURE;
  const description = `${DESCRIPTION.replace("no network,", "no network except through the capabilities below,")} Capabilities, to be awaited: ${names.join(", ")}.`;
  return { ...PURE, description, capabilities, annotations: { title: "Run Python" } };
}
