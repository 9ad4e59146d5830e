// node:http and node:https: clients over the `fetch` capability. Servers can be created and cannot listen, because a tool has no sockets.

import { callable } from "../shared/callable-classes.ts";
import { nameClasses } from "../shared/class-names.ts";
import { globalMember } from "../shared/global-member.ts";
import { unsupported } from "../shared/node-error.ts";
import { addUnsupported } from "../shared/unsupported-members.ts";
import { Stream } from "../streams/node-stream.ts";
import { type Agent, HttpAgent, HttpsAgent } from "./http-agent.ts";
import { ClientRequest as Request } from "./http-client.ts";
import { METHODS, STATUS_CODES } from "./http-constants.ts";
import { validateHeaderName, validateHeaderValue } from "./http-headers.ts";
import { IncomingMessage as Incoming } from "./http-incoming.ts";
import { OutgoingMessage as Outgoing } from "./http-outgoing.ts";
import { ServerResponse as Answer, createServer, Server as HttpServer } from "./http-server.ts";

const USE_FETCH = "a tool has no sockets; use fetch, which the host can grant";

const agents = { http: new HttpAgent({ keepAlive: true }), https: new HttpsAgent({ keepAlive: true }) };

/** The class as packages construct it: `new http.ClientRequest(url, options, callback)`. */
class ClientRequest extends Request {
  constructor(...args: readonly unknown[]) {
    super(agents.http, args);
  }
}

const IncomingMessage = callable(Incoming);
const OutgoingMessage = callable(Outgoing);
const Server = callable(HttpServer);
const ServerResponse = callable(Answer);

/** Returns the functions of a module, which a tool can give another agent. */
function clientOf(module: { readonly globalAgent: Agent }) {
  const request = (...args: readonly unknown[]): Request => new Request(module.globalAgent, args);
  const get = (...args: readonly unknown[]): Request => request(...args).end();
  return { request, get };
}

const http = {
  METHODS,
  STATUS_CODES,
  maxHeaderSize: 16_384,
  Agent: HttpAgent,
  ClientRequest,
  IncomingMessage,
  OutgoingMessage,
  Server,
  ServerResponse,
  globalAgent: agents.http,
  createServer,
  setMaxIdleHTTPParsers: (): void => {},
  validateHeaderName,
  validateHeaderValue,
};

const https = {
  Agent: HttpsAgent,
  Server,
  globalAgent: agents.https,
  createServer,
};

Object.assign(http, clientOf(http));
Object.assign(https, clientOf(https));
nameClasses({ Agent: HttpAgent, ClientRequest, IncomingMessage, OutgoingMessage, Server, ServerResponse });
nameClasses({ Agent: HttpsAgent });
addUnsupported(http, "http", USE_FETCH, "setGlobalProxyFromEnv");
/** As in Node, these are the global classes. */
for (const name of ["CloseEvent", "MessageEvent", "WebSocket"])
  Object.defineProperty(http, name, { ...globalMember(name), configurable: true });

const HTTPParser = (): never => {
  throw unsupported("HTTPParser", USE_FETCH);
};

export const builtins = {
  http,
  https,
  _http_agent: { Agent: HttpAgent, globalAgent: agents.http },
  _http_client: { ClientRequest },
  _http_common: { methods: METHODS, CRLF: "\r\n", HTTPParser, Stream },
  _http_incoming: { IncomingMessage },
  _http_outgoing: { OutgoingMessage, validateHeaderName, validateHeaderValue },
  _http_server: { STATUS_CODES, Server, ServerResponse },
};
