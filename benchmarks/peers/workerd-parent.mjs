// Runs in workerd, with its worker loader: loads a job's worker for each request, or one that is loaded already, and calls it.
let next = 0;

export default {
  async fetch(request, env) {
    const { code, input, id } = await request.json();
    const name = id ?? `fresh-${next++}`;
    const worker = env.LOADER.get(name, () => ({
      compatibilityDate: "2026-11-01",
      mainModule: "main.js",
      modules: { "main.js": code },
      globalOutbound: null,
    }));
    // A function that is passed becomes a stub: each call of it comes back into this worker, which is the host.
    const output = await worker.getEntrypoint().execute(input, async (n) => n + 1);
    return Response.json(output ?? null);
  },
};
