// JSON text that is known of a value already. To make the text of a large value holds the event loop for 100 ms and more; who has made it
// over several turns notes it here, and the next stage of the call takes it from here.

const texts = new WeakMap<object, string>();

/** Notes the text of a value, which must not change afterwards. */
export function noteJsonText(value: object, text: string): void {
  texts.set(value, text);
}

/** Returns the text that was noted of a value; undefined where there is none. */
export const notedJsonText = (value: unknown): string | undefined =>
  typeof value === "object" && value !== null ? texts.get(value) : undefined;
