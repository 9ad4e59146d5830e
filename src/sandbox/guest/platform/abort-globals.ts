// Stands in for the package abort-controller: the platform's own.
const web = globalThis as unknown as { readonly AbortController: unknown; readonly AbortSignal: unknown };

export const { AbortController, AbortSignal } = web;
