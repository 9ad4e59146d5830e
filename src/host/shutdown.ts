// A host that is told to shut down: what runs may finish for a bounded time, the rest is ended, and every call has its result
// before the process goes. Signals are the process's, so this is the one place that keeps state for all of it.

/** Something with calls in it. */
export interface Drainable {
  /** Takes no more calls; resolves when those in it have their results, after `drainMs` at the latest. */
  close(options: { readonly drainMs: number }): Promise<void>;
}

interface Registration {
  readonly box: Drainable;
  readonly drainMs: number;
}

/** For whoever awaits the last results to write them down, before the signal does what it would have done. */
const LAST_WORDS_MS = 100;

const registered = new Map<NodeJS.Signals, Set<Registration>>();
const listeners = new Map<NodeJS.Signals, () => void>();

async function shutDown(signal: NodeJS.Signals, boxes: Set<Registration>, isRepeated: boolean): Promise<void> {
  // One may be opened while the others drain.
  for (let open = [...boxes]; open.length > 0; open = [...boxes]) {
    await Promise.allSettled(open.map(({ box, drainMs }) => box.close({ drainMs: isRepeated ? 0 : drainMs })));
    for (const registration of open) boxes.delete(registration);
  }
  // Somebody else listens: the end of the process is theirs to choose.
  if (process.listenerCount(signal) > 0) return;
  setTimeout(() => {
    if (process.listenerCount(signal) === 0) process.kill(process.pid, signal);
  }, LAST_WORDS_MS);
}

function listen(signal: NodeJS.Signals): Set<Registration> {
  const boxes = new Set<Registration>();
  let told = 0;
  const onSignal = (): void => {
    told += 1;
    void shutDown(signal, boxes, told > 1);
  };
  process.on(signal, onSignal);
  listeners.set(signal, onSignal);
  registered.set(signal, boxes);
  return boxes;
}

/** Closes the box when the process gets one of the signals. Dispose it when the box has been closed. */
export function closeOnSignals(box: Drainable, signals: readonly NodeJS.Signals[], drainMs: number): Disposable {
  const registration = { box, drainMs };
  for (const signal of signals) (registered.get(signal) ?? listen(signal)).add(registration);
  return {
    [Symbol.dispose]: () => {
      for (const signal of signals) {
        const boxes = registered.get(signal);
        boxes?.delete(registration);
        const listener = listeners.get(signal);
        if (boxes?.size !== 0 || listener === undefined) continue;
        process.off(signal, listener);
        registered.delete(signal);
        listeners.delete(signal);
      }
    },
  };
}
