// RFC 6901 JSON pointers: written for problems, read for `$ref`.

export function toPointer(path: readonly (string | number)[]): string {
  return path.map((step) => `/${escapeStep(String(step))}`).join("");
}

/** The longest leading part of `path` whose pointer has at most `maxChars` characters. */
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

/** The steps of a pointer, or undefined when it is not one. */
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
