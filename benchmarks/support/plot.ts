// Draws the cost of a call: bars on a logarithmic scale, as plain SVG, in colours that most people can distinguish.

export interface PlotRow {
  readonly name: string;
  readonly bars: readonly { readonly series: string; readonly ms: number }[];
}

export interface PlotOptions {
  readonly title: string;
  readonly caption: string;
  readonly rows: readonly PlotRow[];
  /** In the order of the legend. */
  readonly series: readonly { readonly name: string; readonly colour: string }[];
}

const WIDTH = 860;
const LABEL_WIDTH = 210;
const VALUE_WIDTH = 80;
const BAR_HEIGHT = 15;
const ROW_GAP = 12;
const TOP = 84;
const BOTTOM = 52;
const INK = "#24292f";
const FAINT = "#d0d7de";

const escapeText = (text: string): string =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");

/** 80 µs, 1.2 ms, 16 ms, 1.3 s. */
export function toTime(ms: number): string {
  const [value, unit] = ms < 1 ? [ms * 1_000, "µs"] : ms < 1_000 ? [ms, "ms"] : [ms / 1_000, "s"];
  return `${value < 10 && unit !== "µs" ? value.toFixed(1) : value.toFixed(0)} ${unit}`;
}

/** Nothing of the page's style is needed: it must be right in a viewer of files, too. */
function text(
  x: number,
  y: number,
  content: string,
  more: { readonly [attribute: string]: string | number } = {},
): string {
  const attributes = Object.entries({ x: x.toFixed(1), y: y.toFixed(1), fill: INK, "font-size": 13, ...more });
  return `<text ${attributes.map(([name, value]) => `${name}="${value}"`).join(" ")}>${escapeText(content)}</text>`;
}

const glovebox = (x: number, y: number, width: number, height: number, fill: string): string =>
  `<rect x="${x.toFixed(1)}" y="${y}" width="${width.toFixed(1)}" height="${height}" rx="2" fill="${fill}"/>`;

/** Powers of ten that hold all values, and a place on the page for each value. */
function makeScale(values: readonly number[]): {
  readonly ticks: readonly number[];
  readonly place: (ms: number) => number;
} {
  const low = Math.floor(Math.log10(Math.min(...values)));
  const high = Math.max(low + 1, Math.ceil(Math.log10(Math.max(...values))));
  const width = WIDTH - LABEL_WIDTH - VALUE_WIDTH;
  return {
    ticks: Array.from({ length: high - low + 1 }, (_, index) => 10 ** (low + index)),
    place: (ms) => LABEL_WIDTH + ((Math.log10(ms) - low) / (high - low)) * width,
  };
}

export function drawPlot({ title, caption, rows, series }: PlotOptions): string {
  const colourOf = new Map(series.map(({ name, colour }) => [name, colour]));
  const heightOf = (row: PlotRow): number => row.bars.length * (BAR_HEIGHT + 2) + ROW_GAP;
  const height = TOP + rows.reduce((sum, row) => sum + heightOf(row), 0) + BOTTOM;
  const { ticks, place } = makeScale(rows.flatMap(({ bars }) => bars.map(({ ms }) => ms)));
  const parts = [text(16, 28, title, { "font-size": 18, "font-weight": 600 })];
  let legendX = 16;
  for (const { name, colour } of series) {
    parts.push(glovebox(legendX, 44, 14, 14, colour), text(legendX + 20, 56, name));
    legendX += 44 + name.length * 7.2;
  }
  for (const tick of ticks) {
    const x = place(tick).toFixed(1);
    parts.push(`<line x1="${x}" y1="${TOP - 8}" x2="${x}" y2="${height - BOTTOM + 4}" stroke="${FAINT}"/>`);
    parts.push(text(place(tick), height - BOTTOM + 20, toTime(tick), { "text-anchor": "middle", "font-size": 12 }));
  }
  let y = TOP;
  for (const row of rows) {
    const middle = y + (row.bars.length * (BAR_HEIGHT + 2)) / 2 + 4;
    parts.push(text(LABEL_WIDTH - 12, middle, row.name, { "text-anchor": "end" }));
    for (const { series: name, ms } of row.bars) {
      const end = place(ms);
      parts.push(glovebox(LABEL_WIDTH, y, Math.max(2, end - LABEL_WIDTH), BAR_HEIGHT, colourOf.get(name) ?? INK));
      parts.push(text(Math.max(LABEL_WIDTH + 2, end) + 6, y + 12, toTime(ms), { "font-size": 12 }));
      y += BAR_HEIGHT + 2;
    }
    y += ROW_GAP;
  }
  parts.push(text(16, height - 12, caption, { "font-size": 12, fill: "#57606a" }));
  const frame = `viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" font-family="system-ui, sans-serif"`;
  return `<svg xmlns="http://www.w3.org/2000/svg" ${frame} role="img">
<title>${escapeText(title)}</title>
${glovebox(0, 0, WIDTH, height, "#ffffff")}
${parts.join("\n")}
</svg>
`;
}
