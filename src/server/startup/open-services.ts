// Third stage of a start: callers other than the API (runs, schedules, MCP, other replicas), and work in the background.
import type { ToolResult } from "../../host/index.ts";
import { startRetention } from "../calls/retention.ts";
import { type AllowedHosts, toAllowedHosts } from "../config/server-options.ts";
import { openTenantCodeMode, openTenantMcp } from "../mcp/mcp-endpoints.ts";
import { ReceivedRequests } from "../mcp/received-requests.ts";
import { PeerServer } from "../replicas/peers/peer-server.ts";
import { RunService } from "../runs/run-service.ts";
import { Scheduler } from "../schedules/scheduler.ts";
import { eraseFormerTenants } from "../tenants/erase-former-tenants.ts";
import { DeliveryQueue } from "../webhooks/delivery-queue.ts";
import type { CallParts } from "./open-calls.ts";
import type { Storage } from "./open-storage.ts";
import { logErrors, type Startup } from "./startup.ts";

export interface Services {
  readonly allowedHosts: AllowedHosts;
  readonly runs: RunService;
  readonly deliveries: DeliveryQueue;
  readonly scheduler: Scheduler;
  readonly mcp: ReturnType<typeof openTenantMcp>;
  readonly codeMode: ReturnType<typeof openTenantCodeMode>;
  readonly peerServer: PeerServer;
}

/** Opens the services. None of them begins with its work, except for retention. */
export async function openServices(
  { config, log, state, resources }: Startup,
  { database, bus, masterKey, quotas, kv, storedBytes }: Storage,
  { glovebox, authenticator, tools, calls, slots, callerLimits }: CallParts,
): Promise<Services> {
  const { db, kind, clock } = database;
  const onError = logErrors(log, "call");
  const runs = resources.use(
    new RunService({
      database,
      glovebox,
      tools,
      calls,
      slots,
      callerLimits,
      onError,
      executeCode: async (call, context): Promise<ToolResult> => await (await codeMode.open()).execute(call, context),
    }),
  );
  const former = { sweep: () => eraseFormerTenants(database, config) };
  await former.sweep();
  resources.use(startRetention(database, [quotas, kv, former, storedBytes], onError));
  const deliveries = resources.use(
    new DeliveryQueue({
      database,
      masterKey,
      addresses: config.webhookAddresses,
      onError: logErrors(log, "event"),
    }),
  );
  const scheduler = resources.use(
    new Scheduler({ db, calls, now: () => clock.now(), onError: logErrors(log, "schedule") }),
  );
  const allowedHosts = toAllowedHosts(config);
  const mcpDependencies = {
    glovebox,
    authenticator,
    tools,
    calls,
    runs,
    database,
    onError,
    allowedHosts,
    maxBodyBytes: config.maxBodyBytes,
    sessionPrefix: kind === "postgres" ? bus.replicaId : undefined,
  };
  const mcp = resources.use(openTenantMcp(mcpDependencies));
  const codeMode = resources.use(openTenantCodeMode(mcpDependencies));
  const received = new ReceivedRequests({ authenticator, endpoints: { mcp, "code-mode": codeMode }, onError });
  const peerServer = new PeerServer({
    masterKey,
    clock,
    replicaId: bus.replicaId,
    acceptsCalls: () => state.acceptsCalls,
    run: (call) => calls.runReceived(call),
    serve: (request) => received.serve(request),
  });
  return { allowedHosts, runs, deliveries, scheduler, mcp, codeMode, peerServer };
}
