// Says how the calls of a tenant are recorded: what the pages of replay and rehearsal show when there is no recording.
import type { JSX } from "preact";
import { useResource } from "../state/resource.ts";
import { urlOf } from "../state/router.ts";
import { can, client } from "../state/session.ts";
import { Copyable, Empty } from "./controls.tsx";

interface RecordingHelpProps {
  readonly tenantId: string;
  readonly tool: string;
  readonly title: string;
}

export function RecordingHelp({ tenantId, tool, title }: RecordingHelpProps): JSX.Element {
  const { value } = useResource(`recording policy ${tenantId}`, async (): Promise<string> => {
    if (!can("tenants:read")) return "unknown";
    const { policy } = await client.tenant(tenantId).get();
    return policy.recording === undefined ? "off" : "on";
  });
  const settings = <a href={urlOf(["t", tenantId, "settings"])}>policy of {tenantId}</a>;
  return (
    <Empty title={title}>
      <div class="stack">
        {value === "on" ? (
          <p>
            The {settings} records calls: its field recording says of which tools and at which rate. Calls from before
            that, calls in sessions and nested calls have no recording of their own.
          </p>
        ) : value === "off" ? (
          <p>No call of this tenant is recorded. Add this field to the {settings}, and call the tool again:</p>
        ) : (
          <p>The tenant's policy says which calls are recorded. This field of it records all calls of this tool:</p>
        )}
        {value === "on" ? null : <Copyable text={`"recording": { "tools": [${JSON.stringify(tool)}], "rate": 1 }`} />}
        <p class="faint">
          A recording has the input of a call and every answer that it received, so that the call can run again without
          its capabilities. It is deleted with its call.
        </p>
      </div>
    </Empty>
  );
}
