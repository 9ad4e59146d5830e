// Limits of calls that end by themselves. No such call reaches them, on a machine that is ten times as slow as usual.
export const PATIENT_LIMITS = { timeoutMs: 120_000, cpuMs: 120_000, queueMs: 120_000 } as const;
