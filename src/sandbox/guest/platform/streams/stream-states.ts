// What Node's stream functions read from web streams: `finished()`, `isErrored()`, `isReadable()` and others use these members, by symbols that all
// copies of Node's streams share. The states are internal fields of web-streams-polyfill.

interface StateFields {
  _state: string;
  readonly _storedError: unknown;
  readonly _disturbed?: boolean;
}
interface Closed {
  readonly promise: Promise<void>;
}

const closedStreams = new WeakMap<object, Closed>();

/** Returns a promise that settles when a stream closes or fails. Its state is observed from the first request on. */
function closedOf(stream: StateFields): Closed {
  const known = closedStreams.get(stream);
  if (known !== undefined) return known;
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  promise.catch(() => {});
  const closed = { promise };
  closedStreams.set(stream, closed);
  let state = stream._state;
  const settle = (): void => {
    if (state === "closed") resolve();
    // The error is stored after the state.
    else if (state === "errored") void Promise.resolve().then(() => reject(stream._storedError));
  };
  Object.defineProperty(stream, "_state", {
    enumerable: true,
    configurable: true,
    get: () => state,
    set(next: string) {
      state = next;
      settle();
    },
  });
  settle();
  return closed;
}

const symbolOf = (name: string): symbol => Symbol.for(`nodejs.${name}`);

function define(prototype: object, members: Readonly<Record<string, (stream: StateFields) => unknown>>): void {
  for (const name of Object.keys(members)) {
    Object.defineProperty(prototype, symbolOf(name), {
      configurable: true,
      get(this: StateFields) {
        return members[name]?.(this);
      },
    });
  }
}

/** Adds the members to the classes of web streams. */
export function defineStreamStates(readable: object, writable: object): void {
  const shared = {
    "stream.errored": ({ _state }: StateFields) => _state === "errored",
    "webstream.isClosedPromise": closedOf,
  };
  define(readable, {
    ...shared,
    "stream.readable": ({ _state }) => _state === "readable",
    "stream.disturbed": ({ _disturbed }) => _disturbed === true,
  });
  define(writable, { ...shared, "stream.writable": ({ _state }) => _state === "writable" });
}
