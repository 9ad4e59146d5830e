// undici's client and no more of it: its main module also loads a fetch, WebSockets and mocks, and puts a dispatcher of its own under
// the host's global fetch. Loaded when it is needed: most hosts send nothing.
import { createRequire } from "node:module";
import type * as undici from "undici";

export interface HttpClient {
  readonly Client: typeof undici.Client;
  readonly buildConnector: typeof undici.buildConnector;
  /** What the main module makes a method of every client. */
  readonly request: (
    this: undici.Client,
    options: undici.Dispatcher.RequestOptions,
  ) => Promise<undici.Dispatcher.ResponseData>;
}

const require = createRequire(import.meta.url);
let loaded: HttpClient | undefined;

/** Takes some 40 ms the first time. */
export function loadHttpClient(): HttpClient {
  loaded ??= {
    Client: require("undici/lib/dispatcher/client.js") as typeof undici.Client,
    buildConnector: require("undici/lib/core/connect.js") as typeof undici.buildConnector,
    request: require("undici/lib/api/api-request.js") as HttpClient["request"],
  };
  return loaded;
}
