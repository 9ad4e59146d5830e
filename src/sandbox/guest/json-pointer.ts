// Forms JSON Pointers, which name a place in a value.

/** Escapes `~` and `/` (RFC 6901, section 3). */
export function escapePointer(token: string): string {
  let escaped = "";
  for (let index = 0; index < token.length; index += 1) {
    const unit = token[index] as string;
    escaped += unit === "~" ? "~0" : unit === "/" ? "~1" : unit;
  }
  return escaped;
}
