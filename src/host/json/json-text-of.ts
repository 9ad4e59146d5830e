// Stores the JSON text of values. Serializing a large value blocks the event loop for 100 ms and more, so a stage that has done it in time
// slices stores the text here for the next stage.

const texts = new WeakMap<object, string>();

/** Stores the text of a value, which must not change afterwards. */
export function storeJsonText(value: object, text: string): void {
  texts.set(value, text);
}

/** Returns the stored text of a value, or undefined. */
export const storedJsonText = (value: unknown): string | undefined =>
  typeof value === "object" && value !== null ? texts.get(value) : undefined;
