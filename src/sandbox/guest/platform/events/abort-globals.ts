// Shim for the package abort-controller: re-exports the platform's own classes.
const web = globalThis as unknown as { readonly AbortController: unknown; readonly AbortSignal: unknown };

export const { AbortController, AbortSignal } = web;
