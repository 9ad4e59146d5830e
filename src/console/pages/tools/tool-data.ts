// The data of a tool that its tabs share.

import type { Release, ToolVersion, VersionStats } from "glovebox/client";
import { request } from "../../state/session.ts";

export interface ToolProps {
  readonly tenantId: string;
  readonly name: string;
}

export interface ToolData {
  readonly versions: readonly ToolVersion[];
  readonly releases: readonly Release[];
  readonly stats: readonly VersionStats[];
}

export interface ToolSourceFiles {
  readonly files: { readonly [path: string]: string };
  readonly entry: string;
  /** Set for a script in sloppy mode. */
  readonly mode?: "script";
}

export const pathOf = ({ tenantId, name }: ToolProps): string =>
  `/v1/tenants/${encodeURIComponent(tenantId)}/tools/${encodeURIComponent(name)}`;

export const loadSource = (tool: ToolProps, version: number): Promise<ToolSourceFiles> =>
  request<ToolSourceFiles>("GET", `${pathOf(tool)}/versions/${version}/source`);
