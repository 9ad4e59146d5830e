// Requests to a server under test.
import type { Server } from "../../../src/server/index.ts";

export interface Reply<Body = Record<string, unknown>> {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Body;
}

/** Returns a function that sends requests with a key. Default: the admin key. */
export function apiOf(server: Pick<Server, "url" | "adminKey">, key: string | undefined = server.adminKey) {
  return async <Body = Record<string, unknown>>(
    method: string,
    path: string,
    body?: unknown,
    headers: { readonly [name: string]: string } = {},
  ): Promise<Reply<Body>> => {
    const response = await fetch(`${server.url}${path}`, {
      method,
      headers: {
        authorization: `Bearer ${key}`,
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return { status: response.status, headers: response.headers, body: (await response.json()) as Body };
  };
}
