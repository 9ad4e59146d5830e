// What a build process remembers of the texts of earlier builds, so that it does not analyse the files of a package for each tool. All
// builds of a process belong to one owner. Without an owner a process builds once.
import { createHash } from "node:crypto";

/** Maximum number of remembered texts. A large package has 2,800 files. */
const MAX_TEXTS = 10_000;

export class TextFacts {
  readonly #facts = new Map<string, boolean>();

  /** Returns `compute()`, or what it returned for the same question and the same text. The text is given itself or as its SHA-256. */
  recall(question: string, text: string | { readonly sha256: string }, compute: () => boolean): boolean {
    const hash = typeof text === "string" ? createHash("sha256").update(text).digest("hex") : text.sha256;
    const key = `${question}\n${hash}`;
    const known = this.#facts.get(key);
    if (known !== undefined) return known;
    const fact = compute();
    if (this.#facts.size >= MAX_TEXTS) this.#facts.clear();
    this.#facts.set(key, fact);
    return fact;
  }
}
