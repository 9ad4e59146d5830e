// Owners of worker processes. No process ever serves two owners; a suffix after a space distinguishes the processes of one tenant.

/** Owner of processes that run the calls of all tenants. */
export const SHARED_OWNER = "shared";

/** Returns the owner of processes that run the calls of one tenant only. */
export const ownerOfTenant = (tenantId: string): string =>
  // Quoted, so that a suffix appended to it cannot produce the key of another tenant.
  `tenant:${JSON.stringify(tenantId)}`;

/** Returns the tenant that an owner belongs to, whatever its suffix; undefined if it does not belong to one tenant. */
export function tenantOfOwner(owner: string): string | undefined {
  const quoted = /^tenant:("(?:[^"\\]|\\.)*")(?: |$)/.exec(owner)?.[1];
  return quoted === undefined ? undefined : (JSON.parse(quoted) as string);
}
