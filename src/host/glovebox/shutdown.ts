// Closes Glovebox instances when the process receives a signal: running calls may finish within a time limit, and every call has its result
// before the process exits. Signal handlers are global to the process, so this is the only module with mutable module state.

/** An object whose calls can be drained. */
export interface Drainable {
  /** Accepts no more calls. Resolves when all calls have their results, at the latest after `drainMs`. */
  close(options: { readonly drainMs: number }): Promise<void>;
}

interface Registration {
  readonly glovebox: Drainable;
  readonly drainMs: number;
}

/** Time in ms for callers to process the last results, before the signal has its usual effect. */
const EXIT_DELAY_MS = 100;

/** The one listener for a signal, and the instances that it closes. */
interface SignalListener {
  readonly registrations: Set<Registration>;
  readonly onSignal: () => void;
}

const listeners = new Map<NodeJS.Signals, SignalListener>();

async function shutDown(signal: NodeJS.Signals, registrations: Set<Registration>, isRepeated: boolean): Promise<void> {
  // Another instance may be opened while these drain.
  for (let open = [...registrations]; open.length > 0; open = [...registrations]) {
    await Promise.allSettled(
      open.map(async ({ glovebox, drainMs }) => glovebox.close({ drainMs: isRepeated ? 0 : drainMs })),
    );
    for (const registration of open) registrations.delete(registration);
  }
  // The host has a listener of its own, which decides when the process exits.
  if (process.listenerCount(signal) > 0) return;
  setTimeout(() => {
    if (process.listenerCount(signal) === 0) process.kill(process.pid, signal);
  }, EXIT_DELAY_MS);
}

function listen(signal: NodeJS.Signals): SignalListener {
  const registrations = new Set<Registration>();
  let received = 0;
  const onSignal = (): void => {
    received += 1;
    void shutDown(signal, registrations, received > 1);
  };
  process.on(signal, onSignal);
  const listener = { registrations, onSignal };
  listeners.set(signal, listener);
  return listener;
}

function unregister(signal: NodeJS.Signals, registration: Registration): void {
  const listener = listeners.get(signal);
  if (listener === undefined) return;
  listener.registrations.delete(registration);
  if (listener.registrations.size > 0) return;
  process.off(signal, listener.onSignal);
  listeners.delete(signal);
}

/** Closes an instance when the process receives one of the signals. Dispose the return value when the instance has been closed. */
export function closeOnSignals(glovebox: Drainable, signals: readonly NodeJS.Signals[], drainMs: number): Disposable {
  const registration = { glovebox, drainMs };
  for (const signal of signals) (listeners.get(signal) ?? listen(signal)).registrations.add(registration);
  return {
    [Symbol.dispose]: () => {
      for (const signal of signals) unregister(signal, registration);
    },
  };
}
