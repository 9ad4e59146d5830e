// First pass over the rows: which kind each column is, without keeping a single value.
import type { CsvRow } from "./read-csv.ts";
import type { ColumnType, ValueKind } from "./value-kinds.ts";

export interface InferredColumn {
  readonly name: string;
  /** Position in the file, from 0. */
  readonly index: number;
  readonly type: ColumnType;
  /** What reads the column's values; text and empty columns have none. */
  readonly kind: ValueKind | undefined;
  readonly count: number;
  readonly missing: number;
  readonly notes: readonly string[];
}

/** One kind's record against one column. */
interface Candidate {
  readonly kind: ValueKind;
  fits: number;
  firstMisfit: { readonly value: string; readonly line: number } | undefined;
}

/** A kind that misreads this much of a column is no longer tried: its share is too small to be worth a note. */
const NOTE_SHARE = 0.8;
const MISFITS_TOLERATED = 1_000;
const SHOWN_CHARACTERS = 40;

export class ColumnInference {
  readonly #name: string;
  readonly #index: number;
  readonly #isMissing: (value: string) => boolean;
  #candidates: Candidate[];
  #count = 0;
  #missing = 0;

  constructor(name: string, index: number, kinds: readonly ValueKind[], isMissing: (value: string) => boolean) {
    this.#name = name;
    this.#index = index;
    this.#isMissing = isMissing;
    this.#candidates = kinds.map((kind) => ({ kind, fits: 0, firstMisfit: undefined }));
  }

  add(row: CsvRow): void {
    const value = row.fields[this.#index]?.trim() ?? "";
    if (this.#isMissing(value)) {
      this.#missing += 1;
      return;
    }
    this.#count += 1;
    let hopeless = false;
    for (const candidate of this.#candidates) {
      if (candidate.kind.read(value) !== undefined) {
        candidate.fits += 1;
        continue;
      }
      candidate.firstMisfit ??= { value, line: row.line };
      const misfits = this.#count - candidate.fits;
      if (misfits > MISFITS_TOLERATED && candidate.fits < this.#count * NOTE_SHARE) hopeless = true;
    }
    if (hopeless) this.#dropHopeless();
  }

  finish(): InferredColumn {
    const fitting = this.#candidates.filter((candidate) => candidate.firstMisfit === undefined);
    const kind = this.#count === 0 ? undefined : fitting[0]?.kind;
    const type = this.#count === 0 ? "empty" : (kind?.type ?? "text");
    const notes = kind?.type === "date" ? ambiguityNotes(fitting) : type === "text" ? this.#misfitNotes() : [];
    return { name: this.#name, index: this.#index, type, kind, count: this.#count, missing: this.#missing, notes };
  }

  #dropHopeless(): void {
    this.#candidates = this.#candidates.filter(({ fits }) => fits >= this.#count * NOTE_SHARE);
  }

  /** A column that is nearly of one kind is most often that kind with a few bad cells: say where the first one is. */
  #misfitNotes(): readonly string[] {
    const nearest = this.#candidates.toSorted((a, b) => b.fits - a.fits)[0];
    if (nearest?.firstMisfit === undefined || nearest.fits < this.#count * NOTE_SHARE) return [];
    const { value, line } = nearest.firstMisfit;
    const shown = value.length > SHOWN_CHARACTERS ? `${value.slice(0, SHOWN_CHARACTERS)}…` : value;
    return [
      `Read as text, though ${nearest.fits} of ${this.#count} values are of the form ${nearest.kind.format}; ` +
        `the first that is not is ${JSON.stringify(shown)} on line ${line}`,
    ];
  }
}

function ambiguityNotes(fitting: readonly Candidate[]): readonly string[] {
  const [first, second] = fitting;
  if (first === undefined || second === undefined) return [];
  return [`Read as ${first.kind.format}; every value fits ${second.kind.format} too`];
}
