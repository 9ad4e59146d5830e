// Makes the responses of a server cheaper, in a process that does nothing else.
import { getRequestListener } from "@hono/node-server";

/**
 * Replaces the global `Request` and `Response` of this process with those of `@hono/node-server`, which build a web stream only if one is
 * read. A request then needs about a quarter less CPU time, and a call about an eighth. A program that embeds a server keeps its own.
 */
export function useFastResponses(): void {
  getRequestListener(() => new Response(), { overrideGlobalObjects: true });
}
