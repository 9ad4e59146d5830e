// Collects the spans that a tool reports of its own work. The reports come from the guest through its worker process,
// so both are untrusted: the number is limited, each report is parsed strictly, and all times are clamped to the
// execution of the call.
import * as z from "zod";
import { monotonicMs } from "../../sandbox/contract/monotonic-time.ts";
import { strictObject } from "../../sandbox/contract/plain-object.ts";

/** Maximum number of spans of a call. */
const MAX_SPANS = 1_000;
const MAX_NAME = 200;

const NameSchema = z.string().max(MAX_NAME);
const AttributesSchema = z
  .record(z.string().max(64), z.union([z.string().max(MAX_NAME), z.number(), z.boolean()]))
  .refine((attributes) => Object.keys(attributes).length <= 16);
const id = z.int().min(1).max(MAX_SPANS);
/** A report: the begin or the end of a span, or a span that has ended. */
const ReportSchema = z.union([
  strictObject({ id, name: NameSchema, attributes: AttributesSchema.optional() }),
  strictObject({ id, ok: z.boolean() }),
  strictObject({ name: NameSchema, agoMs: z.number(), durationMs: z.number().min(0) }),
]);

/** A period of a tool's own work, by performance.now(). */
export interface ToolSpan {
  readonly name: string;
  readonly from: number;
  readonly to: number;
  readonly code: "ok" | "TOOL_FAILED";
  readonly attributes?: { readonly [name: string]: string | number | boolean } | undefined;
  /** Set while the call runs, for a span that has not ended. */
  readonly isOpen?: true;
}

interface OpenSpan {
  readonly name: string;
  readonly from: number;
  to: number | undefined;
  code: ToolSpan["code"];
  readonly attributes?: ToolSpan["attributes"];
}

/** Time in ms from performance.now() to {@link monotonicMs}, which all processes of a machine share. */
const OFFSET_MS = monotonicMs() - performance.now();

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

const clamp = (value: number, from: number, to: number): number =>
  Number.isNaN(value) ? from : Math.min(to, Math.max(from, value));

export class ToolSpans {
  readonly #spans: OpenSpan[] = [];
  readonly #open = new Map<number, OpenSpan>();
  #begunAt = Number.POSITIVE_INFINITY;

  /**
   * Adds a report; one that is not valid is ignored.
   * @param time of the report, by the monotonic clock of the worker process
   */
  report(time: number, text: string): void {
    const report = ReportSchema.safeParse(parse(text)).data;
    if (report === undefined) return;
    const at = time - OFFSET_MS;
    if ("ok" in report) {
      const span = this.#open.get(report.id);
      this.#open.delete(report.id);
      if (span === undefined) return;
      span.to = at;
      span.code = report.ok ? "ok" : "TOOL_FAILED";
      return;
    }
    if (this.#spans.length >= MAX_SPANS) return;
    if ("durationMs" in report) {
      const { name, agoMs, durationMs } = report;
      const to = at - agoMs;
      this.#spans.push({ name, from: to - durationMs, to, code: "ok" });
      return;
    }
    if (this.#open.has(report.id)) return;
    const span: OpenSpan = { name: report.name, from: at, to: undefined, code: "ok", attributes: report.attributes };
    if (at < this.#begunAt) this.#begunAt = at;
    this.#spans.push(span);
    this.#open.set(report.id, span);
  }

  /** When the first span of `ctx.span` began, by performance.now(). */
  get begunAt(): number {
    return this.#begunAt;
  }

  /** Returns the spans within the execution of the call. One that is still open ends with it, or remains open if the call runs. */
  within(from: number, to: number, isRunning = false): readonly ToolSpan[] {
    return this.#spans.map(({ name, attributes, ...span }) => {
      const begun = clamp(span.from, from, to);
      const isOpen = span.to === undefined;
      const ended = span.to === undefined ? to : clamp(span.to, begun, to);
      return {
        name,
        from: begun,
        to: ended,
        code: isOpen && !isRunning ? "TOOL_FAILED" : span.code,
        ...(attributes === undefined ? {} : { attributes }),
        ...(isOpen && isRunning ? { isOpen } : {}),
      };
    });
  }
}
