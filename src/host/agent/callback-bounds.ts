// Timeouts of host callbacks in a run. The run's signal ends every wait earlier. A model has no timeout of its own, only the signal.

/** Timeout in ms of `needsApproval`, `stopWhen` and `claim`, which may query a database or a policy service. */
export const GUARD_TIMEOUT_MS = 30_000;
/** Timeout in ms of `prepareMessages`, which may request a summary from a model. */
export const PREPARE_TIMEOUT_MS = 300_000;
