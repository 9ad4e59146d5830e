// The capability waitFor: a durable run waits for an event, a person or a time, and takes no process meanwhile.
import * as z from "zod";
import { ToolError } from "../../sandbox/contract/errors.ts";
import { type Capability, defineCapability } from "../capabilities/capability.ts";

/** Denies `ctx.waitFor` in a call that is not durable. In a run, the run answers it. */
export const createWaitForCapability = (): Capability =>
  defineCapability({
    name: "waitFor",
    description: "Lets a durable run wait for an event, an approval or a time",
    inputSchema: z.unknown(),
    outputSchema: z.unknown(),
    handler: () => {
      throw new ToolError(
        "CAPABILITY_DENIED",
        "Only a durable run has waitFor and onRollback: start the tool with runs.start(), glovebox runs start, or the runs of the HTTP API",
      );
    },
  });
