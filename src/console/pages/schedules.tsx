// The schedules of a tenant, with their next runs in their own time zones.

import type { Schedule } from "glovebox/client";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Badge, Button, Empty, SelectField, TextField, Time } from "../parts/controls.tsx";
import { ConfirmButton, DialogButton } from "../parts/dialog-form.tsx";
import { ListPage } from "../parts/list-page.tsx";
import { JsonField } from "../parts/schema-form.tsx";
import { collect } from "../state/collect.ts";
import { locale } from "../state/format.ts";
import type { FormProps, TenantProps } from "../state/props.ts";
import { useResource } from "../state/resource.ts";
import { urlOf } from "../state/router.ts";
import { can, client } from "../state/session.ts";

export function Schedules({ tenantId }: TenantProps): JSX.Element {
  const tenant = client.tenant(tenantId);
  return (
    <ListPage<Schedule>
      title="Schedules"
      id={`schedules ${tenantId}`}
      load={() => collect(tenant.schedules())}
      keyOf={({ id }) => id}
      actions={(reload) =>
        can("schedules:write") ? (
          <DialogButton label="New schedule" title="New schedule">
            {(close) => (
              <ScheduleForm
                tenantId={tenantId}
                onDone={() => {
                  reload();
                  close();
                }}
              />
            )}
          </DialogButton>
        ) : null
      }
      columns={(reload) => [
        { name: "Name", cell: ({ name }) => name },
        {
          name: "Tool",
          cell: ({ tool, alias }) => <a href={urlOf(["t", tenantId, "tools", tool])}>{`${tool}:${alias}`}</a>,
        },
        {
          name: "Cron",
          cell: ({ cron, timeZone }) => (
            <>
              <code>{cron}</code> {timeZone}
            </>
          ),
        },
        { name: "State", cell: ({ state }) => <Badge>{state}</Badge> },
        { name: "Next run", cell: ({ nextAt, timeZone }) => <InZone at={nextAt} timeZone={timeZone} /> },
        {
          name: "Last call",
          cell: ({ lastCallId, lastAt }) =>
            lastCallId === null ? (
              "–"
            ) : (
              <a href={urlOf(["t", tenantId, "calls", lastCallId])}>
                <Time at={lastAt} isAge />
              </a>
            ),
        },
        { name: "Skipped", isNumber: true, cell: ({ skipped }) => skipped },
        {
          name: "Actions",
          cell: ({ id, name, state }) =>
            can("schedules:write") ? (
              <div class="row">
                <Button
                  onClick={async () => {
                    await tenant.updateSchedule(id, { state: state === "active" ? "paused" : "active" });
                    reload();
                  }}
                >
                  {state === "active" ? "Pause" : "Resume"}
                </Button>
                <ConfirmButton
                  label="Delete"
                  title={`Delete the schedule ${name}?`}
                  action="Delete the schedule"
                  onConfirm={async () => {
                    await tenant.deleteSchedule(id);
                    reload();
                  }}
                >
                  Its calls stay in the list.
                </ConfirmButton>
              </div>
            ) : null,
        },
      ]}
      empty={
        <Empty title="No schedules">
          A schedule calls a tool at certain times, also after a restart of the server.
        </Empty>
      }
    />
  );
}

/** A time in a schedule's own zone, with the local time in its tooltip. */
function InZone({ at, timeZone }: { readonly at: number | null; readonly timeZone: string }): JSX.Element {
  if (at === null) return <span class="faint">none</span>;
  const text = new Intl.DateTimeFormat(locale, { dateStyle: "medium", timeStyle: "short", timeZone }).format(at);
  return (
    <time dateTime={new Date(at).toISOString()} title={`${new Date(at).toLocaleString(locale)} here`}>
      {text}
    </time>
  );
}

function ScheduleForm({ tenantId, onDone }: FormProps): JSX.Element {
  const [name, setName] = useState("");
  const [tool, setTool] = useState("");
  const [cron, setCron] = useState("0 * * * *");
  const [timeZone, setTimeZone] = useState(Intl.DateTimeFormat(locale).resolvedOptions().timeZone);
  const [input, setInput] = useState<unknown>({});
  const tools = useResource(`tools ${tenantId}`, () => collect(client.tenant(tenantId).tools()));
  const save = async (): Promise<void> => {
    await client.tenant(tenantId).createSchedule({ name, tool, cron, timeZone, input });
    onDone();
  };
  return (
    <form class="stack" onSubmit={(event) => event.preventDefault()}>
      <TextField label="Name" value={name} onInput={setName} isRequired />
      <SelectField
        label="Tool"
        value={tool}
        onInput={setTool}
        options={[["", "Choose a tool"], ...(tools.value ?? []).map((one) => [one.name, one.name] as const)]}
      />
      <TextField
        label="Cron"
        value={cron}
        onInput={setCron}
        hint="Minute, hour, day of the month, month, day of the week"
        isRequired
      />
      <TextField label="Time zone" value={timeZone} onInput={setTimeZone} isRequired />
      <JsonField label="Input as JSON" value={input} onChange={setInput} />
      <Button kind="primary" type="submit" disabled={name === "" || tool === ""} onClick={save}>
        Create
      </Button>
    </form>
  );
}
