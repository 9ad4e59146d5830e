// How long a run waits for functions of the host. The run's signal ends every wait earlier; a model is bounded by the signal alone.

/** For `needsApproval`, `stopWhen` and `claim`, in ms: they may ask a database or a policy service. */
export const GUARD_TIMEOUT_MS = 30_000;
/** For `prepareMessages`, in ms: it may ask a model for a summary. */
export const PREPARE_TIMEOUT_MS = 300_000;
