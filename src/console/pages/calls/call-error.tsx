// How a call failed: its error, and the lines of the author's source.

import type { Call } from "glovebox/client";
import type { JSX } from "preact";
import { ErrorView, type SourceFiles, type StoredError } from "../../parts/error-view.tsx";
import { useResource } from "../../state/resource.ts";
import { can, request } from "../../state/session.ts";

interface CallErrorProps {
  readonly tenantId: string;
  readonly call: Call;
}

/** The error of a call, with the source of the version that ran. */
export function CallError({ tenantId, call }: CallErrorProps): JSX.Element {
  const { tool, version } = call;
  const error = call.error as StoredError;
  const hasPlace = typeof error.details?.file === "string" && version !== null && can("tools:read");
  const { value } = useResource(`source ${tenantId} ${tool} ${version} ${hasPlace}`, async (signal) => {
    if (!hasPlace) return undefined;
    const path = `/v1/tenants/${encodeURIComponent(tenantId)}/tools/${encodeURIComponent(tool)}/versions/${version}/source`;
    return await request<{ readonly files: SourceFiles; readonly originals?: SourceFiles }>("GET", path, { signal });
  });
  return <ErrorView error={error} files={value?.originals ?? value?.files} />;
}
