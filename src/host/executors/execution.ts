// Defines the outcome of an execution, which executors return.
import type { ToolError } from "../../sandbox/contract/errors.ts";
import type { ToolUsage } from "../contract/tool-call.ts";
import type { AttachmentReader } from "../contract/tool-value.ts";
import type { CpuAccount } from "../util/time-slicing.ts";

/** Usage of an execution. */
interface Used {
  readonly usage: ToolUsage;
  /** Whether the quotas have been charged for the usage already, with another call. */
  readonly isCharged?: boolean;
}

/** The outcome of an execution: an output or an error. `outputText` is JSON text that has not been validated. */
export type Execution =
  | (Used & {
      readonly outputText: string | Buffer;
      /** Reader of the binary attachments of the output. */
      readonly outputBytes?: AttachmentReader | undefined;
      /** Total size of the attachments of output and content, in bytes. */
      readonly attachmentBytes?: number | undefined;
      /** Content of the result, as unvalidated JSON text. */
      readonly content?: { readonly text: string | Buffer; readonly bytes?: AttachmentReader | undefined } | undefined;
      /** Whether the chunks were the output. `outputText` is then `null`, and no schema applies. */
      readonly isStreamed?: boolean;
      /** CPU account that is charged for parsing a large output on the host. */
      readonly cpuAccount?: CpuAccount;
    })
  | (Used & {
      readonly error: ToolError;
      /** Whether the source failed, and not its tool: it was unreachable, did not answer in time, or crashed. */
      readonly isSourceFailure?: boolean;
    });
