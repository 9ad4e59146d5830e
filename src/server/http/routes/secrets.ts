// Routes of a tenant's secrets. Their names and hosts can be read; their values can only be set.
import { appendAudit } from "../../records/audit/audit.ts";
import { deleteSecret, listSecrets, storeSecret } from "../../records/tenants/secrets.ts";
import { checkPolicy } from "../../records/tenants/tenant-policy.ts";
import { touchTenant } from "../../records/tenants/tenants.ts";
import { changeExclusively } from "../../records/write-lock.ts";
import type { App, ServerDependencies } from "../context.ts";
import { RequestError } from "../request-error.ts";
import { respondWithJson } from "../responses.ts";
import { addRoute, json } from "../route.ts";
import { OkSchema, pageOf } from "../schemas/common.ts";
import { NewSecretSchema, SecretNameSchema, SecretSchema } from "../schemas/operation.ts";
import { TenantParamsSchema } from "./tenants.ts";

const SecretParamsSchema = TenantParamsSchema.extend({ secret: SecretNameSchema });

export function addSecretRoutes(app: App, dependencies: ServerDependencies): void {
  const { database, masterKey, authenticator, glovebox, tenantChanges } = dependencies;
  const changed = (tenantId: string): void => {
    authenticator.clear();
    glovebox.invalidateTenant(tenantId);
  };

  addRoute(
    app,
    dependencies,
    "GET /v1/tenants/{tenant}/secrets",
    {
      summary: "Lists the secrets of a tenant, without their values",
      params: TenantParamsSchema,
      responses: { 200: json(pageOf(SecretSchema), "The secrets") },
    },
    async (c, _input) => respondWithJson(c, { items: await listSecrets(database.db, c.get("tenant").id), next: null }),
  );
  addRoute(
    app,
    dependencies,
    "PUT /v1/tenants/{tenant}/secrets/{secret}",
    {
      summary: "Sets a secret",
      description:
        "A tool that is granted the secret sends it only to these hosts, and never sees the value. Calls that begin later use the new value.",
      params: SecretParamsSchema,
      body: NewSecretSchema,
      responses: { 200: json(SecretSchema, "The secret, without its value") },
    },
    async (c, { params, body }) => {
      const { id, policy } = c.get("tenant");
      const { secret: name } = params;
      checkPolicy(policy, { [name]: body });
      const changedBy = c.get("principal").keyId;
      const stored = await changeExclusively(database, async (transaction) => {
        const info = await storeSecret(transaction, masterKey, id, { ...body, name, changedBy });
        await touchTenant(transaction, id);
        await tenantChanges.announce(id, transaction);
        const { hosts } = info;
        await appendAudit(transaction, {
          actor: c.get("actor"),
          tenantId: id,
          action: "secret.set",
          target: name,
          details: { hosts },
        });
        return info;
      });
      changed(id);
      return respondWithJson(c, stored);
    },
  );
  addRoute(
    app,
    dependencies,
    "DELETE /v1/tenants/{tenant}/secrets/{secret}",
    {
      summary: "Deletes a secret",
      params: SecretParamsSchema,
      responses: { 200: json(OkSchema, "Deleted") },
    },
    async (c, { params }) => {
      const { id } = c.get("tenant");
      const isDeleted = await changeExclusively(database, async (transaction) => {
        const deleted = await deleteSecret(transaction, id, params.secret);
        if (!deleted) return false;
        await touchTenant(transaction, id);
        await tenantChanges.announce(id, transaction);
        await appendAudit(transaction, {
          actor: c.get("actor"),
          tenantId: id,
          action: "secret.deleted",
          target: params.secret,
          details: {},
        });
        return true;
      });
      changed(id);
      if (!isDeleted) throw new RequestError("NOT_FOUND", "There is no such secret");
      return respondWithJson(c, { ok: true });
    },
  );
}
