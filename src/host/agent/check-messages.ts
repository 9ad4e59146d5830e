// Checks conversations that a caller passes, as far as agents read them: a promise or another object in place of a message would end a run
// halfway, or count as a message without calls.
import * as z from "zod";
import { ToolError } from "../../sandbox/contract/errors.ts";
import { describeKind } from "../../sandbox/contract/plain-object.ts";
import { parseOptions } from "../config/option-errors.ts";
import type { Message } from "./model.ts";

const text = z.string();
const PartSchema = z.looseObject({ type: text });
const AssistantPartSchema = z.discriminatedUnion("type", [
  z.looseObject({ type: z.literal("text"), text }),
  z.looseObject({ type: z.literal("tool-call"), call: z.looseObject({ id: text, toolName: text }) }),
  z.looseObject({ type: z.literal("provider"), provider: text }),
]);
const MessageSchema = z.discriminatedUnion(
  "role",
  [
    z.looseObject({ role: z.literal("system"), content: text }),
    z.looseObject({ role: z.literal("user"), content: z.union([text, z.array(PartSchema)]) }),
    z.looseObject({ role: z.literal("assistant"), content: z.array(AssistantPartSchema) }),
    z.looseObject({
      role: z.literal("tool"),
      callId: text,
      toolName: text,
      result: z.looseObject({ success: z.boolean() }),
    }),
  ],
  { error: "Expected a message with a role: system, user, assistant or tool" },
);
const MessagesSchema = z.array(MessageSchema);

/**
 * Returns the messages unchanged if each has the fields of its role.
 * @param where names the value in errors
 * @throws {ToolError} PARAM_INVALID, naming the path of the first invalid message
 */
export function parseMessages(messages: unknown, where: string): readonly Message[] {
  if (!Array.isArray(messages)) {
    throw new ToolError("PARAM_INVALID", `${where}: Expected an array of messages, got ${describeKind(messages)}`);
  }
  parseOptions(MessagesSchema, messages, where);
  return messages as readonly Message[];
}
