// The HTTP exchanges and WebSockets of one call with the capability fetch. Loaded when the first call opens one.
import { ToolError } from "../../../sandbox/contract/errors.ts";
import type { CapabilityUse } from "../../observability/timeline.ts";
import { Traffic, WebSocketConnection } from "../websocket/websocket-connection.ts";
import { type ExchangeDependencies, HttpExchange } from "./exchange.ts";
import { networkError } from "./network-errors.ts";

/** Open exchanges of one call. Each has a connection, and a response that the tool does not read keeps its connection open. */
const MAX_OPEN_EXCHANGES = 50;

/** All exchanges of one call. Disposing it cancels them and closes their connections. */
export class CallExchanges implements Disposable {
  readonly #dependencies: ExchangeDependencies;
  readonly #isContinued: boolean;
  readonly #traffic: Traffic;
  /** By number. Ended exchanges are kept, so that late requests receive their failure. */
  readonly #exchanges = new Map<number, HttpExchange | WebSocketConnection>();
  /** Requests by number, for the timeline. */
  readonly uses = new Map<number, CapabilityUse>();
  #open = 0;
  #isDisposed = false;

  /** @param isContinued whether the call continues a durable run, whose earlier attempts may have opened exchanges */
  constructor(dependencies: ExchangeDependencies, isContinued = false) {
    this.#dependencies = dependencies;
    this.#isContinued = isContinued;
    this.#traffic = new Traffic(dependencies.policy.webSocketBytes);
  }

  begin(number: number): HttpExchange {
    return this.#add(number, (onEnd) => new HttpExchange(this.#dependencies, onEnd));
  }

  beginWebSocket(number: number): WebSocketConnection {
    return this.#add(number, (onEnd) => new WebSocketConnection(this.#dependencies, this.#traffic, onEnd));
  }

  #add<Kind extends HttpExchange | WebSocketConnection>(number: number, create: (onEnd: () => void) => Kind): Kind {
    if (this.#isDisposed) throw new ToolError("CANCELLED", "The tool call has ended");
    if (this.#exchanges.has(number)) throw new ToolError("PARAM_INVALID", `Exchange ${number} already exists`);
    if (this.#open >= MAX_OPEN_EXCHANGES) {
      const hint = "Read or cancel response bodies, and close WebSockets";
      throw new ToolError("QUOTA_EXCEEDED", `A call can have at most ${MAX_OPEN_EXCHANGES} open exchanges. ${hint}`);
    }
    this.#open += 1;
    const exchange = create(() => {
      this.#open -= 1;
    });
    this.#exchanges.set(number, exchange);
    return exchange;
  }

  get(number: number): HttpExchange {
    const exchange = this.#exchanges.get(number);
    if (exchange instanceof HttpExchange) return exchange;
    throw this.#missing(exchange, `Exchange ${number}`);
  }

  webSocket(number: number): WebSocketConnection {
    const exchange = this.#exchanges.get(number);
    if (exchange instanceof WebSocketConnection) return exchange;
    throw this.#missing(exchange, `WebSocket ${number}`);
  }

  #missing(other: unknown, what: string): ToolError {
    return this.#isContinued && other === undefined
      ? networkError("the connection ended while the run waited", "UND_ERR_SOCKET")
      : new ToolError("PARAM_INVALID", `${what} does not exist`);
  }

  cancel(number: number): null {
    this.#exchanges.get(number)?.cancel();
    return null;
  }

  [Symbol.dispose](): void {
    this.#isDisposed = true;
    for (const exchange of this.#exchanges.values()) exchange.cancel();
    this.#dependencies.connections[Symbol.dispose]();
  }
}
