// node:async_hooks (AsyncLocalStorage and AsyncResource), and the module of node:diagnostics_channel. async-context.ts propagates the context.

import { ACTIVATION_EXPORT } from "../../../contract/node-builtins.ts";
import { nameClasses } from "../shared/class-names.ts";
import { checkFunction, nodeError } from "../shared/node-error.ts";
import { Activation, type AnyFunction, type ContextFrame, currentFrame, enterFrame, runIn } from "./async-context.ts";
import { diagnosticsChannel } from "./diagnostics-channel.ts";

export class AsyncLocalStorage {
  readonly #defaultValue: unknown;
  readonly name: string;

  constructor(options: { readonly defaultValue?: unknown; readonly name?: string } = {}) {
    this.#defaultValue = options.defaultValue;
    this.name = options.name === undefined ? "" : String(options.name);
  }

  static bind(run: AnyFunction): unknown {
    return AsyncResource.bind(run);
  }
  static snapshot(): (run: AnyFunction, ...args: unknown[]) => unknown {
    return AsyncResource.bind((run, ...args) => (run as AnyFunction)(...args));
  }

  getStore(): unknown {
    const frame = currentFrame();
    return frame.has(this) ? frame.get(this) : this.#defaultValue;
  }
  /** Changes that `run` makes to other storages persist, as in Node. */
  run(store: unknown, run: AnyFunction, ...args: unknown[]): unknown {
    const prior = this.getStore();
    if (Object.is(prior, store)) return Reflect.apply(run, null, args);
    const outer = currentFrame();
    const inner = this.#with(store);
    return runIn(inner, run, null, args, () => (currentFrame() === inner ? outer : this.#with(prior)));
  }
  exit(run: AnyFunction, ...args: unknown[]): unknown {
    return this.run(undefined, run, ...args);
  }
  enterWith(store: unknown): void {
    enterFrame(this.#with(store));
  }
  withScope(store: unknown): Disposable {
    const prior = this.getStore();
    this.enterWith(store);
    let isOver = false;
    return {
      [Symbol.dispose]: () => {
        if (!isOver) this.enterWith(prior);
        isOver = true;
      },
    };
  }
  /** Removes the store from the current context. In other contexts it stays. */
  disable(): void {
    currentFrame().delete(this);
  }

  #with(store: unknown): ContextFrame {
    return new Map(currentFrame()).set(this, store);
  }
}

let lastId = 1;

export class AsyncResource {
  readonly #frame: ContextFrame = currentFrame();
  readonly #id: number;
  readonly type: string;

  constructor(type: string) {
    if (typeof type !== "string")
      throw nodeError(TypeError, "ERR_INVALID_ARG_TYPE", 'The "type" argument must be of type string');
    lastId += 1;
    this.#id = lastId;
    this.type = type;
  }
  runInAsyncScope(run: AnyFunction, receiver?: unknown, ...args: unknown[]): unknown {
    return runIn(this.#frame, run, receiver, args);
  }
  emitDestroy(): this {
    return this;
  }
  asyncId(): number {
    return this.#id;
  }
  triggerAsyncId(): number {
    return 1;
  }
  bind(run: AnyFunction, receiver?: unknown): AnyFunction {
    checkFunction(run, "fn");
    const frame = this.#frame;
    const bound = function (this: unknown, ...args: unknown[]): unknown {
      return runIn(frame, run, receiver === undefined ? this : receiver, args);
    };
    return Object.defineProperty(bound, "length", { value: run.length, writable: false, configurable: true });
  }
  static bind(run: AnyFunction, type?: string, receiver?: unknown): AnyFunction {
    checkFunction(run, "fn");
    return new AsyncResource(type || run.name || "bound-anonymous-fn").bind(run, receiver);
  }
}

interface Hook {
  enable(): Hook;
  disable(): Hook;
}
const hook: Hook = { enable: () => hook, disable: () => hook };

nameClasses({ AsyncResource });

export const builtins = {
  [ACTIVATION_EXPORT]: Activation,
  async_hooks: {
    AsyncLocalStorage,
    AsyncResource,
    asyncWrapProviders: {},
    /** Hooks are never called, because a guest has no such resources. */
    createHook: (): Hook => hook,
    executionAsyncId: (): number => 1,
    executionAsyncResource: (): object => ({}),
    triggerAsyncId: (): number => 0,
  },
  diagnostics_channel: diagnosticsChannel,
};
