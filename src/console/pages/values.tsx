// The values that the tools of a tenant keep between their calls.

import type { StoredValue } from "glovebox/client";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { toVisibleText } from "../../host/util/visible-text.ts";
import { Button, Empty, ErrorBox, Loading, Time } from "../parts/controls.tsx";
import { ConfirmButton, DialogButton } from "../parts/forms/dialog-form.tsx";
import { FilterField, TextField } from "../parts/forms/fields.tsx";
import { ListPage } from "../parts/frame/list-page.tsx";
import { JsonField } from "../parts/input-form/value-fields.tsx";
import { Table } from "../parts/table.tsx";
import { JsonView } from "../parts/values/json-view.tsx";
import { changedSince, existsAlready, isAnswer } from "../state/changes.ts";
import { collect } from "../state/collect.ts";
import { download } from "../state/download.ts";
import { firstCommand } from "../state/first-commands.ts";
import { formatBytes, formatNumber } from "../state/format.ts";
import type { FormProps, TenantProps } from "../state/props.ts";
import { useResource } from "../state/resource.ts";
import { address, setQuery } from "../state/router.ts";
import { can, client } from "../state/session.ts";

interface Space {
  readonly tool: string;
  readonly keys: number;
  readonly bytes: number;
}

const pathOf = (tenantId: string): string => `/v1/tenants/${encodeURIComponent(tenantId)}/kv`;

/** Tools that the page shows. */
const MAX_TOOLS = 1_000;
/** Values that are shown first, and each time that more are wanted. */
const PAGE = 200;

/** Characters of a value in bytes that are shown. */
const MAX_BASE64 = 200;
/** Returns the beginning of a value in bytes, and its size if that is not all of it. */
function toShownBytes(base64: string): string {
  if (base64.length <= MAX_BASE64) return base64;
  return `${base64.slice(0, MAX_BASE64)}… (${formatBytes(Math.floor((base64.length * 3) / 4))} in all)`;
}

export function ValuesPage({ tenantId }: TenantProps): JSX.Element {
  const tool = address.value.query.tool;
  const spaces = (
    <ListPage<Space>
      title="Stored values"
      id={`kv ${tenantId}`}
      load={() => collect(client.list<Space>(pathOf(tenantId), { limit: PAGE }), MAX_TOOLS)}
      keyOf={(space) => space.tool}
      columns={() => [
        {
          name: "Tool",
          cell: (space) => (
            <button type="button" class="link" onClick={() => setQuery({ tool: space.tool, prefix: undefined })}>
              {space.tool}
            </button>
          ),
        },
        { name: "Keys", isNumber: true, cell: ({ keys }) => keys },
        { name: "Size", isNumber: true, cell: ({ bytes }) => formatBytes(bytes) },
      ]}
      empty={
        <Empty title="No tool has stored a value" command={firstCommand(location.origin, tenantId, "values")}>
          A tool with the capability <code>kv</code> keeps values between its calls:{" "}
          <code>await ctx.kv.set("key", value)</code>.
        </Empty>
      }
    />
  );
  return (
    <>
      {spaces}
      {tool === undefined ? null : <ToolValues key={tool} tenantId={tenantId} tool={tool} />}
    </>
  );
}

interface ToolValuesProps extends TenantProps {
  readonly tool: string;
}

function ToolValues({ tenantId, tool }: ToolValuesProps): JSX.Element {
  const { prefix = "" } = address.value.query;
  const [limit, setLimit] = useState(PAGE);
  const { value, error, reload } = useResource(`kv ${tenantId} ${tool} ${prefix}`, () =>
    collect(
      client.list<StoredValue>(`${pathOf(tenantId)}/${encodeURIComponent(tool)}`, { prefix, limit: PAGE }),
      limit,
    ),
  );
  return (
    <section class="card stack">
      <div class="row spread">
        <h2>{tool}</h2>
        <div class="row">
          <Button
            onClick={() =>
              download(`${pathOf(tenantId)}/${encodeURIComponent(tool)}/export`, `${tenantId}-${tool}.ndjson`)
            }
          >
            Export
          </Button>
          {can("kv:write") ? (
            <DialogButton label="Add a value" title={`Add a value of ${tool}`} onDone={reload}>
              {(done) => <ValueForm tenantId={tenantId} tool={tool} onDone={done} />}
            </DialogButton>
          ) : null}
        </div>
      </div>
      <FilterField
        label="Beginning of the key"
        value={prefix}
        onFilter={(value) => {
          setLimit(PAGE);
          setQuery({ prefix: value });
        }}
      />
      {error === undefined ? null : <ErrorBox error={error} />}
      {value === undefined ? (
        error === undefined ? (
          <Loading />
        ) : null
      ) : (
        <ValueTable tenantId={tenantId} tool={tool} values={value} reload={reload} />
      )}
      {(value?.length ?? 0) < limit ? null : (
        <div class="row">
          <span role="status">
            These are the first {formatNumber(limit)} values. The beginning of a key finds others, and the export has
            all.
          </span>
          <Button
            onClick={() => {
              setLimit(limit + PAGE);
              reload();
            }}
          >
            Load more values
          </Button>
        </div>
      )}
    </section>
  );
}

interface ValueTableProps extends ToolValuesProps {
  readonly values: readonly StoredValue[];
  readonly reload: () => void;
}

function ValueTable({ tenantId, tool, values, reload }: ValueTableProps): JSX.Element {
  const tenant = client.tenant(tenantId);
  return (
    <Table<StoredValue>
      caption={`Values of ${tool}`}
      items={values}
      keyOf={({ key }) => key}
      empty={<p class="faint">There is no such key.</p>}
      columns={[
        { name: "Key", cell: ({ key }) => <code>{toVisibleText(key)}</code> },
        {
          name: "Value",
          cell: (entry) =>
            entry.base64 === null ? (
              <JsonView value={entry.value} label={entry.key} />
            ) : (
              <code>{toShownBytes(entry.base64)}</code>
            ),
        },
        { name: "Expires", cell: ({ expiresAt }) => <Time at={expiresAt} isAge /> },
        {
          name: "Actions",
          cell: (entry) =>
            can("kv:write") ? (
              <div class="row">
                {entry.base64 === null ? (
                  <DialogButton label="Edit" kind="plain" title="Edit this value" onDone={reload}>
                    {(done) => <ValueForm tenantId={tenantId} tool={tool} stored={entry} onDone={done} />}
                  </DialogButton>
                ) : null}
                <ConfirmButton
                  label="Delete"
                  title="Delete this value?"
                  action="Delete the value"
                  onConfirm={async () => {
                    await tenant.deleteValue(tool, entry.key);
                    reload();
                  }}
                >
                  The value of <code>{toVisibleText(entry.key)}</code> cannot be restored. Later calls of {tool} do not
                  find it.
                </ConfirmButton>
              </div>
            ) : null,
        },
      ]}
    />
  );
}

interface ValueFormProps extends FormProps {
  readonly tool: string;
  /** The value to edit; undefined for a new one. */
  readonly stored?: StoredValue;
}

function ValueForm({ tenantId, tool, stored, onDone }: ValueFormProps): JSX.Element {
  const [key, setKey] = useState(stored?.key ?? "");
  const [value, setValue] = useState<unknown>(stored?.value ?? null);
  const save = async (): Promise<void> => {
    try {
      await client.tenant(tenantId).setValue(tool, key, value, {
        ifVersion: stored?.version ?? null,
        expiresAt: stored?.expiresAt ?? undefined,
      });
    } catch (thrown) {
      if (!isAnswer(thrown, "CONFLICT")) throw thrown;
      throw stored === undefined ? existsAlready("value", "key", "edit") : changedSince("The value");
    }
    onDone();
  };
  return (
    <form class="stack" onSubmit={(event) => event.preventDefault()}>
      {stored === undefined ? (
        <TextField label="Key" value={key} onInput={setKey} isRequired />
      ) : (
        <p>
          <code>{toVisibleText(key)}</code>
        </p>
      )}
      <JsonField label="Value as JSON" value={value} onChange={setValue} />
      <Button kind="primary" type="submit" disabled={key === ""} onClick={save}>
        Save
      </Button>
    </form>
  );
}
