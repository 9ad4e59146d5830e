// Names of spaces in the embedded store, and what those of one tenant have in common.

/** No two spaces have one name, whatever characters a tenant's has, lone surrogates included. */
export const spaceName = (tenantId: string, tool: string): string => JSON.stringify([tenantId, tool]);
/** What the names of all spaces of a tenant begin with, and no other's: a quotation mark in an id is escaped. */
export const tenantPrefix = (tenantId: string): string => `[${JSON.stringify(tenantId)},`;
export const toolOfSpace = (name: string): string => (JSON.parse(name) as [string, string])[1];
/** The shortest text that comes after all that begin with a prefix of {@link tenantPrefix}, which ends with a comma. */
export const afterPrefix = (prefix: string): string => `${prefix.slice(0, -1)}-`;
