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

/** Our one listener for a signal, and the boxes it is for. */
interface Listening {
  readonly boxes: Set<Registration>;
  readonly onSignal: () => void;
}

const listening = new Map<NodeJS.Signals, Listening>();

async function shutDown(signal: NodeJS.Signals, boxes: Set<Registration>, isRepeated: boolean): Promise<void> {
  // One may be opened while the others drain.
  for (let open = [...boxes]; open.length > 0; open = [...boxes]) {
    await Promise.allSettled(open.map(async ({ box, drainMs }) => box.close({ drainMs: isRepeated ? 0 : drainMs })));
    for (const registration of open) boxes.delete(registration);
  }
  // Somebody else listens: the end of the process is theirs to choose.
  if (process.listenerCount(signal) > 0) return;
  setTimeout(() => {
    if (process.listenerCount(signal) === 0) process.kill(process.pid, signal);
  }, LAST_WORDS_MS);
}

function listen(signal: NodeJS.Signals): Listening {
  const boxes = new Set<Registration>();
  let told = 0;
  const onSignal = (): void => {
    told += 1;
    void shutDown(signal, boxes, told > 1);
  };
  process.on(signal, onSignal);
  const listener = { boxes, onSignal };
  listening.set(signal, listener);
  return listener;
}

function leave(signal: NodeJS.Signals, registration: Registration): void {
  const listener = listening.get(signal);
  if (listener === undefined) return;
  listener.boxes.delete(registration);
  if (listener.boxes.size > 0) return;
  process.off(signal, listener.onSignal);
  listening.delete(signal);
}

/** Closes the box when the process gets one of the signals. Dispose it when the box has been closed. */
export function closeOnSignals(box: Drainable, signals: readonly NodeJS.Signals[], drainMs: number): Disposable {
  const registration = { box, drainMs };
  for (const signal of signals) (listening.get(signal) ?? listen(signal)).boxes.add(registration);
  return {
    [Symbol.dispose]: () => {
      for (const signal of signals) leave(signal, registration);
    },
  };
}
