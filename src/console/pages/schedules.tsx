// The schedules of a tenant, with their next runs in their own time zones.

import type { Schedule } from "glovebox/client";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Badge, Button, Empty, PauseButton, Time } from "../parts/controls.tsx";
import { ConfirmButton, DialogButton } from "../parts/forms/dialog-form.tsx";
import { SelectField, TextField } from "../parts/forms/fields.tsx";
import { ToolField } from "../parts/forms/tool-field.tsx";
import { ListPage } from "../parts/frame/list-page.tsx";
import { JsonField } from "../parts/input-form/value-fields.tsx";
import { unchanged } from "../state/changes.ts";
import { collect } from "../state/collect.ts";
import { firstCommand } from "../state/first-commands.ts";
import { formatInZone, formatUtc, locale } from "../state/format.ts";
import type { FormProps, TenantProps } from "../state/props.ts";
import { useResource } from "../state/resource.ts";
import { urlOf } from "../state/router.ts";
import { can, client, request } from "../state/session.ts";

/** A tenant can have as many. */
const MAX_SCHEDULES = 1_000;

export function SchedulesPage({ tenantId }: TenantProps): JSX.Element {
  const tenant = client.tenant(tenantId);
  return (
    <ListPage<Schedule>
      title="Schedules"
      id={`schedules ${tenantId}`}
      load={() => collect(tenant.schedules(), MAX_SCHEDULES)}
      textOf={({ name, tool }) => `${name} ${tool}`}
      keyOf={({ id }) => id}
      actions={(reload) =>
        can("schedules:write") ? (
          <DialogButton label="New schedule" title="New schedule" onDone={reload}>
            {(done) => <ScheduleForm tenantId={tenantId} onDone={done} />}
          </DialogButton>
        ) : null
      }
      columns={(reload) => [
        { name: "Name", cell: ({ name }) => <span class="phrase">{name}</span> },
        {
          name: "Tool",
          cell: ({ tool, alias }) => <a href={urlOf(["t", tenantId, "tools", tool])}>{`${tool}:${alias}`}</a>,
        },
        {
          name: "Cron",
          cell: ({ cron, timeZone }) => (
            <span class="phrase">
              <code>{cron}</code> {timeZone}
            </span>
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
          cell: (schedule) =>
            can("schedules:write") ? <Actions tenantId={tenantId} schedule={schedule} reload={reload} /> : null,
        },
      ]}
      empty={
        <Empty title="No schedules" command={firstCommand(location.origin, tenantId, "schedules")}>
          A schedule calls a tool at certain times, also after a restart of the server.
        </Empty>
      }
    />
  );
}

interface ActionsProps extends TenantProps {
  readonly schedule: Schedule;
  readonly reload: () => void;
}

function Actions({ tenantId, schedule, reload }: ActionsProps): JSX.Element {
  const tenant = client.tenant(tenantId);
  const { id, name, state } = schedule;
  return (
    <div class="row">
      <PauseButton
        state={state}
        onChange={async (next) => {
          await tenant.updateSchedule(id, { state: next });
          reload();
        }}
      />
      <DialogButton label="Edit" title={`Edit the schedule ${name}`} kind="plain" onDone={reload}>
        {(done) => <ScheduleForm tenantId={tenantId} schedule={schedule} onDone={done} />}
      </DialogButton>
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
  );
}

/** A time in a schedule's own zone, with the local time in its tooltip. */
function InZone({ at, timeZone }: { readonly at: number | null; readonly timeZone: string }): JSX.Element {
  if (at === null) return <span class="faint">none</span>;
  return (
    <time dateTime={new Date(at).toISOString()} title={`${new Date(at).toLocaleString(locale)} here, ${formatUtc(at)}`}>
      {formatInZone(at, timeZone)}
    </time>
  );
}

const OVERLAPS: { readonly [overlap in Schedule["overlap"]]: string } = {
  skip: "Skip a run while the one before has not ended",
  queue: "Start each run",
};
const CATCH_UPS: { readonly [catchUp in Schedule["catchUp"]]: string } = {
  none: "None",
  latest: "The latest one",
  all: "All of them, up to 100",
};

interface ScheduleFormProps extends FormProps {
  /** The schedule that is changed; undefined for a new one. */
  readonly schedule?: Schedule;
}

function ScheduleForm({ tenantId, schedule, onDone }: ScheduleFormProps): JSX.Element {
  const [name, setName] = useState(schedule?.name ?? "");
  const [tool, setTool] = useState(schedule?.tool ?? "");
  const [cron, setCron] = useState(schedule?.cron ?? "0 * * * *");
  const [timeZone, setTimeZone] = useState(
    schedule?.timeZone ?? Intl.DateTimeFormat(locale).resolvedOptions().timeZone,
  );
  const [input, setInput] = useState<unknown>(schedule?.input ?? {});
  const [alias, setAlias] = useState(schedule?.alias ?? "live");
  const [overlap, setOverlap] = useState<Schedule["overlap"]>(schedule?.overlap ?? "skip");
  const [catchUp, setCatchUp] = useState<Schedule["catchUp"]>(schedule?.catchUp ?? "latest");
  const [opened] = useState(schedule);
  const isOmitted = schedule?.omitted === true;
  const tenant = client.tenant(tenantId);
  const save = async (): Promise<void> => {
    const changes = { cron, timeZone, alias, overlap, catchUp, ...(isOmitted ? {} : { input }) };
    if (opened === undefined) await tenant.createSchedule({ name, tool, ...changes });
    else {
      const path = `/v1/tenants/${encodeURIComponent(tenantId)}/schedules/${opened.id}`;
      const condition = unchanged(
        `The schedule ${name}`,
        opened,
        await request<Schedule>("GET", path),
        Object.keys(changes) as (keyof Schedule)[],
      );
      await tenant.updateSchedule(opened.id, changes, condition);
    }
    onDone();
  };
  return (
    <form class="stack" onSubmit={(event) => event.preventDefault()}>
      {schedule === undefined ? (
        <>
          <TextField label="Name" value={name} onInput={setName} isRequired />
          <ToolField tenantId={tenantId} value={tool} onInput={setTool} />
        </>
      ) : null}
      <TextField label="Release" value={alias} onInput={setAlias} isRequired />
      <TextField
        label="Cron"
        value={cron}
        onInput={setCron}
        hint="Minute, hour, day of the month, month, day of the week"
        isRequired
      />
      <TextField label="Time zone" value={timeZone} onInput={setTimeZone} isRequired />
      <NextRuns cron={cron} timeZone={timeZone} />
      <SelectField
        label="When runs overlap"
        value={overlap}
        options={Object.entries(OVERLAPS)}
        onInput={(next) => setOverlap(next as Schedule["overlap"])}
      />
      <SelectField
        label="Missed runs that start when a server is back"
        value={catchUp}
        options={Object.entries(CATCH_UPS)}
        onInput={(next) => setCatchUp(next as Schedule["catchUp"])}
      />
      {isOmitted ? (
        <p class="faint">The input is too large to be edited here, and stays as it is.</p>
      ) : (
        <JsonField label="Input as JSON" value={input} onChange={setInput} />
      )}
      <Button kind="primary" type="submit" disabled={name === "" || tool === "" || alias === ""} onClick={save}>
        {schedule === undefined ? "Create" : "Save"}
      </Button>
    </form>
  );
}

const SHOWN_RUNS = 5;

/** The next runs of a pattern in its time zone, as the server computes them. */
function NextRuns({ cron, timeZone }: Pick<Schedule, "cron" | "timeZone">): JSX.Element {
  const { value, error } = useResource(`runs ${cron} ${timeZone}`, async () => {
    const { Cron } = await import("croner");
    // croner takes the browser's zone instead, which the server does not.
    if (timeZone === "") return [];
    try {
      return new Cron(cron, { timezone: timeZone, paused: true, mode: "5-or-6-parts" }).nextRuns(SHOWN_RUNS);
    } catch {
      // The server says what is wrong when the schedule is stored.
      return [];
    }
  });
  return (
    <div>
      <strong>Next runs</strong>
      {value === undefined || value.length === 0 ? (
        <p class="faint">
          {error !== undefined
            ? "They could not be computed here. Reload the page to try again"
            : value === undefined
              ? "…"
              : "None with this pattern and time zone"}
        </p>
      ) : (
        <ol aria-label="Next runs">
          {value.map((at) => (
            <li key={at.getTime()}>
              <InZone at={at.getTime()} timeZone={timeZone} />
            </li>
          ))}
        </ol>
      )}
    </div>
  );
}
