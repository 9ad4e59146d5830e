// Small parts that all pages use: buttons, badges, messages, tabs and times.

import { ApiError } from "glovebox/client";
import type { ComponentChildren, JSX, TargetedKeyboardEvent, TargetedMouseEvent } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { serverNow } from "../state/clock.ts";
import { formatAge, formatTime, formatUtc, isDateTime } from "../state/format.ts";

type ButtonProps = Omit<JSX.IntrinsicElements["button"], "onClick"> & {
  readonly kind?: "primary" | "plain" | "danger" | "quiet";
  /**
   * While its promise is pending, the button is disabled. An error appears next to the button. A primary button does nothing while a field of
   * its form has an error.
   */
  readonly onClick?: () => unknown;
};

export function Button({ kind = "plain", onClick, disabled, children, ...rest }: ButtonProps): JSX.Element {
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const run = async (button: HTMLButtonElement): Promise<void> => {
    // A field with an error keeps its last valid value, which must not be sent instead of what is shown.
    if (kind === "primary" && !reportInvalid(button.closest("form, [data-form]"))) return;
    setBusy(true);
    setError(undefined);
    try {
      await onClick?.();
    } catch (thrown) {
      setError(thrown);
    } finally {
      setBusy(false);
    }
  };
  return (
    <>
      <button
        type="button"
        class={`button ${kind}`}
        disabled={disabled === true || isBusy}
        aria-busy={isBusy}
        {...(onClick === undefined
          ? {}
          : { onClick: (event: TargetedMouseEvent<HTMLButtonElement>) => void run(event.currentTarget) })}
        {...rest}
      >
        {children}
      </button>
      {error === undefined ? null : <ErrorBox error={error} />}
    </>
  );
}

/** Moves the focus to the first field that is invalid, and says why. Returns whether there is none. */
function reportInvalid(form: Element | null): boolean {
  return form?.querySelector<HTMLInputElement>('[aria-invalid="true"]')?.reportValidity() ?? true;
}

/** Says what went wrong, and what to do. */
export function ErrorBox({ error, onRetry }: { readonly error: unknown; readonly onRetry?: () => void }): JSX.Element {
  const isApi = error instanceof ApiError;
  const message = error instanceof Error ? error.message : String(error);
  const hint = isApi ? hintFor(error) : undefined;
  return (
    <div class="error-box" role="alert">
      <strong>{isApi ? error.code : "Error"}</strong> <span>{message}</span>
      {hint === undefined ? null : <p>{hint}</p>}
      {isApi && error.requestId !== undefined ? <p class="faint">Request ID: {error.requestId}</p> : null}
      {onRetry === undefined ? null : (
        <p>
          <button type="button" class="button plain" onClick={onRetry}>
            Try again
          </button>
        </p>
      )}
    </div>
  );
}

/** Says what to do about an error. Most messages of limits and of what is forbidden say it themselves. */
function hintFor({ status, code, details }: ApiError): string | undefined {
  const { scope, reason } = (details ?? {}) as { readonly scope?: unknown; readonly reason?: unknown };
  if (code === "NETWORK" || status === 0) return "Check that the server runs and that this machine reaches it.";
  if (code === "FORBIDDEN" && scope !== undefined) return "It needs a key that has this scope.";
  if (code === "CAPABILITY_DENIED") return "The tenant's policy must allow it.";
  if (status === 404) return "It may have been deleted, or it belongs to another tenant.";
  if (code === "RATE_LIMITED" || reason === "rate_limited") return "Wait a moment, and try again.";
  return undefined;
}

/** Replaces an empty list: says what would be here, and shows the command that creates it. */
export function Empty({
  title,
  command,
  children,
}: {
  readonly title: string;
  readonly command?: string;
  readonly children?: ComponentChildren;
}): JSX.Element {
  return (
    <div class="empty">
      <h2>{title}</h2>
      {children === undefined ? null : <div>{children}</div>}
      {command === undefined ? null : <Copyable text={command} />}
    </div>
  );
}

/** Replaces what a key without a scope cannot see or do. */
export const MissingScope = ({ scope }: { readonly scope: string }): JSX.Element => (
  <p class="faint">Your key does not have the scope {scope}.</p>
);

export const Loading = (): JSX.Element => (
  <div class="loading" role="status">
    Loading…
  </div>
);

/** A command or value with a button that copies it. */
export function Copyable({ text, label = "Copy" }: { readonly text: string; readonly label?: string }): JSX.Element {
  return (
    <div class="copyable">
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a long line scrolls by keyboard */}
      <code tabIndex={0}>{text}</code>
      <CopyButton text={text} label={label} />
    </div>
  );
}

interface PauseButtonProps {
  readonly state: string;
  readonly onChange: (next: "active" | "paused") => Promise<void>;
}

/** Pauses what is active, and makes active what is not. */
export function PauseButton({ state, onChange }: PauseButtonProps): JSX.Element {
  const isActive = state === "active";
  return <Button onClick={() => onChange(isActive ? "paused" : "active")}>{isActive ? "Pause" : "Resume"}</Button>;
}

/** Copies text. Frames and pages without TLS have no clipboard, but may copy what is selected. Returns false if nothing was copied. */
async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    area.className = "hidden";
    document.body.append(area);
    area.select();
    const isCopied = document.execCommand("copy");
    area.remove();
    return isCopied;
  }
}

const COPY_NOTE_MS = 1_500;
const COPY_NOTES = { copied: "Copied", failed: "The browser does not allow it" } as const;

export function CopyButton({ text, label }: { readonly text: string; readonly label: string }): JSX.Element {
  const [note, setNote] = useState<keyof typeof COPY_NOTES>();
  const copy = async (): Promise<void> => {
    setNote((await copyText(text)) ? "copied" : "failed");
    setTimeout(() => setNote(undefined), COPY_NOTE_MS);
  };
  return (
    <button type="button" class="button quiet" onClick={() => void copy()}>
      {note === undefined ? label : COPY_NOTES[note]}
    </button>
  );
}

const TONES: { readonly [state: string]: string } = {
  succeeded: "good",
  approved: "good",
  ready: "good",
  active: "good",
  delivered: "good",
  ok: "good",
  live: "good",
  failed: "bad",
  denied: "bad",
  disabled: "bad",
  deleting: "bad",
  revoked: "bad",
  running: "info",
  queued: "info",
  sending: "info",
  waiting: "info",
  starting: "info",
  cancelled: "muted",
  suspended: "warn",
  paused: "warn",
  waiting_for_approval: "warn",
  expired: "warn",
};

export function Badge({ children, tone }: { readonly children: string; readonly tone?: string }): JSX.Element {
  return <span class={`badge ${tone ?? TONES[children] ?? "muted"}`}>{children.replaceAll("_", " ")}</span>;
}

interface TimeProps {
  readonly at: number | null;
  readonly isAge?: boolean;
  /** Time from which an age is counted. Default: the server's */
  readonly now?: number;
}

/** A local time, with UTC in its tooltip. */
export function Time({ at, isAge = false, now = serverNow() }: TimeProps): JSX.Element {
  if (at === null) return <span class="faint">never</span>;
  if (!isDateTime(at)) return <span>{String(at)}</span>;
  return (
    <time dateTime={new Date(at).toISOString()} title={formatUtc(at)}>
      {isAge ? formatAge(at, now) : formatTime(at)}
    </time>
  );
}

interface TabsProps {
  readonly label: string;
  readonly tabs: readonly (readonly [id: string, text: string])[];
  readonly selected: string;
  readonly onSelect: (id: string) => void;
}

/** Returns the tab that a URL names, or the first one if it names none of them. */
export const chosenTab = (tabs: TabsProps["tabs"], wanted: string | undefined): string =>
  tabs.find(([id]) => id === wanted)?.[0] ?? tabs[0]?.[0] ?? "";

export function Tabs({ label, tabs, selected, onSelect }: TabsProps): JSX.Element {
  const ref = useRef<HTMLDivElement>(null);
  // On a narrow screen, a link may open a tab that is out of view.
  useLayoutEffect(() => {
    const list = ref.current;
    const tab = list?.querySelector<HTMLElement>("[aria-selected=true]");
    if (list === null || tab === null || tab === undefined) return;
    const start = tab.offsetLeft - list.offsetLeft;
    const end = start + tab.offsetWidth;
    if (start < list.scrollLeft) list.scrollLeft = start;
    else if (end > list.scrollLeft + list.clientWidth) list.scrollLeft = end - list.clientWidth;
  }, [selected]);
  const move = (event: TargetedKeyboardEvent<HTMLDivElement>): void => {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (step === 0) return;
    const index = tabs.findIndex(([id]) => id === selected);
    const next = tabs[(index + step + tabs.length) % tabs.length];
    if (next === undefined) return;
    onSelect(next[0]);
    (event.currentTarget.children[tabs.indexOf(next)] as HTMLElement).focus();
  };
  return (
    <div ref={ref} role="tablist" aria-label={label} class="tabs" onKeyDown={move}>
      {tabs.map(([id, text]) => (
        <button
          key={id}
          type="button"
          role="tab"
          aria-selected={id === selected}
          tabIndex={id === selected ? 0 : -1}
          onClick={() => onSelect(id)}
        >
          {text}
        </button>
      ))}
    </div>
  );
}

/** The heading of a page, with its actions. */
export function PageHead(props: {
  readonly title: ComponentChildren;
  readonly children?: ComponentChildren;
}): JSX.Element {
  return (
    <header class="page-head">
      <h1>{props.title}</h1>
      <div class="row">{props.children}</div>
    </header>
  );
}

/** A list of names and values. */
export function Facts({ facts }: { readonly facts: readonly (readonly [string, ComponentChildren])[] }): JSX.Element {
  return (
    <dl class="facts">
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
