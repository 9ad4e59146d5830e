// A chart of values over time, in the colors of the theme.
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { locale } from "../state/format.ts";

export interface Series {
  readonly label: string;
  /** Name of a CSS variable. */
  readonly color: string;
  readonly values: readonly (number | null)[];
  readonly isFilled?: boolean;
}

interface ChartProps {
  readonly label: string;
  /** Times in ms since 1970. */
  readonly times: readonly number[];
  readonly series: readonly Series[];
  readonly format: (value: number) => string;
  readonly height?: number;
}

const HEIGHT = 160;

export function Chart({ label, times, series, format, height = HEIGHT }: ChartProps): JSX.Element {
  const ref = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(undefined);
  const data: uPlot.AlignedData = [
    times.map((at) => at / 1_000),
    ...series.map(({ values }) => [...values] as (number | null)[]),
  ];
  const names = series.map((one) => one.label).join();
  useEffect(() => {
    let dispose: (() => void) | undefined;
    let isOver = false;
    const open = async (): Promise<void> => {
      const { default: Plot } = await import("uplot");
      if (ref.current !== null && !isOver) dispose = draw(Plot, ref.current);
    };
    // The figures next to the chart say the same.
    open().catch(() => {});
    return () => {
      isOver = true;
      dispose?.();
      plot.current = undefined;
    };
  }, [names, height]);
  const draw = (Plot: typeof uPlot, box: HTMLDivElement): (() => void) => {
    const span = ((times.at(-1) ?? 0) - (times[0] ?? 0)) / 1_000;
    const css = getComputedStyle(box);
    // Read again each time the chart is drawn: the theme can change.
    const colorOf = (name: string) => (): string => css.getPropertyValue(name).trim();
    const axis = { stroke: colorOf("--faint"), grid: { stroke: colorOf("--line"), width: 1 }, ticks: { show: false } };
    const chart = new Plot(
      {
        width: Math.max(200, box.clientWidth),
        height,
        legend: { show: false },
        padding: [6, 24, 0, 0],
        cursor: { y: false },
        scales: { y: { range: (_, __, max) => [0, max > 0 ? max * 1.1 : 1] } },
        axes: [
          { ...axis, font: "11px system-ui", size: 24, values: (_, ticks) => ticks.map((at) => formatTick(at, span)) },
          { ...axis, font: "11px system-ui", size: 64, values: (_, ticks) => ticks.map(format) },
        ],
        series: [
          {},
          ...series.map(({ label: name, color, isFilled = false }) => ({
            label: name,
            stroke: colorOf(color),
            width: 1.5,
            // Only a value without neighbours, through which no line goes.
            points: { show: true, size: 5, width: 0, fill: colorOf(color), filter: isolatedIndexes },
            spanGaps: false,
            ...(isFilled ? { fill: () => `color-mix(in srgb, ${colorOf(color)()} 20%, transparent)` } : {}),
          })),
        ],
      },
      data,
      box,
    );
    plot.current = chart;
    const observer = new ResizeObserver(() => chart.setSize({ width: Math.max(200, box.clientWidth), height }));
    observer.observe(box);
    const endWatch = onThemeChange(() => chart.redraw(false));
    return () => {
      endWatch();
      observer.disconnect();
      chart.destroy();
    };
  };
  useEffect(() => plot.current?.setData(data));
  return (
    <figure class="chart">
      <figcaption>
        {label}
        <span class="legend">
          {series.map((one) => (
            <span key={one.label}>
              <i style={{ background: `var(${one.color})` }} /> {one.label} {format(lastOf(one.values))}
            </span>
          ))}
        </span>
      </figcaption>
      <div ref={ref} class="plot" aria-hidden="true" />
    </figure>
  );
}

/** Calls a function when the user or the system has changed the theme. Returns a function that ends this. */
function onThemeChange(call: () => void): () => void {
  const system = matchMedia("(prefers-color-scheme: dark)");
  system.addEventListener("change", call);
  const observer = new MutationObserver(call);
  observer.observe(document.documentElement, { attributeFilter: ["data-theme"] });
  return () => {
    system.removeEventListener("change", call);
    observer.disconnect();
  };
}

/** Returns the indexes of values without a value before and after them. */
function isolatedIndexes(plot: uPlot, series: number): number[] | null {
  const values = plot.data[series] ?? [];
  const found: number[] = [];
  for (const [index, value] of values.entries()) {
    if (value !== null && (values[index - 1] ?? null) === null && (values[index + 1] ?? null) === null)
      found.push(index);
  }
  return found;
}

const DAY_SECONDS = 86_400;

/** Returns the label of a time on the axis: the time of day, or the day if the axis covers several. @param at in seconds */
function formatTick(at: number, spanSeconds: number): string {
  const options =
    spanSeconds > 2 * DAY_SECONDS
      ? ({ day: "numeric", month: "short" } as const)
      : ({ hour: "2-digit", minute: "2-digit", hourCycle: "h23" } as const);
  return new Intl.DateTimeFormat(locale, options).format(at * 1_000);
}

const lastOf = (values: readonly (number | null)[]): number => values.findLast((value) => value !== null) ?? 0;
