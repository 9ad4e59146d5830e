// The executor of a tool whose code is loaded when it first runs. Concurrent first calls share one load; a load that fails is tried again
// by the next call.
import type { ToolExecutor } from "./executor.ts";

/**
 * Returns an executor that loads another one when it is first used.
 * @param properties the properties that are known before
 */
export function createLazyExecutor(
  properties: Pick<ToolExecutor, "source" | "sourceId" | "wants">,
  load: () => Promise<ToolExecutor>,
): ToolExecutor {
  let loading: Promise<ToolExecutor> | undefined;
  let loaded: ToolExecutor | undefined;
  let isRetired = false;
  const loadOnce = async (): Promise<ToolExecutor> => {
    try {
      loaded = await load();
      if (isRetired) loaded.retire?.();
      return loaded;
    } catch (thrown) {
      loading = undefined;
      throw thrown;
    }
  };
  return {
    ...properties,
    get warm() {
      return loaded?.warm;
    },
    execute: async (call, log) => {
      if (loaded === undefined) loading ??= loadOnce();
      return await (loaded ?? (await (loading as Promise<ToolExecutor>))).execute(call, log);
    },
    retire: () => {
      isRetired = true;
      loaded?.retire?.();
    },
  };
}
