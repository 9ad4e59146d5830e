// Properties that pages share, and the path of the API that follows from them.

export interface TenantProps {
  readonly tenantId: string;
}

/** Properties of a form in a dialog. */
export interface FormProps extends TenantProps {
  /** Called when the form has succeeded. */
  readonly onDone: () => void;
}

/** The owner, a tenant or the platform, whose keys or audit log a page shows. */
export interface OwnerProps {
  /** Undefined for the platform. */
  readonly tenantId: string | undefined;
}

/** Returns the path of the API below which the owner's resources are. */
export const prefixOf = ({ tenantId }: OwnerProps): string =>
  tenantId === undefined ? "/v1" : `/v1/tenants/${encodeURIComponent(tenantId)}`;
