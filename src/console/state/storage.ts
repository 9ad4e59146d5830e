// Texts that the browser keeps for the console. A browser may block its storage, as in a frame of another site, and then throws even when it is
// named; it may also be full. Then nothing is kept, and the console works without it.

type Kind = "localStorage" | "sessionStorage";

const attempt = <Value>(run: () => Value): Value | null => {
  try {
    return run();
  } catch {
    return null;
  }
};

export const readStored = (kind: Kind, key: string): string | null => attempt(() => globalThis[kind].getItem(key));
export const store = (kind: Kind, key: string, text: string): void => {
  attempt(() => globalThis[kind].setItem(key, text));
};
export const removeStored = (kind: Kind, key: string): void => {
  attempt(() => globalThis[kind].removeItem(key));
};
export const clearStored = (kind: Kind): void => {
  attempt(() => globalThis[kind].clear());
};
