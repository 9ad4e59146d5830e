// The rule for a tool's name. Every part that accepts a name checks it by this rule: definitions, registries, options, flags and protocols.
import * as z from "zod";

/** Tool names that MCP allows (spec 2025-11-25, tools, "Tool Names"). */
export const TOOL_NAME_PATTERN = /^[A-Za-z0-9_.-]{1,128}$/;
export const TOOL_NAME_RULE = "1 to 128 of A-Z a-z 0-9 _ - .";

export const ToolNameSchema: z.ZodString = z.string().regex(TOOL_NAME_PATTERN, `Expected ${TOOL_NAME_RULE}`);
