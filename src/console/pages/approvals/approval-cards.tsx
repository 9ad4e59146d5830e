// Cards of the approvals page: a call with its exact arguments, a version with its requests, and the outcome of a call after a decision.

import type { Approval, Call, CallApproval } from "glovebox/client";
import type { ComponentChildren, JSX } from "preact";
import { useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { toVisibleText } from "../../../host/util/visible-text.ts";
import { Badge, Button, Facts, Loading, Time } from "../../parts/controls.tsx";
import { ErrorView, type StoredError } from "../../parts/error-view.tsx";
import { DecisionForm } from "../../parts/forms/decision-form.tsx";
import { VersionDecision } from "../../parts/forms/version-decision.tsx";
import { JsonView } from "../../parts/values/json-view.tsx";
import { Who } from "../../parts/who.tsx";
import { describeEffects } from "../../state/effects.ts";
import type { TenantProps } from "../../state/props.ts";
import { useResource } from "../../state/resource.ts";
import { urlOf } from "../../state/router.ts";
import { can, client, request } from "../../state/session.ts";

const ORIGINS: { readonly [origin: string]: string } = {
  api: "a program, over the API",
  mcp: "a model, over MCP",
  nested: "another tool",
  schedule: "a schedule",
  trigger: "a trigger",
};
const REASONS: { readonly [because: string]: string } = {
  destructive: "the tool says that it is destructive",
  policy: "the tenant's policy names this tool",
};
const FOLLOW_MS = 500;

interface CardProps<One> extends TenantProps {
  readonly approval: One;
  readonly onDecided: (approval: One) => void;
}

const versionPath = (tenantId: string, tool: string, version: number): string =>
  `/v1/tenants/${encodeURIComponent(tenantId)}/tools/${encodeURIComponent(tool)}/versions/${version}`;

const callLink = (tenantId: string, id: string): JSX.Element => <a href={urlOf(["t", tenantId, "calls", id])}>{id}</a>;

/** What someone wants to do, with the exact arguments. */
export function CallCard({ tenantId, approval, onDecided }: CardProps<CallApproval>): JSX.Element {
  const { id, tool, version } = approval;
  const headingId = useId();
  const tenant = client.tenant(tenantId);
  const decide = async (isApproved: boolean, reason: string | undefined): Promise<void> => {
    onDecided(await (isApproved ? tenant.approveCall(id, reason) : tenant.denyCall(id, reason)));
  };
  return (
    <article class="card approval" aria-labelledby={headingId}>
      <h2 id={headingId}>
        Call <a href={urlOf(["t", tenantId, "tools", tool])}>{tool}</a> <small class="faint">v{version}</small>
      </h2>
      <Effects tenantId={tenantId} tool={tool} version={version} />
      <Arguments tenantId={tenantId} approval={approval} />
      <CallFacts tenantId={tenantId} approval={approval} />
      {can("calls:approve") ? (
        <DecisionForm hint="The caller sees why a call was denied; the audit log keeps it." onDecide={decide}>
          <span class="faint">An approved call runs once, with exactly these arguments.</span>
        </DecisionForm>
      ) : (
        <p class="faint">A key with the scope calls:approve can decide.</p>
      )}
    </article>
  );
}

function CallFacts({ tenantId, approval }: TenantProps & { readonly approval: CallApproval }): JSX.Element {
  const { callId, parentId, because, origin, requestedBy, sessionId, createdAt, expiresAt } = approval;
  const facts: (readonly [string, ComponentChildren])[] = [
    [
      "Requested by",
      <span key="by">
        {ORIGINS[origin] ?? origin}: <Who id={requestedBy} tenantId={tenantId} hasId />
      </span>,
    ],
    ["Waits because", REASONS[because] ?? because],
    ["Since", <Time key="since" at={createdAt} isAge />],
    ["Expires", <Time key="expires" at={expiresAt} isAge />],
    ["Call", callLink(tenantId, callId)],
  ];
  if (sessionId !== null) facts.push(["Session", sessionId]);
  if (parentId !== null) facts.push(["Made by", callLink(tenantId, parentId)]);
  return <Facts facts={facts} />;
}

interface EffectsProps extends TenantProps {
  readonly tool: string;
  readonly version: number;
}

/** What the version says about itself, and what it can reach. */
function Effects({ tenantId, tool, version }: EffectsProps): JSX.Element | null {
  const { value } = useResource(`effects ${tenantId} ${tool} ${version}`, async (signal) => {
    if (!can("tools:read")) return undefined;
    const found = await request<{ readonly definition: Parameters<typeof describeEffects>[0] }>(
      ...(["GET", versionPath(tenantId, tool, version), { signal }] as const),
    );
    return found.definition;
  });
  if (value === undefined) return null;
  return (
    <div>
      {typeof value.description === "string" ? <p>{toVisibleText(value.description)}</p> : null}
      <ul class="chips" aria-label="Possible effects">
        {describeEffects(value).map(({ text, isRisk }) => (
          <li key={text} class={isRisk ? "chip bad-text" : "chip"}>
            {text}
          </li>
        ))}
      </ul>
    </div>
  );
}

/** The arguments; large ones are loaded on request. */
function Arguments({ tenantId, approval }: TenantProps & { readonly approval: CallApproval }): JSX.Element {
  const [whole, setWhole] = useState<CallApproval>();
  const shown = whole ?? approval;
  if (!shown.omitted) return <JsonView value={shown.input} label="Arguments" />;
  return (
    <p class="row">
      The arguments are large.{" "}
      <Button onClick={async () => setWhole(await client.tenant(tenantId).callApproval(approval.id))}>Show them</Button>
    </p>
  );
}

/** Outcome of a call that was decided on this page; polled until it ends. */
export function Outcome({ tenantId, approval }: TenantProps & { readonly approval: CallApproval }): JSX.Element {
  const { tool, callId, state, reason } = approval;
  const heading = useRef<HTMLHeadingElement>(null);
  // The card with the button is gone: keyboard users continue here.
  useLayoutEffect(() => heading.current?.focus(), []);
  const [isOver, setOver] = useState(false);
  const { value, error } = useResource(
    `outcome ${callId}`,
    async (): Promise<Call> => {
      const call = await client.tenant(tenantId).getCall(callId);
      setOver(call.endedAt !== null);
      return call;
    },
    isOver ? undefined : FOLLOW_MS,
  );
  return (
    <section class="card approval" aria-label={`Decision about ${tool}`}>
      <div class="row">
        <h2 ref={heading} tabIndex={-1}>
          {state === "approved" ? "Approved" : "Denied"}: {tool}
        </h2>
        <span role="status">{value === undefined ? null : <Badge>{value.state}</Badge>}</span>
        <a href={urlOf(["t", tenantId, "calls", callId])}>Timeline and details</a>
      </div>
      {reason === null ? null : <p class="faint">Reason: {reason}</p>}
      {value === undefined ? (
        error === undefined ? (
          <Loading />
        ) : null
      ) : value.error !== null ? (
        <ErrorView error={value.error as StoredError} files={undefined} />
      ) : value.endedAt !== null ? (
        <JsonView value={value.output} label="Output" />
      ) : null}
    </section>
  );
}

export function VersionCard({ tenantId, approval, onDecided }: CardProps<Approval>): JSX.Element {
  const { tool, version, requests, createdAt, createdBy } = approval;
  const headingId = useId();
  return (
    <article class="card approval" aria-labelledby={headingId}>
      <h2 id={headingId}>
        Version <a href={urlOf(["t", tenantId, "tools", tool], { tab: "versions" })}>{`${tool} v${version}`}</a>{" "}
        requests more than the live one
      </h2>
      <ul class="plain-list">
        {requests.added.map((one) => (
          <li key={one}>
            <code>+ {one}</code>
          </li>
        ))}
        {requests.removed.map((one) => (
          <li key={one}>
            <code class="faint">− {one}</code>
          </li>
        ))}
      </ul>
      <Facts
        facts={[
          ["Uploaded", <Time key="at" at={createdAt} isAge />],
          ["By", <Who key="by" id={createdBy} tenantId={tenantId} hasId />],
        ]}
      />
      {can("tools:approve") ? (
        <div class="row">
          <VersionDecision path={versionPath(tenantId, tool, version)} onDecided={() => onDecided(approval)} />
          <span class="faint">An approved version can be released.</span>
        </div>
      ) : (
        <p class="faint">A key with the scope tools:approve can decide.</p>
      )}
    </article>
  );
}
