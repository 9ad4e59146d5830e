// Data of the API for a component: loaded when it appears and when its key changes, and again at intervals while the page is visible.
import { useEffect, useRef, useState } from "preact/hooks";

export interface LoadedResource<Value> {
  /** The newest data; kept while it is loaded again. */
  readonly value: Value | undefined;
  readonly error: unknown;
  readonly isLoading: boolean;
  readonly reload: () => void;
}

interface ResourceState<Value> {
  readonly key: string;
  readonly value?: Value;
  readonly error?: unknown;
  readonly isLoading: boolean;
}

/**
 * @param key names the data; other data is loaded when it changes
 * @param everyMs time in ms between two loads. Default: once
 */
export function useResource<Value>(
  key: string,
  load: (signal: AbortSignal) => Promise<Value>,
  everyMs?: number,
): LoadedResource<Value> {
  const [state, setState] = useState<ResourceState<Value>>({ key, isLoading: true });
  const [round, setRound] = useState(0);
  const loader = useRef(load);
  loader.current = load;
  useEffect(() => {
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    setState((before) => (before.key === key ? { ...before, isLoading: true } : { key, isLoading: true }));
    const run = async (): Promise<void> => {
      try {
        const value = await loader.current(stop.signal);
        if (!stop.signal.aborted) setState({ key, value, isLoading: false });
      } catch (error) {
        if (!stop.signal.aborted) setState((before) => ({ ...before, key, error, isLoading: false }));
      }
      if (everyMs !== undefined && !stop.signal.aborted) timer = setTimeout(tick, everyMs);
    };
    const tick = (): void => {
      if (document.visibilityState === "visible") void run();
      else timer = setTimeout(tick, everyMs);
    };
    void run();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [key, round, everyMs]);
  const shown = state.key === key ? state : { isLoading: true };
  return {
    value: "value" in shown ? shown.value : undefined,
    error: "error" in shown ? shown.error : undefined,
    isLoading: shown.isLoading,
    reload: () => setRound((count) => count + 1),
  };
}
