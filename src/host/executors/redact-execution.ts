// Redacts the secrets that capabilities have registered during a call, in its output, attachments, content and error.
import { ToolError } from "../../sandbox/contract/errors.ts";
import { type AttachmentReader, type BinaryAttachments, redactAttachments } from "../contract/tool-value.ts";
import type { Redactor } from "../observability/redaction/call-redactor.ts";
import type { Execution } from "./execution.ts";

export async function redactExecution(execution: Execution, redactor: Redactor): Promise<Execution> {
  if (redactor.isEmpty) return execution;
  if ("error" in execution) return { ...execution, error: redactError(execution.error, redactor) };
  const { outputText, outputBytes, content } = execution;
  return {
    ...execution,
    outputText: await redactText(outputText, redactor),
    outputBytes: toRedactingReader(outputBytes, redactor),
    content:
      content === undefined
        ? undefined
        : { text: await redactText(content.text, redactor), bytes: toRedactingReader(content.bytes, redactor) },
  };
}

const redactText = (text: string | Buffer, redactor: Redactor): Promise<Buffer> =>
  redactor.bytes(typeof text === "string" ? Buffer.from(text) : text);

function toRedactingReader(read: AttachmentReader | undefined, redactor: Redactor): AttachmentReader | undefined {
  return read === undefined
    ? undefined
    : async (): Promise<BinaryAttachments> => redactAttachments(await read(), redactor);
}

function redactError(error: ToolError, redactor: Redactor): ToolError {
  const { code, message, details, guestStack, recoverable, cause } = error;
  const redacted = details === undefined ? undefined : redactor.json(details);
  return new ToolError(code, redactor.text(message), {
    recoverable,
    cause,
    ...(redacted === undefined ? {} : { details: typeof redacted === "object" ? redacted : { redacted } }),
    ...(guestStack === undefined ? {} : { guestStack: redactor.text(guestStack) }),
  });
}
