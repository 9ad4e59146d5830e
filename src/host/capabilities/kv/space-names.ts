// Names of spaces in the embedded store, and the prefix that the names of one tenant share.

/** Returns the unique name of a space. JSON keeps names unique for any characters in the ids, including lone surrogates. */
export const spaceName = (tenantId: string, tool: string): string => JSON.stringify([tenantId, tool]);
/** Returns the prefix of all names of a tenant. No other tenant's names have it, since quotation marks in an id are escaped. */
export const tenantPrefix = (tenantId: string): string => `[${JSON.stringify(tenantId)},`;
export const toolOfSpace = (name: string): string => (JSON.parse(name) as [string, string])[1];
/** Returns the shortest string that sorts after all names with a prefix of {@link tenantPrefix}, which ends with a comma. */
export const afterPrefix = (prefix: string): string => `${prefix.slice(0, -1)}-`;
