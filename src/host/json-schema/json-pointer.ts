// RFC 6901 JSON pointers: creates them for issues, and parses them for `$ref`.

export function toPointer(path: readonly (string | number)[]): string {
  return path.map((step) => `/${escapeStep(String(step))}`).join("");
}

/** Returns the pointer of the longest leading part of `path` that has at most `maxChars` characters. */
export function toBoundedPointer(path: readonly (string | number)[], maxChars: number): string {
  let pointer = "";
  for (const step of path) {
    if (typeof step === "string" && step.length > maxChars) break;
    const longer = `${pointer}/${escapeStep(String(step))}`;
    if (longer.length > maxChars) break;
    pointer = longer;
  }
  return pointer;
}

/** Returns the steps of a pointer; undefined if the pointer is invalid. */
export function parsePointer(pointer: string): string[] | undefined {
  if (pointer === "") return [];
  if (!pointer.startsWith("/") || /~(?![01])/.test(pointer)) return undefined;
  return pointer
    .slice(1)
    .split("/")
    .map((step) => step.replaceAll("~1", "/").replaceAll("~0", "~"));
}

export function escapeStep(step: string): string {
  return step.replaceAll("~", "~0").replaceAll("/", "~1");
}
