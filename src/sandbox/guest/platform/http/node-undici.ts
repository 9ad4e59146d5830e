// The connection of the npm package `undici`, versions 5 to 8, over node:http. All that the package offers sends through its class `Client`, whose
// sockets a tool does not have. The bundler passes that class here, and its requests become requests of the tool's `fetch` capability.

import { nextTick } from "../process/node-process.ts";
import {
  type Callback,
  type PackageParts,
  type UndiciClient,
  UndiciExchange,
  type UndiciOrigin,
} from "./undici-exchange.ts";

/**
 * Lets a class of undici send its requests over node:http.
 * @param Client the package's class, which is changed
 */
function useHttp(Client: { readonly prototype: UndiciClient }, parts: PackageParts): unknown {
  const { symbols, Request } = parts;
  const open = new WeakMap<object, Set<UndiciExchange>>();
  const waiting = new WeakMap<object, () => void>();
  const exchangesOf = (client: object): Set<UndiciExchange> => {
    const found = open.get(client) ?? new Set();
    open.set(client, found);
    return found;
  };
  const members: Readonly<Record<string, Callback>> = {
    kDispatch(this: UndiciClient, options, handler) {
      const { origin } = this[symbols.kUrl as symbol] as unknown as UndiciOrigin;
      const exchanges = exchangesOf(this);
      const exchange = new UndiciExchange(
        this,
        new Request(origin, options as object, handler as object),
        parts,
        () => {
          exchanges.delete(exchange);
          if (exchanges.size === 0) waiting.get(this)?.();
        },
      );
      exchanges.add(exchange);
      nextTick(() => exchange.start());
      // The host bounds how many requests are open, so none waits here for another.
      return true;
    },
    kClose(this: UndiciClient) {
      return new Promise<null>((resolve) => {
        if (exchangesOf(this).size === 0) resolve(null);
        else waiting.set(this, () => resolve(null));
      });
    },
    kDestroy(this: UndiciClient, error) {
      for (const exchange of [...exchangesOf(this)]) exchange.fail(error);
      return Promise.resolve(null);
    },
    kConnect(this: UndiciClient, connected) {
      nextTick(connected as () => void);
    },
  };
  for (const name of Object.keys(members)) define(Client.prototype, symbols[name], { value: members[name] });
  const counts: Readonly<Record<string, (client: object) => unknown>> = {
    kBusy: () => false,
    kPending: () => 0,
    kRunning: (client) => exchangesOf(client).size,
    kSize: (client) => exchangesOf(client).size,
    kConnected: (client) => exchangesOf(client).size > 0,
  };
  for (const name of Object.keys(counts)) {
    define(Client.prototype, symbols[name], {
      get(this: object) {
        return counts[name]?.(this);
      },
    });
  }
  return Client;
}

function define(target: object, key: symbol | undefined, descriptor: PropertyDescriptor): void {
  if (key !== undefined) Object.defineProperty(target, key, { configurable: true, ...descriptor });
}

/** Name under which the bundler requests the function. No import can have this name. */
export const builtins = { "#undici-client": useHttp };
